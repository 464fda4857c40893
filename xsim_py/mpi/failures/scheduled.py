"""Deaths that are scheduled before a run begins, or before ranks are started later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from xsim_py.process.lifecycle import kill
from xsim_py.process.ranks.fiber import MortalFiber

if TYPE_CHECKING:
    from xsim_py.mpi.transport.fabric import Fabric


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
        rank.fiber = MortalFiber(rank, rank.fiber.clock_ps, time_ps)
        shard.kernel.post(time_ps, number, kill, (rank, cause))
