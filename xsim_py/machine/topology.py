"""The base class of all topologies, and the two that need no arithmetic: one node, and a switch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array

from xsim_py.config import MachineSpec

Route = list[tuple[int, int]]  # directed links, each from one vertex to the next


class Topology(ABC):
    """How the nodes of a machine are connected. Nodes are numbers from 0; other vertices (switches) come after them.

    Attributes
    ----------
    nodes : int
        How many nodes there are.
    least_hops : int
        The hops between the two nearest nodes (0 when there is only one node).
    grows : str
        What a machine whose size is left open has more of when more ranks are started: ``cores``, ``nodes`` or nothing.
    equally_far : bool
        Whether any two different nodes are.
    codes : array of int or None
        A number for each node, such that the difference of two of them says how far these nodes are apart.
    many_links : int
        More than the number of any of `links`; 0 where links have no numbers.
    processor_name : str
        The default of the key ``machine.processor_name``.
    """

    nodes: int
    least_hops: int
    grows = ""
    equally_far = False
    codes: array[int] | None = None
    many_links = 0
    processor_name = "node{node}"

    @classmethod
    @abstractmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Make the topology that a description asks for; where that leaves the size open, with room for `nodes`.

        Raises
        ------
        ConfigError
            When there is no such topology.
        """

    def grow(self, nodes: int) -> None:
        """Have room for that many nodes, at least those that there are."""
        self.nodes = nodes

    @abstractmethod
    def hops(self, a: int, b: int, /) -> int:
        """Return the number of links on a shortest way from node ``a`` to node ``b``."""

    @abstractmethod
    def route(self, a: int, b: int, /) -> Route:
        """Return a shortest way, always the same for the same two nodes; as long as `hops` says."""

    def links(self, a: int, b: int, /) -> list[int] | Route:
        """Return the links of `route`, the last one first; as numbers, if links have numbers."""
        return self.route(a, b)[::-1]

    def name(self, node: int, /) -> str:
        """Return what a user calls that node."""
        return str(node)

    @abstractmethod
    def diameter(self) -> int:
        """Return the hops between the two nodes that are farthest apart."""

    @abstractmethod
    def mean_distance(self) -> float:
        """Return the mean hops over all ordered pairs of different nodes (0 when there is only one node)."""

    @abstractmethod
    def __str__(self) -> str:
        """Describe it, for the head of a report."""


class Single(Topology):
    """One node: nothing to cross."""

    nodes = 1
    least_hops = 0
    grows = "cores"

    @classmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Make the one node."""
        return cls()

    def hops(self, a: int, b: int, /) -> int:
        """Return 0."""
        return 0

    def route(self, a: int, b: int, /) -> Route:
        """Return no links."""
        return []

    def diameter(self) -> int:
        """Return 0."""
        return 0

    def mean_distance(self) -> float:
        """Return 0."""
        return 0.0

    def __str__(self) -> str:
        return "single node"


class Switch(Topology):
    """A switch with every node on it: one hop up and one hop down."""

    grows = "nodes"
    equally_far = True

    def __init__(self, nodes: int) -> None:
        self._first = nodes
        self.grow(nodes)

    @classmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Make a switch for all nodes."""
        return cls(spec.machine.nodes or nodes)

    def grow(self, nodes: int) -> None:
        """Have room for that many nodes on the switch."""
        self.nodes = nodes
        self.least_hops = 2 if nodes > 1 else 0

    def hops(self, a: int, b: int, /) -> int:
        """Return 2, or 0 to the node itself."""
        return 2 if a != b else 0

    def route(self, a: int, b: int, /) -> Route:
        """Go up from ``a`` and down to ``b``; the switch is the vertex after the last of the first nodes."""
        switch = self._first
        return [(a + (a >= switch), switch), (switch, b + (b >= switch))] if a != b else []

    def diameter(self) -> int:
        """Return 2 when there are two nodes."""
        return self.least_hops

    def mean_distance(self) -> float:
        """Return 2 when there are two nodes."""
        return float(self.least_hops)

    def __str__(self) -> str:
        return f"switch with {self.nodes} node{'s' if self.nodes > 1 else ''}"
