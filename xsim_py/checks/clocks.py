"""Vector clocks: which calls of a run happened before which others, whatever their times were.

They are computed after the run, and only where a check asks for them, from the steps that each rank has taken (Fidge
and Mattern, 1988). A call happens before another one if a chain of messages, collectives and synchronisations of
windows leads from the one to the other.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from .records import Access, CollectiveCall, MembersCalls, MessageSide, Signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .monitor import RankState

MOST_RANKS = 512
"""For more ranks than that no clocks are computed: each would take as many numbers as there are ranks."""

_FROM_ROOT = frozenset({"Bcast", "bcast", "Ibcast", "Scatter", "Scatterv", "scatter", "Iscatter", "Iscatterv"})
_TO_ROOT = frozenset({"Gather", "Gatherv", "gather", "Igather", "Igatherv", "Reduce", "reduce", "Ireduce"})
_SYNCHRONOUS = frozenset({"Comm.Ssend", "Comm.ssend", "Comm.Issend", "Comm.issend", "Comm.Ssend_init"})

Clock = tuple[Any, int, int]
"""How many steps of each rank are known to have happened: an array that is never changed, in which the steps of one
rank stand too low; the place of that one in it; and how many these are. What a rank does by itself copies no array."""


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
        self._known: dict[int, NDArray[np.int64]] = dict.fromkeys(ranks, np.zeros(len(ranks), np.int64))
        self._ticks = dict.fromkeys(ranks, 0)
        self._waiters: dict[int, list[int]] = {}
        self._ready = deque(sorted(ranks))
        # How many members of collectives have yet to begin, and the clocks of those that have.
        self._coming: dict[int, tuple[int, list[Clock]]] = {}

    def compute(self) -> None:
        """Compute all clocks."""
        while self._ready:
            number = self._ready.popleft()
            steps, at = self._steps[number], self._at[number]
            while at < len(steps):
                posted, waited, _ = steps[at]
                if self._begun[number] < at:
                    self._begun[number] = at
                    self._begin(number, posted)
                if waited:
                    sources = self._sources(waited)
                    missing = next((each for each in sources if each.clock is None), None) if sources else None
                    if missing is not None:
                        self._waiters.setdefault(id(missing), []).append(number)
                        break
                    self._end(number, waited, sources)
                at += 1
            self._at[number] = at

    def happened_before(self, one: Access, other: Access) -> bool:
        """Return whether something was complete before another thing began."""
        return 0 < one.ended <= self._known_of(one, other)

    def known_to(self, one: Access, other: Access) -> bool:
        """Return whether something had begun, as the rank knew that began another thing."""
        return bool(one.clock[2] <= self._known_of(one, other))

    def _known_of(self, one: Access, other: Access) -> int:
        """Return how many steps of the rank of one access the rank of another knew when that began."""
        known, place, tick = other.clock
        at = self._places[one.rank]
        return int(tick if at == place else known[at])

    def _begin(self, number: int, posted: list[Any]) -> None:
        for each in posted:
            self._ticks[number] += 1
            each.clock = self._known[number], self._places[number], self._ticks[number]
            if self._waiters:
                self._ready += self._waiters.pop(id(each), ())
            if type(each) is CollectiveCall and each.meeting is not None:
                self._join(each.meeting, each.clock)

    def _join(self, meeting: MembersCalls, clock: Clock) -> None:
        """Have one more member begin a collective; once all have, it has the clock of who has heard from all."""
        missing, begun = self._coming.get(id(meeting)) or (_kept(meeting), [])
        begun.append(clock)
        self._coming[id(meeting)] = missing - 1, begun
        if missing == 1:
            meeting.clock = _joined(begun), 0, 0
            del self._coming[id(meeting)]
            self._ready += self._waiters.pop(id(meeting), ())

    def _end(self, number: int, waited: list[Any], sources: list[Any]) -> None:
        if sources:
            heard = [source.clock for source in sources if source.clock]
            self._known[number] = _joined([(self._known[number], 0, 0), *heard])
        step = self._ticks[number] = self._ticks[number] + 1
        for each in waited:
            if type(each) is Access:
                each.ended = step

    def _sources(self, waited: list[Any]) -> list[Any]:
        """Return what has to have begun before a rank goes on that waits for these."""
        found: list[Any] = []
        for each in waited:
            kind = type(each)
            if kind is MessageSide:
                if each.partner is not None and (not each.sends or each.name in _SYNCHRONOUS):
                    found.append(each.partner)
            elif kind is Signal:
                if each.given:
                    found.append(each)
            elif kind is Access:
                found += each.after
            elif kind is CollectiveCall:
                heard = _heard(each)
                if heard and heard[0] is each.meeting and heard[0].clock is None and not _kept(heard[0]):
                    heard[0].clock = 0
                found += heard
        return found


def _kept(meeting: MembersCalls) -> int:
    """Return how many members' calls of a collective are kept: those that were gone through before have no clocks."""
    return sum(said.clock != 0 for said in meeting.calls.values())


def _joined(clocks: list[Clock]) -> NDArray[np.int64]:
    """Return what is known to who has heard of all of these."""
    joined: NDArray[np.int64] = clocks[0][0].copy()
    for known, place, tick in clocks:
        np.maximum(joined, known, out=joined)
        if joined[place] < tick:
            joined[place] = tick
    return joined


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
