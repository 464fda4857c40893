"""The failures of one start of a job, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

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


class Flip(NamedTuple):
    """A bit flip in a rank's data, from the time that its clock reaches on."""

    number: int
    """Its index among all flips as written, which names the stream of its random draws."""
    rank: int
    time_ps: int
    target: str
    """``message``, the next one sent, or ``array``, one that the program has exposed."""
    array: str | None = None
    """The name of the array; None: drawn."""
    bit: int | None = None
    """Bit ``bit % 8`` of byte ``bit // 8``; None: drawn."""

    def __str__(self) -> str:
        """Return it in the form of a statement."""
        time = format_time(self.time_ps, digits=None).replace(" ", "")
        more = [f",{key}={value}" for key, value in (("array", self.array), ("bit", self.bit)) if value is not None]
        return f"flip:{self.target},rank={self.rank},at={time}{''.join(more)}"


class Hang(NamedTuple):
    """A process that hangs for a while, from the time that its clock reaches on."""

    rank: int
    time_ps: int
    for_ps: int

    def __str__(self) -> str:
        """Return it in the form of a statement."""
        time, length = (format_time(ps, digits=None).replace(" ", "") for ps in (self.time_ps, self.for_ps))
        return f"hang:rank={self.rank},at={time},for={length}"


class Schedule(NamedTuple):
    """All failures of one start of a job."""

    timed: tuple[Failure, ...]
    """In the order of time and rank, at most one per rank: a rank fails once."""
    sites: tuple[CallSite, ...]
    written: Mapping[tuple[int, str], str]
    """The statements of explicit failures, by rank and cause of the failure."""
    flips: tuple[Flip, ...] = ()
    """Bit flips, in the order of time and rank."""
    hangs: tuple[Hang, ...] = ()
    """Hangs, in the same order."""
