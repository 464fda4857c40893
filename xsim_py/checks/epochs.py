"""Checks of a rank's epochs on a window: nested ones, and those that never end."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from xsim_py.findings import EPOCH_LIFECYCLE
from xsim_py.mpi.constants import LOCK_EXCLUSIVE, LOCK_SHARED, MODE_NOPRECEDE, MODE_NOSUCCEED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xsim_py.mpi.rma.epochs import Epochs

    from .monitor import Monitor, MpiCall
    from .records import Place
    from .windows import OpenWindow

ALL, POSTED = -1, -2
"""Keys of `OpenWindow.begun` for all targets and for the rank's own memory."""


def fenced(call: MpiCall, mine: OpenWindow, assertion: int) -> None:
    """Record a fence, which ends the previous epoch and begins another."""
    if mine.fences != 1 or assertion & MODE_NOPRECEDE:
        mine.locked_inside = None
    mine.is_opened_by_fence = not mine.begun and not assertion & MODE_NOSUCCEED
    mine.begun[ALL] = call.place


def accessed(mine: OpenWindow, target: int) -> None:
    """Record accesses under a lock."""
    if mine.is_opened_by_fence:
        mine.locked_inside = mine.begun.get(target) or mine.begun[ALL]


def check_locks(monitor: Monitor, calls: Iterable[MpiCall]) -> None:
    """Find locks that are never released and block other ranks forever."""
    waiting = {call.rank.number: call for call in calls if call.title == "Win.Lock"}
    holding = [
        (number, mine)
        for number, state in monitor.ranks.items()
        for mine in (() if number in waiting else state.windows.values())
    ]
    for call in waiting.values():
        wants = [theirs for theirs in call.rank.windows.values() if theirs.awaited_lock is not None]
        for theirs, (number, mine) in product(wants, holding):
            for target in _blocking_locks(mine, theirs) if mine.key == theirs.key else ():
                where = f"{monitor.where(call.place)}: {call.title} of rank {call.rank.number} waits for it"
                text = f"the lock of {'all ranks' if target == ALL else f'rank {target}'} is never released"
                monitor.note(EPOCH_LIFECYCLE, mine.begun[target], text, number, where)


def _blocking_locks(mine: OpenWindow, theirs: OpenWindow) -> list[int]:
    """Return the targets of a rank's locks that block the lock another rank is waiting for."""
    assert theirs.awaited_lock is not None
    target, kind = theirs.awaited_lock
    locks = {ALL: LOCK_SHARED} if mine.window.epochs.all_locked else mine.locks
    return [locked for locked in locks if locked in (ALL, target) and LOCK_EXCLUSIVE in (kind, locks[locked])]


def unfinished(monitor: Monitor, number: int) -> None:
    """Find unfinished epochs, and accesses under a lock acquired between two fences.

    Those two fences form an epoch, in which the lock begins another (MPI 4.1, 12.5.1 and 12.5.3). This counts only if
    they are the only fences of a window and nothing came before: programs that use fences as barriers between locks
    pass no assertions, and every library accepts that.
    """
    for mine in monitor.ranks[number].windows.values():
        if mine.locked_inside is not None and mine.fences == 2:
            text = "a lock is acquired and released between two calls of Win.Fence, which are an epoch themselves"
            monitor.note(EPOCH_LIFECYCLE, mine.locked_inside, text, number)
        opened = "" if mine.window.freed else mine.window.epochs.opened
        if opened:
            text = f"the epoch of the window is never ended: the rank is {opened}"
            made: Place = monitor.ranks[number].objects[id(mine.window)].place
            monitor.note(EPOCH_LIFECYCLE, _beginning(mine, mine.window.epochs) or made, text, number)


def _beginning(mine: OpenWindow, epochs: Epochs) -> Place | None:
    """Return the place of the first access of an epoch, or of its beginning."""
    places = [each.place for accesses in mine.open.values() for each in accesses]
    keys = (POSTED,) if epochs.exposed_to is not None else (*epochs.targets, ALL)
    return next(iter([*places, *(mine.begun[key] for key in keys if key in mine.begun)]), None)
