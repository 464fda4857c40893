"""A machine: its nodes, their connections, and the placement of ranks."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from xsim_py.config import MachineSpec
from xsim_py.config.contradictions import MOST_RANKS
from xsim_py.errors import ConfigError
from xsim_py.machine.shards import shard_blocks
from xsim_py.machine.topologies import topology_class

if TYPE_CHECKING:
    from xsim_py.machine.host_ports import HostPorts
    from xsim_py.machine.topology import Route


class Machine:
    """The nodes of a described machine, with ``ranks`` placed ranks.

    ``seed`` determines drawn routes. Raises a `ConfigError` if there are too many ranks, they do not fit, or a graph
    cannot be read or is not connected.
    """

    def __init__(self, spec: MachineSpec, *, ranks: int, seed: int = 0) -> None:
        if ranks > MOST_RANKS:
            raise ConfigError(f"ranks: {ranks:,} is out of range (at most {MOST_RANKS:,})")
        self.spec = spec
        self.ranks = ranks  # the number of initial ranks
        universe = spec.spawn.universe
        if universe is not None and universe < ranks:
            raise spec.error("spawn.universe", f"{universe} slots are too few for {ranks} ranks")
        places = universe or ranks
        kind = topology_class(spec.topology.type)
        # The number of ranks per node.
        self.cores_per_node = spec.machine.cores_per_node or (places if kind.grows == "cores" else 1)
        self.topology = kind.of(spec, -(-places // self.cores_per_node))
        if spec.nic is not None or spec.memory is not None:
            from xsim_py.machine.host_ports import HostPorts  # few nodes have any

            self.topology = HostPorts.wrap(self.topology, spec)
        self.topology.seed = seed
        if spec.topology.links or self.topology.host_ports or self.topology.widths or self.topology.edge_parameters:
            from xsim_py.machine.link_parameters import find_link_parameters

            self.topology.link_parameters = find_link_parameters(spec, self.topology)
        cores = self.topology.nodes * self.cores_per_node
        if cores < places and not spec.machine.oversubscribe:
            of_each = f"node{'s' * (self.topology.nodes > 1)} of {self.cores_per_node}"
            raise spec.error(
                "machine" if universe is None else "spawn.universe",
                f"machine {spec.name} has {cores} core{'s' * (cores > 1)} ({self.topology.nodes} {of_each}), "
                f"too few for {places} ranks; add nodes, or set machine.oversubscribe to share cores",
            )
        self.universe = universe or max(cores, ranks)  # the maximum number of ranks at a time
        sizes = {"cores": spec.machine.cores_per_node, "nodes": spec.machine.nodes}
        # True if there can be more: the description leaves the number of nodes or cores and the universe open.
        self.open = universe is None and bool(kind.grows) and sizes[kind.grows] is None
        if spec.compute.speeds and not self.open:
            self._check_speeds()
        self.node_of: Sequence[int] = self._place()  # the node of each rank, including spawned ones; see `add_ranks`
        self._core_of = array("i")
        if spec.machine.rank_file is not None:
            from xsim_py.machine.rank_file import read_rank_file  # few machines have one

            nodes, self._core_of = read_rank_file(spec, ranks, self.topology.nodes, self.cores_per_node)
            self.node_of = nodes
        self.listeners: list[Callable[[Sequence[int]], object]] = []  # called with `node_of` when ranks are added

    def _check_speeds(self) -> None:
        """Raise `ConfigError` if a node or rank with a separate speed is out of range."""
        for index, each in enumerate(self.spec.compute.speeds or ()):
            for key, ranges, most in (("nodes", each.nodes, self.topology.nodes), ("ranks", each.ranks, self.universe)):
                last = max((end for _, end in ranges or ()), default=0)
                if last >= most:
                    raise self.spec.error(
                        f"compute.speeds[{index}].{key}", f"{key[:-1]} {last} is out of range (0 to {most - 1})"
                    )

    def add_ranks(self, first: int, nodes: Sequence[int]) -> None:
        """Place the ranks from `first` on at these nodes.

        It may be called several times, once per shard.
        """
        if not isinstance(self.node_of, array):
            self.node_of = array("i", self.node_of)
        if len(self.node_of) == first:
            self.node_of.extend(nodes)
            if self._core_of:
                self._count_cores()
            self.topology.grow(max(self.topology.nodes, max(nodes) + 1))
            for listener in self.listeners:
                listener(self.node_of)

    def clear(self) -> None:
        """Remove all but the initial ranks, as when the job starts."""
        if isinstance(self.node_of, array):
            del self.node_of[self.ranks :]
            del self._core_of[self.ranks :]

    @property
    def core_of(self) -> Sequence[int]:
        """The core of each rank: the number of ranks placed on its node before, modulo the cores."""
        if not self._core_of:
            self._count_cores()
        return self._core_of

    def _count_cores(self) -> None:
        """Determine the cores of the ranks placed since the last call."""
        first = len(self._core_of)
        before = Counter(self.node_of[:first])
        shared = self.spec.machine.oversubscribe and self.spec.machine.placement == "block" and not first
        on_node = Counter(self.node_of) if shared else {}
        for node in self.node_of[first:]:
            # Ranks that share a core are neighbours, so that they can be simulated together.
            crowd = max(on_node.get(node, 0), self.cores_per_node)
            core = before[node] * self.cores_per_node // crowd if shared else before[node] % self.cores_per_node
            self._core_of.append(core)
            before[node] += 1

    @property
    def oversubscribed(self) -> bool:
        """True if ranks may share a core."""
        return self.spec.machine.oversubscribe

    @property
    def shares(self) -> tuple[bool, bool]:
        """Two flags: messages between nodes share links, and messages within a node do."""
        network, across = self.spec.network, self.spec.nic is not None
        return across or (network is not None and network.contention != "none"), self.spec.memory is not None

    def route(self, origin: int, to: int) -> Route:
        """Return all links from one rank to another, also those that messages do not share."""
        topology, a, b = self.topology, self.node_of[origin], self.node_of[to]
        if not topology.host_ports:
            return topology.route(a, b) if a != b else []
        host_ports = cast("HostPorts", topology)
        ports = (host_ports.ports_of(self.core_of[rank], self.cores_per_node) for rank in (origin, to))
        return host_ports.route_between(a, b, *ports, inner=True)

    def shared_route(self, origin: int, to: int) -> list[Any]:
        """Return the links from one rank to another that messages share, the last one first."""
        topology, a, b = self.topology, self.node_of[origin], self.node_of[to]
        crossing = self.spec.network is not None and self.spec.network.contention != "none"
        if not topology.host_ports:
            # By number, unless the layers differ: these depend on the link itself.
            return topology.links(a, b) if topology.link_parameters is None else topology.route(a, b)[::-1]
        host_ports = cast("HostPorts", topology)
        ports = (host_ports.ports_of(self.core_of[rank], self.cores_per_node) for rank in (origin, to))
        return host_ports.route_between(a, b, *ports, inner=crossing)[::-1]

    @property
    def nodes(self) -> int:
        """The number of nodes, with and without ranks."""
        return self.topology.nodes

    def _place(self) -> Sequence[int]:
        if self.spec.machine.placement == "round_robin":
            return array("i", [rank % self.nodes for rank in range(self.ranks)])
        cores = self.nodes * self.cores_per_node
        if self.ranks > cores:
            return array("i", [rank * cores // self.ranks // self.cores_per_node for rank in range(self.ranks)])
        if self.cores_per_node == 1:
            return range(self.ranks)
        return array("i", [rank // self.cores_per_node for rank in range(self.ranks)])

    def processor_name(self, rank: int) -> str:
        """Return the result of ``MPI.Get_processor_name()`` on that rank."""
        return self.name_of(self.node_of[rank])

    def name_of(self, node: int) -> str:
        """Return the name of a node."""
        template = self.spec.machine.processor_name or self.topology.processor_name
        return template.replace("{node}", self.topology.name(node))

    def shard_blocks(self, shards: int) -> list[range]:
        """Return the ranks of each shard (see `xsim_py.machine.shard_blocks`)."""
        if not self.oversubscribed:
            return shard_blocks(self.node_of, shards=shards)
        groups = self._core_groups()
        most = groups[-1] if groups else 1
        blocks = shard_blocks(groups, shards=min(shards, most))
        return blocks + [range(self.ranks, self.ranks)] * max(shards - most, 0)

    def process_blocks(self, each: int) -> list[range]:
        """Return the ranks of each process: `each` consecutive ones, and any that share a core with them."""
        groups = self._core_groups() if self.oversubscribed else range(self.ranks)
        blocks, first = [], 0
        while first < self.ranks:
            end = min(first + each, self.ranks)
            while end < self.ranks and groups[end] == groups[end - 1]:
                end += 1
            blocks.append(range(first, end))
            first = end
        return blocks

    def _core_groups(self) -> list[int]:
        """Return the group of each rank, ascending from 1: ranks that share a core are simulated together."""
        places = [node * self.cores_per_node + core for node, core in zip(self.node_of, self.core_of, strict=True)]
        last = {place: rank for rank, place in enumerate(places)}
        group, groups, until = 0, [], -1
        for rank, place in enumerate(places):
            group += rank > until
            until = max(until, last[place])
            groups.append(group)
        return groups

    def __str__(self) -> str:
        machine, cores = self.spec.machine, self.cores_per_node
        placement = machine.placement.replace("_", "-") if machine.rank_file is None else "rank-file"
        return f"{self.topology}; {cores} rank{'s' if cores > 1 else ''} per node, {placement} placement"
