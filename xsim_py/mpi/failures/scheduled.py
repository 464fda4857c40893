"""Failures that are scheduled before a run begins, or before ranks are spawned."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from xsim_py.process.lifecycle import kill
from xsim_py.process.ranks.fiber import Fiber, MortalFiber, stop_at

if TYPE_CHECKING:
    from xsim_py.failure import Schedule
    from xsim_py.mpi.transport.fabric import Fabric


def prepare(fabric: Fabric, schedule: Schedule, failing_inside_calls: Collection[int]) -> None:
    """Schedule the failures and other faults of a shard's ranks for one start of the job.

    This must precede the first event of any rank.

    Failures at a call are triggered by that call; `failing_inside_calls` are the ranks that fail a delay after one.
    """
    schedule_failures(fabric, schedule.timed)
    allow_later_failures(fabric, failing_inside_calls)
    for carrier in fabric.fault_carriers():
        carrier.schedule(schedule.faults[carrier.name])


def schedule_failures(fabric: Fabric, failures: Iterable[Any]) -> None:
    """Kill ranks of a shard at the times of `failures` (rank, time, cause).

    A rank is killed before its other events at that time.
    """
    shard = fabric.shard
    for number, time_ps, cause in failures:
        if fabric.instances is not None and number < shard.initial:  # not all shards learn of those of other ranks
            fabric.instances.deaths[number] = time_ps
        if not shard.local(number):
            continue
        rank = shard.rank(number)
        if time_ps <= shard.kernel.now_ps:
            kill((rank, cause))
            continue
        stop_at(rank, time_ps)
        shard.kernel.post(time_ps, number, kill, (rank, cause))


def allow_later_failures(fabric: Fabric, numbers: Collection[int]) -> None:
    """Let ranks that have not begun be stopped at a time that is set later (`schedule_failure_after`).

    Their collectives are simulated message by message: batched collectives must know the times of failures in advance.
    """
    shard = fabric.shard
    for number in numbers:
        if shard.local(number):
            stop_at(shard.rank(number), None)


def schedule_failure_after(fiber: Fiber, cause: str, delay_ps: int) -> None:
    """Kill the rank of the running fiber after a delay from now by its clock."""
    rank, time_ps = fiber.rank, fiber.clock_ps + delay_ps
    if isinstance(rank.fiber, MortalFiber):
        stop_at(rank, time_ps)
    fiber.sync()
    rank.shard.kernel.post(time_ps, rank.number, kill, (rank, cause))
