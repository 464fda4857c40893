"""Queues of waiting fibers: first come, first served; threads of a rank take turns.

A waiting fiber continues when it is called, at the virtual time of the caller; with a timeout, at the latest then. So
a run is reproducible bit for bit.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from . import current
from .fiber import UNTIL, Fiber, Parked
from .meter import metered

if TYPE_CHECKING:
    from .rank import Rank

_PATIENT_POLLS = 1000
_TICK_PS = 100_000


class QueuedFiber(Parked):
    """A fiber in a queue, and what it waits for."""

    __slots__ = ("called", "fiber", "item", "line", "what")

    def __init__(self, fiber: Fiber, line: deque[QueuedFiber], what: Any) -> None:
        self.fiber = fiber
        self.line = line
        self.what = what
        self.called = False  # whether it has got what it waits for
        self.item: object = None  # the object handed to it, if any

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        return self.what if isinstance(self.what, str) else str(self.what.described(self.fiber.rank))


@partial(metered, charge=False)  # nothing may happen between finding something held and joining the queue
def wait_in_queue(fiber: Fiber, line: deque[QueuedFiber], what: object, timeout_s: float | None = None) -> QueuedFiber:
    """Make the running fiber wait until it is called or the timeout expires; the result tells which.

    It joins the queue `line` at the end. `what` describes the wait, or is an object with ``described(rank)``. The
    timeout is in virtual time.
    """
    place = QueuedFiber(fiber, line, what)
    line.append(place)
    if timeout_s is not None:
        rank = fiber.rank
        rank.key += 1
        until_ps = fiber.clock_ps + round(timeout_s * 10**12)
        rank.shard.kernel.post(until_ps, rank.key, _timed_out, (place, until_ps))
    fiber.park(place)
    return place


def wake_next(line: deque[QueuedFiber], item: object = None) -> None:
    """Let the first fiber in the queue continue, at the running fiber's time."""
    place = line.popleft()
    place.called = True
    place.item = item
    fiber, caller = place.fiber, current.fiber
    rank = fiber.rank
    if rank.exit_status is not None or rank.shard is None:  # an object may be finalized after its process has ended
        return
    kernel = rank.shard.kernel
    # The calling thread may be ahead of the event queue; another thread of its rank must not continue at an earlier
    # time.
    if caller is not None and caller.rank is rank and caller.clock_ps > fiber.clock_ps:
        fiber.clock_ps = caller.clock_ps
    if fiber.clock_ps < kernel.now_ps:
        fiber.clock_ps = kernel.now_ps
    rank.key += 1
    kernel.post(fiber.clock_ps, rank.key, type(fiber).resume, fiber)


def _timed_out(entry: tuple[QueuedFiber, int]) -> None:
    place, until_ps = entry
    fiber = place.fiber
    # It may have been called in an earlier event and wait for something else by now.
    if not place.called and fiber.waiting is place and fiber.rank.exit_status is None:
        place.line.remove(place)
        fiber.clock_ps = max(fiber.clock_ps, until_ps)
        fiber.resume()


class _Looks:
    """The number of times that a rank has polled state that its threads can change, without its clock advancing."""

    __slots__ = ("clock_ps", "count")

    def __init__(self) -> None:
        self.clock_ps = -1
        self.count = 0


def is_shared(rank: Rank) -> bool:
    """Return True if a rank currently has fibers besides that of its program."""
    return rank.extra is not None and bool(rank.extra.get("fibers"))


@metered
def sync_threads(fiber: Fiber) -> None:
    """Let the rank's other threads catch up with the running fiber, before it reads state that they can change.

    Polling takes no time. But a polling loop would stop the clock on which the others wait, so after 1,000 polls at one
    time each further poll takes 0.1 us.
    """
    rank = fiber.rank
    if rank.extra is None or not rank.extra.get("fibers"):
        return
    looks = rank.private("looks", _Looks)
    if looks.clock_ps != fiber.clock_ps:
        looks.clock_ps = fiber.clock_ps
        looks.count = 0
    looks.count += 1
    if looks.count > _PATIENT_POLLS:
        fiber.clock_ps += _TICK_PS
        looks.clock_ps = fiber.clock_ps
    fiber.sync()


def yield_to_threads(fiber: Fiber) -> None:
    """Let other threads of the running fiber's rank continue that are ready at this time."""
    if is_shared(fiber.rank):
        sync_threads(fiber)
        rank = fiber.rank
        rank.key += 1
        rank.shard.kernel.post(fiber.clock_ps, rank.key, type(fiber).resume, fiber)
        fiber.park(UNTIL)
