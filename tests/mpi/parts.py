"""A few ranks with the parts of an MPI library that a test is about, and nothing else: no program, and no run.

The ranks live in real shards, whose queues of events are real; what goes from one shard to another waits in the lists
of its outbox until `World.exchange`. A network of one link says what messages cost. Whoever acts for a rank does so
inside `World.acting`, in a fiber that is no greenlet: where it waits, the events of all shards happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from xsim_py.engine import INFINITY_PS
from xsim_py.mpi.comm import Communicator, Context
from xsim_py.mpi.transport.fabric import Fabric
from xsim_py.network import Cost
from xsim_py.process.output.collector import Output
from xsim_py.process.ranks import current
from xsim_py.process.ranks.rank import Rank
from xsim_py.process.ranks.shard import Control, Shard

__all__ = ["LATENCY_PS", "OVERHEAD_PS", "HandFiber", "World"]

LATENCY_PS = 1000
OVERHEAD_PS = 10
_WIRE_PS = 2  # a byte
_EAGER_BYTES = 100
_WORLD_CID = 2


class OneLink:
    """A network in which all ranks are equally far apart; messages above 100 bytes go by rendezvous."""

    equally_far = True
    latency_ps = LATENCY_PS

    def __init__(self) -> None:
        self.uniform: dict[int, Cost] = {}
        self.cache: dict[int, Cost] = {}

    def link(self, source: int, dest: int) -> OneLink:
        return self

    def cost(self, size_bytes: int) -> Cost:
        wire_ps = _WIRE_PS * size_bytes
        return Cost(OVERHEAD_PS, wire_ps, wire_ps, LATENCY_PS, OVERHEAD_PS, size_bytes <= _EAGER_BYTES)


class HandFiber:
    """What acts for a rank where a fiber would."""

    def __init__(self, rank: Rank, world: World) -> None:
        self.rank = rank
        self.clock_ps = 0
        self.woken = 0
        self._world = world

    def park(self, reason: Any) -> None:
        self._world.run()
        assert self.woken, f"rank {self.rank.number} waits for ever: {reason.describe()}"
        self.woken = 0

    def resume(self) -> None:
        self.woken += 1

    interrupt = resume

    def sync(self) -> None:
        self._world.run(self.clock_ps + 1)


class World:
    """Some ranks in one shard or more, with a transport each."""

    def __init__(self, ranks: int, shards: int = 1, make_fabric: type[Fabric] = Fabric) -> None:
        control = Control()
        each = ranks // shards
        blocks = [range(number * each, (number + 1) * each) for number in range(shards)]
        settings: Any = SimpleNamespace(pairs=False, collectives={}, ranks=ranks)
        self.context = Context(_WORLD_CID, range(ranks), None)
        self.network = OneLink()
        self.shards: list[Shard] = []
        self.fabrics: list[Fabric] = []
        for number in range(shards):
            nothing: Any = None
            output = Output(None, label=False, control=control, spill=nothing, equal_tracebacks=nothing)
            shard = Shard(
                number=number,
                blocks=blocks,
                control=control,
                output=output,
                abort_delay_ps=LATENCY_PS,
                fault_tolerant=True,
            )
            self.shards.append(shard)
            fabric = make_fabric(shard, self.network, None, settings)
            fabric.connect()
            self.fabrics.append(fabric)
        self.ranks = [rank for shard in self.shards for rank in shard.ranks]
        for rank in self.ranks:
            rank.shard.fabric.open(rank)
            rank.fiber = HandFiber(rank, self)
        self.comms = [Communicator(self.context, rank.mpi) for rank in self.ranks]

    @contextmanager
    def acting(self, number: int) -> Iterator[Communicator]:
        """Act for a rank, with its view of the communicator of all."""
        before, current.fiber = current.fiber, self.ranks[number].fiber
        try:
            yield self.comms[number]
        finally:
            current.fiber = before

    def exchange(self) -> int:
        """Bring to each shard what others have for it; return how many batches there were."""
        batches = [batch for shard in self.shards for batch in shard.take_outbox().items()]
        for target, batch in batches:
            self.shards[target].receive(batch)
        return len(batches)

    def run(self, end_ps: int = INFINITY_PS) -> None:
        """Let everything happen that is to happen before a time, in windows of one latency."""
        self.exchange()
        while (first_ps := min(shard.next_ps() for shard in self.shards)) < end_ps:
            for shard in self.shards:
                shard.run_window(min(end_ps, first_ps + LATENCY_PS))
            self.exchange()
