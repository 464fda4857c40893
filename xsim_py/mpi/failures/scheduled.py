"""Deaths that are scheduled before a run begins, or before ranks are started later."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from xsim_py.process.lifecycle import kill
from xsim_py.process.ranks.fiber import MortalFiber, stop_at

if TYPE_CHECKING:
    from xsim_py.failure import Schedule
    from xsim_py.mpi.transport.fabric import Fabric
    from xsim_py.process.ranks.fiber import Fiber


def prepare(fabric: Fabric, met: Schedule, struck_inside: Collection[int]) -> None:
    """Have all happen to the ranks of a shard that a start of the job is to meet, before any of them runs.

    What happens at a call is made by that; `struck_inside` are those to whom something happens so long after it.
    """
    doom(fabric, met.timed)
    may_be_doomed(fabric, struck_inside)
    fabric.await_flips(met.flips)
    fabric.await_hangs(met.hangs)


def doom(fabric: Fabric, failures: Iterable[Any]) -> None:
    """Have ranks of a shard die at the times of `failures` (rank, time, cause), before what else they do then."""
    shard = fabric.shard
    for number, time_ps, cause in failures:
        if fabric.meetings is not None and number < shard.initial:  # of others not all shards are told
            fabric.meetings.deaths[number] = time_ps
        if not shard.local(number):
            continue
        rank = shard.rank(number)
        if time_ps <= shard.kernel.now_ps:
            kill((rank, cause))
            continue
        stop_at(rank, time_ps)
        shard.kernel.post(time_ps, number, kill, (rank, cause))


def may_be_doomed(fabric: Fabric, numbers: Collection[int]) -> None:
    """Have ranks of a shard that did not begin to run be able to stop at a time that is told later (`doom_later`).

    Their collectives go message by message: what is computed for all ranks at once has to know the times of deaths.
    """
    shard = fabric.shard
    for number in numbers:
        if shard.local(number):
            stop_at(shard.rank(number), None)


def doom_later(fiber: Fiber, cause: str, delay_ps: int) -> None:
    """Have the rank of the running fiber die so much later than now by its clock."""
    rank, time_ps = fiber.rank, fiber.clock_ps + delay_ps
    if isinstance(rank.fiber, MortalFiber):
        stop_at(rank, time_ps)
    fiber.sync()
    rank.shard.kernel.post(time_ps, rank.number, kill, (rank, cause))
