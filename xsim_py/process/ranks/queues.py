"""Fibers that wait for each other: they stand in line until they are called, and threads of a rank take turns.

A waiting fiber goes on when it is called, first come, first served, at the virtual time of the one that calls it; with
a timeout, at the latest then. So a run can be repeated to the bit.
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

_PATIENT_LOOKS = 1000
_TICK_PS = 100_000


class QueuedFiber(Parked):
    """A fiber in a line, with what it waits for.

    Attributes
    ----------
    called : bool
        Whether it has got what it stands there for.
    given : object
        What it was handed, if it was handed something.
    """

    __slots__ = ("called", "fiber", "given", "line", "what")

    def __init__(self, fiber: Fiber, line: deque[QueuedFiber], what: Any) -> None:
        self.fiber = fiber
        self.line = line
        self.what = what
        self.called = False
        self.given: Any = None

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        return self.what if isinstance(self.what, str) else str(self.what.described(self.fiber.rank))


@partial(
    metered, charge=False
)  # nothing may happen between the look that finds something held and the place in the line
def line_up(fiber: Fiber, line: deque[QueuedFiber], what: Any, timeout_s: float | None = None) -> QueuedFiber:
    """Let the running fiber wait until it is called, or the time is up; what is returned says which it was.

    Parameters
    ----------
    fiber : Fiber
        The running one.
    line : deque
        Where it waits, behind the others.
    what : str or object
        What for, or what has ``described(rank)``.
    timeout_s : float or None
        In seconds of virtual time.
    """
    place = QueuedFiber(fiber, line, what)
    line.append(place)
    if timeout_s is not None:
        rank = fiber.rank
        rank.key += 1
        until_ps = fiber.clock_ps + round(timeout_s * 10**12)
        rank.shard.kernel.post(until_ps, rank.key, _time_is_up, (place, until_ps))
    fiber.park(place)
    return place


def call_next(line: deque[QueuedFiber], given: Any = None) -> None:
    """Let the first in the line go on, at the running fiber's time."""
    place = line.popleft()
    place.called = True
    place.given = given
    fiber, caller = place.fiber, current.fiber
    rank = fiber.rank
    if rank.exit_status is not None or rank.shard is None:  # the end of an object may come after that of its process
        return
    kernel = rank.shard.kernel
    # The thread that calls may be ahead of the queue; another one of its rank must not go on at an earlier time.
    if caller is not None and caller.rank is rank and caller.clock_ps > fiber.clock_ps:
        fiber.clock_ps = caller.clock_ps
    if fiber.clock_ps < kernel.now_ps:
        fiber.clock_ps = kernel.now_ps
    rank.key += 1
    kernel.post(fiber.clock_ps, rank.key, type(fiber).resume, fiber)


def _time_is_up(entry: tuple[QueuedFiber, int]) -> None:
    place, until_ps = entry
    fiber = place.fiber
    # It may have been called in an event before this one, and may wait for something else by now.
    if not place.called and fiber.waiting is place and fiber.rank.exit_status is None:
        place.line.remove(place)
        fiber.clock_ps = max(fiber.clock_ps, until_ps)
        fiber.resume()


class _Looks:
    """A count of how often a rank has looked at what its threads can change while its clock stood still."""

    __slots__ = ("clock_ps", "count")

    def __init__(self) -> None:
        self.clock_ps = -1
        self.count = 0


def is_shared(rank: Rank) -> bool:
    """Return whether a rank has other fibers than that of its program now."""
    return rank.extra is not None and bool(rank.extra.get("fibers"))


@metered
def sync_threads(fiber: Fiber) -> None:
    """Let the other threads of its rank come as far as the running fiber, before it sees what they can change.

    Looking takes no time. But a loop that looks again and again would stop the clock that the others wait for, so after
    1,000 looks at one time each further one takes 0.1 us.
    """
    rank = fiber.rank
    if rank.extra is None or not rank.extra.get("fibers"):
        return
    looks = rank.private("looks", _Looks)
    if looks.clock_ps != fiber.clock_ps:
        looks.clock_ps = fiber.clock_ps
        looks.count = 0
    looks.count += 1
    if looks.count > _PATIENT_LOOKS:
        fiber.clock_ps += _TICK_PS
        looks.clock_ps = fiber.clock_ps
    fiber.sync()


def give_way(fiber: Fiber) -> None:
    """Let the other threads of the running fiber's rank go on that have something to do at this time."""
    if is_shared(fiber.rank):
        sync_threads(fiber)
        rank = fiber.rank
        rank.key += 1
        rank.shard.kernel.post(fiber.clock_ps, rank.key, type(fiber).resume, fiber)
        fiber.park(UNTIL)
