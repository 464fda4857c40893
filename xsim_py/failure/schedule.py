"""The failures that one start of a job will meet: plain data, for whoever makes them and for whoever shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from xsim_py.units import format_time, ordinal

INJECTED = "injected: "
"""How the cause of a failure begins that was written down as such, and not drawn or read from a trace."""


class Failure(NamedTuple):
    """The death of a rank when its own clock reaches a time."""

    rank: int
    time_ps: int
    cause: str


class CallSite(NamedTuple):
    """The death of a rank at a place of its program: before or after its n-th call of a name, or some time into it.

    What is some time into a call is counted from its beginning, by the rank's own clock, and comes even where the call
    is over by then.
    """

    rank: int
    before: bool
    ordinal: int
    """From 1, and since this start of the job."""
    name: str
    """As mpi4py spells it; ``call`` is any MPI call."""
    into_ps: int | None = None
    """How long after the call has begun; None: before it begins, or after it has returned."""

    def __str__(self) -> str:
        """Return it as people write it."""
        return f"rank={self.rank} {self.when} its {ordinal(self.ordinal)} {self.name}"

    @property
    def when(self) -> str:
        """The words between the rank and the call: ``before``, ``after`` or ``5us into``."""
        if self.into_ps is not None:
            return f"{format_time(self.into_ps, digits=None).replace(' ', '')} into"
        return "before" if self.before else "after"

    @property
    def cause(self) -> str:
        """The cause of that death."""
        return f"{INJECTED}{self}"


class Flip(NamedTuple):
    """One bit that changes in a rank's data, from the time on that its own clock reaches."""

    number: int
    """Which of all flips it is, as they were written: it names the stream from which the rest is drawn."""
    rank: int
    time_ps: int
    target: str
    """``message``, the next one that leaves, or ``array``, one that the program has exposed."""
    array: str | None = None
    """The name of the array; None: drawn."""
    bit: int | None = None
    """Bit ``bit % 8`` of byte ``bit // 8``; None: drawn."""

    def __str__(self) -> str:
        """Return it as people write it."""
        time = format_time(self.time_ps, digits=None).replace(" ", "")
        more = [f",{key}={value}" for key, value in (("array", self.array), ("bit", self.bit)) if value is not None]
        return f"flip:{self.target},rank={self.rank},at={time}{''.join(more)}"


class Hang(NamedTuple):
    """A process that stands still for a while, from when its own clock reaches a time."""

    rank: int
    time_ps: int
    for_ps: int

    def __str__(self) -> str:
        """Return it as people write it."""
        time, length = (format_time(ps, digits=None).replace(" ", "") for ps in (self.time_ps, self.for_ps))
        return f"hang:rank={self.rank},at={time},for={length}"


class Schedule(NamedTuple):
    """Every failure that one start of a job may meet."""

    timed: tuple[Failure, ...]
    """In the order of time and rank, and at most one for each rank: nobody dies twice."""
    sites: tuple[CallSite, ...]
    written: Mapping[tuple[int, str], str]
    """What was written down, not drawn or read from a trace: the statement, by the rank and cause of the death."""
    flips: tuple[Flip, ...] = ()
    """The bits that change, in the order of time and rank."""
    hangs: tuple[Hang, ...] = ()
    """The processes that stand still, in the same order."""
