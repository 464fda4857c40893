"""Vector clocks: which calls of a run happened before which others.

This is independent of their times.

They are computed after the run, only if a check needs them, from the steps of each rank (Fidge and Mattern, 1988). A
call happens before another if a chain of messages, collectives and window synchronisations leads from one to the other.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.mpi4py.call_table import COLLECTIVES

from .records import Access, CollectiveCall, CollectiveCalls, MessageSide, Signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .monitor import RankState

MOST_RANKS = 512
"""No clocks are computed for more ranks than this: each clock takes one number per rank."""

_FROM_ROOT = frozenset(form for row in COLLECTIVES.values() if row.from_root for form in row.forms)
_TO_ROOT = frozenset(form for row in COLLECTIVES.values() if row.to_root for form in row.forms)
_SYNCHRONOUS = frozenset({"Comm.Ssend", "Comm.ssend", "Comm.Issend", "Comm.issend", "Comm.Ssend_init"})

Clock = tuple[Any, int, int]
"""The number of steps of each rank known to have happened: an immutable array, in which the entry of one rank is too
low; the index of that entry; and its true value. Steps that involve no other rank copy no array.
"""


class Clocks:
    """A replay of the steps of all ranks in an order consistent with what happened.

    It sets the `clock` of each side of a message, each call of a collective and each access to a window.
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
        # The number of members of each collective that have yet to begin, and the clocks of the others.
        self._pending: dict[int, tuple[int, list[Clock]]] = {}

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
        """Return True if one access was complete before the other began."""
        return 0 < one.ended <= self._known_of(one, other)

    def known_to(self, one: Access, other: Access) -> bool:
        """Return True if the rank that began the other access knew that one had begun."""
        return bool(one.clock[2] <= self._known_of(one, other))

    def _known_of(self, one: Access, other: Access) -> int:
        """Return how many steps of one access's rank were known when the other access began."""
        known, place, tick = other.clock
        at = self._places[one.rank]
        return int(tick if at == place else known[at])

    def _begin(self, number: int, posted: list[Any]) -> None:
        for each in posted:
            self._ticks[number] += 1
            each.clock = self._known[number], self._places[number], self._ticks[number]
            if self._waiters:
                self._ready += self._waiters.pop(id(each), ())
            if type(each) is CollectiveCall and each.instance is not None:
                self._member_begins(each.instance, each.clock)

    def _member_begins(self, instance: CollectiveCalls, clock: Clock) -> None:
        """Record that a member has begun a collective.

        After the last one, set the joint clock of all members.
        """
        missing, begun = self._pending.get(id(instance)) or (_recorded(instance), [])
        begun.append(clock)
        self._pending[id(instance)] = missing - 1, begun
        if missing == 1:
            instance.clock = _merged(begun), 0, 0
            del self._pending[id(instance)]
            self._ready += self._waiters.pop(id(instance), ())

    def _end(self, number: int, waited: list[Any], sources: list[Any]) -> None:
        if sources:
            received = [source.clock for source in sources if source.clock]
            self._known[number] = _merged([(self._known[number], 0, 0), *received])
        step = self._ticks[number] = self._ticks[number] + 1
        for each in waited:
            if type(each) is Access:
                each.ended = step

    def _sources(self, waited: list[Any]) -> list[Any]:
        """Return the records that must have begun before a rank waiting for these can continue."""
        found: list[Any] = []
        for each in waited:
            kind = type(each)
            if kind is MessageSide:
                if each.partner is not None and (not each.sends or each.name in _SYNCHRONOUS):
                    found.append(each.partner)
            elif kind is Signal:
                if each.sent:
                    found.append(each)
            elif kind is Access:
                found += each.after
            elif kind is CollectiveCall:
                received = _synchronised_with(each)
                if (
                    received
                    and received[0] is each.instance
                    and received[0].clock is None
                    and not _recorded(received[0])
                ):
                    received[0].clock = 0
                found += received
        return found


def _recorded(instance: CollectiveCalls) -> int:
    """Return the number of recorded calls of a collective, without those replayed earlier.

    Replayed calls have no clocks.
    """
    return sum(entry.clock != 0 for entry in instance.calls.values())


def _merged(clocks: list[Clock]) -> NDArray[np.int64]:
    """Return the knowledge of a rank that has received all of these clocks."""
    merged: NDArray[np.int64] = clocks[0][0].copy()
    for known, place, tick in clocks:
        np.maximum(merged, known, out=merged)
        if merged[place] < tick:
            merged[place] = tick
    return merged


def _synchronised_with(entry: CollectiveCall) -> list[Any]:
    """Return the member with which a collective certainly synchronises this one.

    The instance stands for all members together.
    """
    if entry.instance is None:
        return []
    if entry.root is None or entry.name not in _FROM_ROOT | _TO_ROOT:
        return [entry.instance]
    root = entry.instance.calls.get(entry.root)
    if entry.name in _FROM_ROOT:
        return [] if root is None or root is entry else [root]
    return [entry.instance] if root is entry else []
