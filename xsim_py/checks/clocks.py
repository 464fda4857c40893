"""Vector clocks: which calls of a run happened before which others, whatever their times were.

They are computed after the run, and only where a check asks for them, from the steps that each rank has taken (Fidge
and Mattern, 1988). A call happens before another one if a chain of messages, collectives and synchronisations of
windows leads from the one to the other.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from .sides import Access, CollectiveCall, MessageSide, Signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .collectives import MembersCalls
    from .monitor import RankState

MOST_RANKS = 512
"""For more ranks than that no clocks are computed: each would take as many numbers as there are ranks."""

_FROM_ROOT = frozenset({"Bcast", "bcast", "Ibcast", "Scatter", "Scatterv", "scatter", "Iscatter", "Iscatterv"})
_TO_ROOT = frozenset({"Gather", "Gatherv", "gather", "Igather", "Igatherv", "Reduce", "reduce", "Ireduce"})
_SYNCHRONOUS = frozenset({"Comm.Ssend", "Comm.ssend", "Comm.Issend", "Comm.issend", "Comm.Ssend_init"})

Clock = Any
"""How many steps of each rank are known to have happened: an array of whole numbers."""


class Clocks:
    """Goes through the steps of all ranks, in an order in which they can have happened.

    Each side of a message, each call of a collective and each access to a window gets its `clock`.

    Parameters
    ----------
    ranks : dict of int to RankState
        All ranks of the run.
    """

    def __init__(self, ranks: dict[int, RankState]) -> None:
        self._places = {number: place for place, number in enumerate(sorted(ranks))}
        self._steps = {number: state.steps.listed() for number, state in ranks.items()}
        self._at = dict.fromkeys(ranks, 0)
        self._begun = dict.fromkeys(ranks, -1)
        self._clocks = {number: np.zeros(len(ranks), np.int64) for number in ranks}
        self._waiters: dict[int, list[int]] = {}
        self._ready = deque(sorted(ranks))
        self._coming: dict[int, list[Clock]] = {}  # of the members of collectives that not all have begun

    def compute(self) -> None:
        """Compute all clocks."""
        while self._ready:
            number = self._ready.popleft()
            steps = self._steps[number]
            while self._at[number] < len(steps):
                posted, waited, _ = steps[self._at[number]]
                if self._begun[number] < self._at[number]:
                    self._begun[number] = self._at[number]
                    self._begin(number, posted)
                missing = next((each for each in self._sources(number, waited) if each.clock is None), None)
                if missing is not None:
                    self._waiters.setdefault(id(missing), []).append(number)
                    break
                self._end(number, waited)
                self._at[number] += 1

    def happened_before(self, one: Access, other: Access) -> bool:
        """Return whether something was complete before another thing began."""
        return bool(one.ended) and bool(other.clock[self._places[one.rank]] >= one.ended)

    def known_to(self, one: Access, other: Access) -> bool:
        """Return whether something had begun, as the rank knew that began another thing."""
        place = self._places[one.rank]
        return bool(other.clock[place] >= one.clock[place])

    def _tick(self, number: int) -> int:
        clock = self._clocks[number]
        clock[self._places[number]] += 1
        return int(clock[self._places[number]])

    def _begin(self, number: int, posted: list[Any]) -> None:
        for each in posted:
            self._tick(number)
            each.clock = self._clocks[number].copy()
            self._ready += self._waiters.pop(id(each), ())
            if isinstance(each, CollectiveCall) and each.meeting is not None:
                self._join(each.meeting, each.clock)

    def _join(self, meeting: MembersCalls, clock: Clock) -> None:
        """Have one more member begin a collective; once all have, it has the clock of who has heard from all."""
        coming = self._coming.setdefault(id(meeting), [])
        coming.append(clock)
        if len(coming) == len(meeting.calls):
            meeting.clock = np.maximum.reduce(self._coming.pop(id(meeting)))
            self._ready += self._waiters.pop(id(meeting), ())

    def _end(self, number: int, waited: list[Any]) -> None:
        clock: NDArray[np.int64] = self._clocks[number]
        for source in self._sources(number, waited):
            np.maximum(clock, source.clock, out=clock)
        step = self._tick(number)
        for each in waited:
            if isinstance(each, Access):
                each.ended = step

    def _sources(self, number: int, waited: list[Any]) -> list[Any]:
        """Return what has to have begun before a rank goes on that waits for these."""
        found: list[Any] = []
        for each in waited:
            if isinstance(each, MessageSide):
                if each.partner is not None and (not each.sends or each.name in _SYNCHRONOUS):
                    found.append(each.partner)
            elif isinstance(each, Signal):
                if each.given:
                    found.append(each)
            elif isinstance(each, Access):
                found += each.after
            elif isinstance(each, CollectiveCall):
                found += _heard(each)
        return found


def _heard(said: CollectiveCall) -> list[Any]:
    """Return the member of a collective from which this one has certainly heard when its call ends, or all together."""
    if said.meeting is None:
        return []
    if said.root is None or said.name not in _FROM_ROOT | _TO_ROOT:
        return [said.meeting]
    root = said.meeting.calls.get(said.root)
    if said.name in _FROM_ROOT:
        return [] if root is None or root is said else [root]
    return [said.meeting] if root is said else []
