"""What one start of a job will meet: plain data, for whoever kills ranks and for whoever shows it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["INJECTED", "CallSite", "Failure", "Schedule"]

INJECTED = "injected: "
"""How the cause of a failure begins that was written down as such, and not drawn or read from a trace."""


class Failure(NamedTuple):
    """The death of a rank when its own clock reaches a time."""

    rank: int
    time_ps: int
    cause: str


class CallSite(NamedTuple):
    """The death of a rank at a place of its program: before or after the ``count``-th call of that name."""

    rank: int
    before: bool
    count: int  # type: ignore[assignment]  # nobody counts in a tuple that is a record
    """From 1, and since this start of the job."""
    name: str
    """As mpi4py spells it; ``call`` is any MPI call."""
    cause: str


class Schedule(NamedTuple):
    """Every failure that one start of a job may meet."""

    timed: tuple[Failure, ...]
    """In the order of time and rank, and at most one for each rank: nobody dies twice."""
    sites: tuple[CallSite, ...]
