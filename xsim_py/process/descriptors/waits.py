"""Waiting in virtual time for descriptors of the operating system, without stopping other ranks.

A rank polls, and if the descriptor is not ready it is parked. It polls again when its rank or another rank has operated
on a descriptor that others may wait for (`wake`, `sockets`), or on timeout. If only an event in reality can end the
wait, such as a child process's write to a pipe, it waits in real time, which takes no virtual time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xsim_py.engine import LATE
from xsim_py.process.ranks.fiber import UNTIL, Fiber, Parked
from xsim_py.process.ranks.queues import is_shared, sync_threads, yield_to_threads

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

_SOCKETS = "sockets"
_LEAST_PS = 1000  # clocks count in nanoseconds
_SLICE_S = 0.001  # the real waiting time before a rank's other threads continue
_PATIENT_SLICES = 1000  # slices during which no virtual time passes for them: then they may have to do something first
_real_sleep = time.sleep


class Pause(Parked):
    """A fiber that waits for a descriptor or a time; `sockets` treats it as a fiber."""

    __slots__ = ("fiber", "over", "what")

    def __init__(self, fiber: Fiber, what: str) -> None:
        self.fiber = fiber
        self.over = False  # whether the wait has ended
        self.what = what

    @property
    def rank(self) -> Rank:
        """The rank that waits."""
        return self.fiber.rank

    @property
    def clock_ps(self) -> int:
        """The clock of the fiber that waits."""
        return self.fiber.clock_ps

    @clock_ps.setter
    def clock_ps(self, time_ps: int) -> None:
        if not self.over:
            self.fiber.clock_ps = time_ps

    def resume(self) -> None:
        """Resume the fiber, unless the wait has already ended."""
        if not self.over and self.rank.exit_status is None:
            self.over = True
            self.fiber.resume()

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        return self.what


def until(
    fiber: Fiber,
    ready: Callable[[], Any],
    timeout_s: float | None,
    what: str,
    really: Callable[[], Callable[[float | None], Any] | None] | None = None,
) -> Any:
    """Wait until `ready` returns a true value or the timeout expires; return its last value.

    `ready` polls without waiting. The timeout is in virtual time. `what` is the description for the deadlock report. If
    only an event in reality can end the wait, `really` returns a function that waits on the wall clock for a number of
    seconds; else None.
    """
    sync_threads(fiber)
    await_turn(fiber)
    found = ready()
    if found or (timeout_s is not None and timeout_s <= 0):
        return found
    until_ps = None if timeout_s is None else fiber.clock_ps + max(_LEAST_PS, round(timeout_s * 10**12))
    fiber.sync()
    found = ready()  # it may have become ready meanwhile
    while not found and (until_ps is None or fiber.clock_ps < until_ps):
        wait = None if really is None else really()
        if wait is not None:
            return _wait_on_host(fiber, wait, until_ps)
        _pause(fiber, until_ps, what)
        await_turn(fiber)
        found = ready()
    return found


def note_sockets(rank: Rank) -> None:
    """Record that a rank operates on sockets."""
    rank.private(_SOCKETS, lambda: True)


def await_turn(fiber: Fiber) -> None:
    """Take a turn before looking at a descriptor, if the rank has operated on sockets."""
    extra = fiber.rank.extra
    if extra is not None and _SOCKETS in extra:
        take_turn(fiber)


def take_turn(fiber: Fiber) -> None:
    """Wait until everything that ranks do before this time has happened in reality, in all shards.

    Sockets are the host's: what a rank finds there must not depend on how far other shards have run. At equal times,
    the order is that of the ranks. A turn takes a nanosecond: a rank that asks repeatedly must not stop the others.
    """
    rank = fiber.rank
    note_sockets(rank)
    fiber.sleep(_LEAST_PS)
    kernel = rank.shard.kernel
    if not (rank.shard.alone or rank.shard.in_turn):
        rank.shard.take_turns()
        kernel.post(kernel.now_ps, rank.key + 1, _continue, fiber)
        fiber.park(UNTIL)
    rank.key += 1
    kernel.post(kernel.now_ps, rank.key + LATE, Fiber.resume, fiber)
    fiber.park(UNTIL)


def _continue(fiber: Fiber) -> None:
    fiber.rank.shard.kernel.events -= 1  # with one shard there is no such event
    fiber.resume()


def _wait_on_host(fiber: Fiber, really: Callable[[float | None], Any], until_ps: int | None) -> Any:
    """Wait for a child process on the wall clock, which takes virtual time only if the timeout expires."""
    if not is_shared(fiber.rank):
        left_ps = 0 if until_ps is None else until_ps - fiber.clock_ps
        found = really(None if until_ps is None else left_ps / 10**12)
        if not found:
            fiber.sleep(left_ps)
        return found
    # Per rank rather than per wait: its threads may wait alternately, none of them long enough for time to pass.
    slices: list[int] = fiber.rank.private("slices", lambda: [0])
    found = None
    while not found and (until_ps is None or fiber.clock_ps < until_ps):
        found = really(_SLICE_S)
        slices[0] = 0 if found else slices[0] + 1
        if slices[0] > _PATIENT_SLICES:
            fiber.sleep(round(_SLICE_S * 10**12))
        elif not found:
            yield_to_threads(fiber)
    return found


def poll(fiber: Fiber, ready: Callable[[], Any], timeout_s: float | None = None) -> bool:
    """Make the running fiber wait for an event outside or in another rank: both clocks advance meanwhile.

    Return False if the timeout expires first.
    """
    fiber.sync()
    until_ps = None if timeout_s is None else fiber.clock_ps + round(timeout_s * 10**12)
    while not ready():
        if until_ps is not None and fiber.clock_ps >= until_ps:
            return False
        _real_sleep(_SLICE_S)
        fiber.sleep(round(_SLICE_S * 10**12))
    return True


def _pause(fiber: Fiber, until_ps: int | None, what: str) -> None:
    pause = Pause(fiber, what)
    rank = fiber.rank
    rank.shard.socket_waiters.append(pause)
    if until_ps is not None:
        rank.key += 1
        rank.shard.kernel.post(until_ps, rank.key, _due, (pause, until_ps))
    fiber.park(pause)


def _due(entry: tuple[Pause, int]) -> None:
    pause, until_ps = entry
    if not pause.over and pause.rank.exit_status is None:
        pause.clock_ps = max(pause.clock_ps, until_ps)
        waiting = pause.rank.shard.socket_waiters
        if pause in waiting:  # else it is about to be woken
            waiting.remove(pause)
        pause.resume()


def wake(fiber: Fiber) -> None:
    """Make the other threads of the running fiber's rank poll again, at its time."""
    rank = fiber.rank
    waiting = rank.shard.socket_waiters
    for pause in [pause for pause in waiting if pause.rank is rank]:
        waiting.remove(pause)
        rank.key += 1
        rank.shard.kernel.post(max(fiber.clock_ps, rank.shard.kernel.now_ps), rank.key, _woken, pause)


def _woken(pause: Fiber) -> None:
    rank = pause.rank
    if rank.exit_status is None:
        pause.clock_ps = max(pause.clock_ps, rank.shard.kernel.now_ps)
        pause.resume()
