"""Waits for any or some requests, with choices by the run's schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xsim_py.mpi.transport.choices import Chooser
from xsim_py.schedules import FREE

from .inside import task_of

__all__ = ["OpenWait"]


class OpenWait:
    """A wait for any or some requests in a run with a schedule.

    `active` contains the indices of the active ones.
    """

    def __init__(self, chooser: Chooser, kind: str, requests: Sequence[Any], active: list[int]) -> None:
        forced = chooser.next_forced()
        self.is_forced = forced != FREE
        self.active = chooser.among(active, forced, several=kind == "some")
        self._chooser, self._kind = chooser, kind
        self._count = len(requests)
        self._operations = [(index, task_of(requests[index]).operation) for index in active]

    def record(self, choice: int) -> None:
        """Record the choice."""
        self._chooser.waited(self._chooser.begin(self._kind, count=self._count), choice, self._operations)
