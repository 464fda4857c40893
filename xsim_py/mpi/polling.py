"""Virtual time of unsuccessful polls: it increases with the time a rank has polled unsuccessfully.

A polling loop must advance virtual time, by `mpi.poll_time` per poll, or it would never end. But each poll is an event,
and a wait of a second by 100 ns makes ten million of them. So after enough unsuccessful polls a rank is recognised as
polling, and a poll takes a fraction of the time waited so far: one poll per round, because a master may poll hundreds
of workers in turn. A round ends when a target is polled again. An arrival is detected late by no more than that
fraction and the cost of a round, and a wait costs a number of rounds that grows with its logarithm. Clocks read in a
loop that waits for a time tick by a similar rule (see `process.python.clock`).

In a fault-tolerant run an unsuccessful poll may also reveal a failure (`detect_by_polling`), so that a program that
polls detects it like one that waits.

A wait restarts with any other action of a rank: a successful poll, time that passed in another way, a message sent.
This follows from the rank's state alone, so it is the same for every number of shards.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from xsim_py.process.ranks import current

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank

_PATIENT_POLLS = 1000
_PART = 6  # a poll takes up to 1/64 of the time waited so far
_LONGEST_PS = 10**10
_PART_OF_LONG = 10  # in a wait of more than 10 s a poll takes 1/1024: it may last for hours
_LONGEST_ROUND = 1 << 16  # a rank that keeps polling new targets is assumed to repeat itself


class Polls:
    """The unsuccessful polls of one rank, and the begin of its current series."""

    __slots__ = ("asked", "clock_ps", "count", "key", "last", "since_ps")

    def __init__(self) -> None:
        # `count` is that of the whole run, `key` the rank's event key at the next poll, if nothing else happens. The
        # wait began at `since_ps`, and the last poll ended at `clock_ps`.
        self.count = self.key = self.since_ps = 0
        self.clock_ps = -1
        # The targets of this round; the objects themselves, because addresses may be reused.
        self.asked: set[Hashable] = set()
        self.last: Any = None  # the last unsuccessful target: an object with ``describe()``, or its factory


def unsuccessful_poll(fiber: Fiber, what: Hashable, shown: object) -> None:
    """Charge an unsuccessful poll, after synchronisation with the kernel.

    `what` identifies the target of the poll; `shown` represents it in reports.
    """
    rank = fiber.rank
    fabric = rank.shard.fabric
    box = rank.mpi or fabric.open(rank)
    polls = box.polls
    if polls is None:
        polls = box.polls = Polls()
    if polls.clock_ps != fiber.clock_ps or polls.key != rank.key:
        polls.since_ps = fiber.clock_ps
        polls.asked.clear()
    polls.count += 1
    polls.last = shown
    cost_ps: int = fabric.settings.mpi.poll_time_ps
    if polls.count > _PATIENT_POLLS:
        if what in polls.asked or len(polls.asked) >= _LONGEST_ROUND:
            polls.asked.clear()
            waited_ps = fiber.clock_ps - polls.since_ps
            cost_ps = max(cost_ps, min(waited_ps >> _PART, _LONGEST_PS), waited_ps >> _PART_OF_LONG)
        polls.asked.add(what)
    fiber.clock_ps += cost_ps
    polls.clock_ps = fiber.clock_ps
    polls.key = rank.key + 1  # because the next poll first waits for its time


def detect_by_polling(comm: Any, what: Hashable, depends_on: Callable[[int], bool]) -> None:
    """Make the running rank detect failures that its unsuccessful polls for `what` have outlasted.

    The caller consults the guard afterwards, which may raise an error. `depends_on` returns True if `what` may come
    from a world rank.
    """
    fabric = comm.fabric
    if fabric.shard.fault_tolerant:
        fiber = current.running()
        if comm.polled_since_ps is None:
            comm.polled_since_ps = {}
        since_ps = comm.polled_since_ps.setdefault(what, fiber.clock_ps)
        if fabric.failure_seen:
            fabric.guard.polled(fiber, since_ps, depends_on)


def end_poll(comm: Any, what: Hashable) -> None:
    """End the wait that a poll on this communicator has ended, so that the next poll begins a new one."""
    found(comm.box.rank)
    if comm.polled_since_ps is not None:
        comm.polled_since_ps.pop(what, None)


def found(rank: Rank) -> None:
    """End the wait of a rank after a successful poll."""
    box = rank.mpi
    if box is not None and box.polls is not None:
        box.polls.clock_ps = -1
        box.polls.last = None
        box.polls.asked.clear()
