"""A call that looks and finds nothing takes time: the more, the longer a rank has looked in vain.

A loop of looks lets virtual time pass, by `mpi.poll_time` a look, or it would never end. But each look is an event, and
who waits a second by 100 ns makes ten million of them. So once a rank has looked in vain often enough to be known for a
program that polls, a look takes a part of the time that it has waited already: one look of each round, for a master may
ask hundreds of workers in turn. A round is over when something is asked again. What comes is found late by no more than
that part and the price of a round, and a wait costs a number of rounds that grows with its logarithm. Clocks that are
read in a loop that waits for a time tick by a similar rule (see `process.python.clock`).

In a fault-tolerant run a look that finds nothing may also tell of a death (`look_past`), so that a program that polls
learns of it as one that waits.

A wait begins anew with whatever a rank finds or does: something that was there, time that passed in another way, a
message that left. It can be told from the rank alone, so it is the same for every number of shards.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from xsim_py.process.ranks import current

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank

_PATIENT_LOOKS = 1000
_PART = 6  # a look takes up to 1/64 of the time waited so far
_LONGEST_PS = 10**10
_PART_OF_LONG = 10  # of a wait for more than 10 s a look takes 1/1024: it may last for hours
_LONGEST_ROUND = 1 << 16  # who asks for something new each time, for ever, is taken to ask again


class Looks:
    """Counts how often one rank has looked in vain, and since when without anything else happening.

    Attributes
    ----------
    count : int
        In the whole run.
    since_ps, clock_ps : int
        When the wait began, and when the last look ended.
    key : int
        The rank's event key as the next look will see it, if nothing else happens.
    asked : set
        What it has looked for in this round; the things themselves, for their addresses may be used again.
    last : object
        What it has looked for last, and not found: something with ``describe()``, or what makes it.
    """

    __slots__ = ("asked", "clock_ps", "count", "key", "last", "since_ps")

    def __init__(self) -> None:
        self.count = self.key = self.since_ps = 0
        self.clock_ps = -1
        self.asked: set[Hashable] = set()
        self.last: Any = None


def looked_in_vain(fiber: Fiber, what: Hashable, shown: Any) -> None:
    """Let a look that has found nothing take its time, after it has caught up with the kernel.

    `what` tells what it was for from what other looks are for; `shown` is what reports make of it.
    """
    rank = fiber.rank
    fabric = rank.shard.fabric
    box = rank.mpi or fabric.open(rank)
    looks = box.looks
    if looks is None:
        looks = box.looks = Looks()
    if looks.clock_ps != fiber.clock_ps or looks.key != rank.key:
        looks.since_ps = fiber.clock_ps
        looks.asked.clear()
    looks.count += 1
    looks.last = shown
    cost_ps: int = fabric.settings.poll_ps
    if looks.count > _PATIENT_LOOKS:
        if what in looks.asked or len(looks.asked) >= _LONGEST_ROUND:
            looks.asked.clear()
            waited_ps = fiber.clock_ps - looks.since_ps
            cost_ps = max(cost_ps, min(waited_ps >> _PART, _LONGEST_PS), waited_ps >> _PART_OF_LONG)
        looks.asked.add(what)
    fiber.clock_ps += cost_ps
    looks.clock_ps = fiber.clock_ps
    looks.key = rank.key + 1  # for the next look waits for its time first


def look_past(comm: Any, what: Hashable, depends_on: Callable[[int], bool]) -> None:
    """Have the running rank learn of the deaths that its looks for `what`, which is not there, have outwaited.

    The caller asks the guard afterwards: what the rank knows may refuse the call. `depends_on` says of a rank of the
    whole run whether what is looked for may come from it.
    """
    fabric = comm.fabric
    if fabric.shard.fault_tolerant:
        fiber = current.running()
        if comm.looked_ps is None:
            comm.looked_ps = {}
        since_ps = comm.looked_ps.setdefault(what, fiber.clock_ps)
        if fabric.troubled:
            fabric.guard.looked(fiber, since_ps, depends_on)


def found_on(comm: Any, what: Hashable) -> None:
    """End the wait that a look on this communicator has ended, so that the next look begins another one."""
    found(comm.box.rank)
    if comm.looked_ps is not None:
        comm.looked_ps.pop(what, None)


def found(rank: Rank) -> None:
    """A look has found something: the next wait is another one."""
    box = rank.mpi
    if box is not None and box.looks is not None:
        box.looks.clock_ps = -1
        box.looks.last = None
        box.looks.asked.clear()
