"""A machine: its nodes, how they are connected, and which rank runs where."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from xsim_py.config import MachineSpec
from xsim_py.machine.shards import shard_blocks
from xsim_py.machine.topology import Single, Switch, Topology
from xsim_py.machine.torus import Torus, Twist, fitting_dims, half_twists

__all__ = ["Machine"]


class Machine:
    """The nodes of a described machine, with ``ranks`` ranks placed on them.

    Attributes
    ----------
    spec
        The description.
    ranks
        How many ranks there are.
    topology
        How its nodes are connected.
    cores_per_node
        How many ranks fit on a node.
    node_of
        The node of each rank.

    Raises
    ------
    ConfigError
        When the ranks do not fit, or a graph cannot be read or is not connected.
    """

    def __init__(self, spec: MachineSpec, *, ranks: int) -> None:
        self.spec = spec
        self.ranks = ranks
        single = spec.topology.type == "single"
        self.cores_per_node = spec.machine.cores_per_node or (ranks if single else 1)
        self.topology = _topology(spec, nodes=-(-ranks // self.cores_per_node))
        cores = self.topology.nodes * self.cores_per_node
        if cores < ranks:
            raise spec.error(
                "machine",
                f"machine {spec.name} has {cores} cores ({self.topology.nodes} nodes of {self.cores_per_node}), "
                f"too few for {ranks} ranks",
            )
        self.node_of: Sequence[int] = self._place()

    @property
    def nodes(self) -> int:
        """How many nodes it has, with and without ranks."""
        return self.topology.nodes

    def _place(self) -> Sequence[int]:
        if self.spec.machine.placement == "round_robin":
            return array("i", [rank % self.nodes for rank in range(self.ranks)])
        if self.cores_per_node == 1:
            return range(self.ranks)
        return array("i", [rank // self.cores_per_node for rank in range(self.ranks)])

    def processor_name(self, rank: int) -> str:
        """What MPI.Get_processor_name() answers on that rank."""
        default = "{node}" if self.spec.topology.type == "graph" else "node{node}"
        return (self.spec.machine.processor_name or default).replace("{node}", self.topology.name(self.node_of[rank]))

    def shard_blocks(self, shards: int) -> list[range]:
        """The ranks of each shard (see `xsim_py.machine.shard_blocks`)."""
        return shard_blocks(self.node_of, shards=shards)

    def __str__(self) -> str:
        return f"{self.topology}; ranks a node: {self.cores_per_node}, placed {self.spec.machine.placement}"


def _topology(spec: MachineSpec, *, nodes: int) -> Topology:
    """The topology that a description asks for; where it leaves the size open, with room for ``nodes``."""
    topology = spec.topology
    if topology.type == "single":
        return Single()
    if topology.type == "switch":
        return Switch(spec.machine.nodes or nodes)
    if topology.type == "torus":
        dims = topology.dims or fitting_dims(nodes, half=topology.twist == "half")
        if isinstance(topology.twist, str):
            return Torus(dims, twists=half_twists(dims) if topology.twist == "half" else ())
        return Torus(dims, twists=[Twist(entry.wrap, entry.shift, entry.by) for entry in topology.twist])
    from xsim_py.machine.graph import graph_topology  # it may need networkx, which takes a while to import

    return graph_topology(spec)
