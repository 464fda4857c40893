"""The failures of one start of a job, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xsim_py.failure.fault import Fault
from xsim_py.units import format_time, ordinal

INJECTED = "injected: "
"""The start of the cause of an explicit failure, as opposed to a drawn or traced one."""


class Failure(NamedTuple):
    """The failure of a rank when its clock reaches a time."""

    rank: int
    time_ps: int
    cause: str


class CallSite(NamedTuple):
    """The failure of a rank at its n-th call of a name: before, after, or some time into it.

    The time into a call counts from its beginning, by the rank's clock; the failure happens even if the call is over by
    then.
    """

    rank: int
    before: bool
    ordinal: int
    """From 1, counted since this start of the job."""
    name: str
    """As in mpi4py; ``call`` is any MPI call."""
    into_ps: int | None = None
    """Time from the beginning of the call; None: before it begins, or after it has returned."""

    def __str__(self) -> str:
        """Return it in the form of a statement."""
        return f"rank={self.rank} {self.when} its {ordinal(self.ordinal)} {self.name}"

    @property
    def when(self) -> str:
        """The words between the rank and the call: ``before``, ``after`` or ``5us into``."""
        if self.into_ps is not None:
            return f"{format_time(self.into_ps, digits=None).replace(' ', '')} into"
        return "before" if self.before else "after"

    @property
    def cause(self) -> str:
        """The cause of the failure."""
        return f"{INJECTED}{self}"


class Schedule(NamedTuple):
    """All failures of one start of a job."""

    timed: tuple[Failure, ...]
    """In the order of time and rank, at most one per rank: a rank fails once."""
    sites: tuple[CallSite, ...]
    written: Mapping[tuple[int, str], str]
    """The statements of explicit failures, by rank and cause of the failure."""
    faults: Mapping[str, Sequence[Fault]]
    """Other faults by kind (all kinds), in the order of time and rank."""
