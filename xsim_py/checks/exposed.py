"""The rank's own loads and stores of memory it exposes in a window."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from xsim_py.mpi.constants import LOCK_EXCLUSIVE
from xsim_py.mpi.memory import address_of
from xsim_py.process.ranks import current

from .elements import joined
from .loops import is_polling, is_repeated
from .records import ACCUMULATE, READ, WRITE, Access, Place
from .sources import LOAD, MAYBE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from .monitor import Monitor, RankState
    from .windows import OpenWindow


class Exposed:
    """Memory that a rank exposes in a window and may itself load from and store to."""

    __slots__ = ("_last", "_mine", "_monitor", "_state", "pieces")
    is_window = True

    def __init__(self, monitor: Monitor, state: RankState, mine: OpenWindow) -> None:
        self._monitor = monitor
        self._state = state
        self._mine = mine
        self._last: Any = None
        start = address_of(mine.window.memory)
        self.pieces = [(start, start + len(mine.window.memory))]

    def record_access(
        self, how: str, place: Place, pieces: list[tuple[int, int]], array: object, frame: FrameType | None
    ) -> None:
        """Record a load or store by the rank itself."""
        if how == MAYBE:
            return
        window, state, epoch = self._mine.window, self._state, self._mine.fences
        if self._mine.polled:
            note_read(self._monitor, state, self._mine, place)
        if window.freed or self._last == (how, place, pieces, epoch, len(state.steps.pending)):
            return  # the same line again, with no call in between
        base = self.pieces[0][0]
        inside = [(start - base, end - base) for start, end in pieces]
        kind, title = (READ, "a load") if how == LOAD else (WRITE, "a store")
        exclusive = self._mine.locks.get(window.comm.me) == LOCK_EXCLUSIVE
        access = Access(state.number, title, place, kind, "", inside, exclusive=exclusive, epoch=epoch)
        access.is_local = True
        access.since = access.until = state.next_moment()
        access.is_passive = window.comm.me in self._mine.locks or window.epochs.all_locked
        access.was_polled = all(any(a <= low and high <= b for a, b in self._mine.polled) for low, high in inside)
        if how == LOAD:
            access.polls = self._polls(place, frame, inside)
        else:
            access.polls = self._may_repeat(place, frame)
            latest_of(self._monitor, "stored", self._mine, window.comm.me)[state.number] = access
        self._monitor.accesses.setdefault((self._mine.key, window.comm.me), []).append(access)
        state.steps.add([access], [access], False)
        self._last = (how, place, pieces, epoch, len(state.steps.pending))

    @property
    def key(self) -> tuple[Any, int]:
        """The key under which accesses to this memory are kept."""
        return self._mine.key, self._mine.window.comm.me

    @property
    def is_over(self) -> bool:
        """True if the window is freed."""
        return bool(self._mine.window.freed)

    def reset(self) -> None:
        """Record the next load or store even if it repeats the last one, which has been dropped."""
        self._last = None

    def withdraw(self, place: Place) -> None:
        """Drop the accesses of a rejected call, identified by this very place object."""
        key = self.key
        accesses = self._monitor.accesses.get(key, [])
        while accesses and accesses[-1].place is place:
            accesses.pop()
            self._last = None
            if not accesses:
                del self._monitor.accesses[key]

    def _polls(self, place: Place, frame: FrameType | None, inside: list[tuple[int, int]]) -> bool:
        """Return True if a load polls, or may follow a synchronisation unknown to the monitor."""
        if self._may_be_signalled():
            return True
        if frame is None:
            return False
        if is_polling(place[1], frame):
            self._mine.polled = joined([*self._mine.polled, *inside])
            return True
        last = None if (fiber := current.here()) is None else fiber.call
        has_synced = last is not None and last.name == "Sync" and last.place == self._mine.synced
        return has_synced and is_repeated(place[1], frame)

    def _may_repeat(self, place: Place, frame: FrameType | None) -> bool:
        """Return True if a store may be repeated, or follow a synchronisation unknown to the monitor."""
        if self._may_be_signalled():
            return True
        return is_repeated(0, sys._getframe()) if frame is None else is_repeated(place[1], frame)

    def _may_be_signalled(self) -> bool:
        """Return True if a flag in unmonitored shared memory may have synchronised the rank."""
        return any(mine.is_shared and not mine.window.freed for mine in self._state.windows.values())


def latest_of(monitor: Monitor, what: str, mine: OpenWindow, target: int) -> dict[int, Access]:
    """Return each rank's last accumulate, put or store on a target.

    A rank that sees it knows all before it.
    """
    found: dict[int, Access] = monitor.signals.setdefault((mine.key, what, target), {})
    return found


def note_seen(access: Access) -> None:
    """Record the accumulations that a fetching access may have seen."""
    access.after = [last for rank, last in access.latest.items() if rank != access.rank]


def note_read(monitor: Monitor, state: RankState, mine: OpenWindow, place: Place) -> None:
    """Record that a rank reads its own memory and may see what others last stored there."""
    me = mine.window.comm.me
    latest = [access for how in (WRITE, ACCUMULATE) for access in latest_of(monitor, how, mine, me).values()]
    after = [access for access in latest if access.rank != state.number]
    if after and after != mine.last_seen:
        mine.last_seen = after
        state.steps.add([], [seen_record(state.number, place, after)], False)


def seen_record(rank: int, place: Place, after: Sequence[Access]) -> Access:
    """Return a record of having seen the results of accesses.

    A rank that waits for it comes after them.
    """
    record = Access(rank, "", place, READ, "", [], exclusive=False)
    record.after = after
    return record
