"""What every topology answers, and the two that need no arithmetic: one node, and a switch."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Route", "Single", "Switch", "Topology"]

Route = list[tuple[int, int]]  # directed links, each from one vertex to the next


class Topology(Protocol):
    """How the nodes of a machine are connected. Nodes are numbers from 0; other vertices (switches) come after them."""

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        ...

    @property
    def least_hops(self) -> int:
        """The hops between the two nearest nodes (0 when there is only one node)."""
        ...

    def hops(self, a: int, b: int, /) -> int:
        """The links on a shortest way from node ``a`` to node ``b``."""
        ...

    def route(self, a: int, b: int, /) -> Route:
        """One shortest way, always the same for the same two nodes; as long as `hops` says."""
        ...

    def name(self, node: int, /) -> str:
        """What a user calls that node."""
        ...

    def diameter(self) -> int:
        """The hops between the two nodes that are farthest apart."""
        ...

    def mean_distance(self) -> float:
        """The mean hops over all ordered pairs of different nodes (0 when there is only one node)."""
        ...

    def __str__(self) -> str:
        """What it is, for the head of a report."""
        ...


class Single:
    """One node: nothing to cross."""

    nodes = 1
    least_hops = 0

    def hops(self, a: int, b: int, /) -> int:
        """Always 0."""
        return 0

    def route(self, a: int, b: int, /) -> Route:
        """Always empty."""
        return []

    def name(self, node: int, /) -> str:
        """Its number."""
        return str(node)

    def diameter(self) -> int:
        """Zero."""
        return 0

    def mean_distance(self) -> float:
        """Zero."""
        return 0.0

    def __str__(self) -> str:
        return "single node"


class Switch:
    """A switch with every node on it: one hop up and one hop down."""

    def __init__(self, nodes: int) -> None:
        self._first = nodes
        self.grow(nodes)

    def grow(self, nodes: int) -> None:
        """Have room for that many nodes."""
        self.nodes = nodes
        self.least_hops = 2 if nodes > 1 else 0

    def hops(self, a: int, b: int, /) -> int:
        """Two, or none to the node itself."""
        return 2 if a != b else 0

    def route(self, a: int, b: int, /) -> Route:
        """Up from ``a`` and down to ``b``; the switch is the vertex after the last of the first nodes."""
        switch = self._first
        return [(a + (a >= switch), switch), (switch, b + (b >= switch))] if a != b else []

    def name(self, node: int, /) -> str:
        """Its number."""
        return str(node)

    def diameter(self) -> int:
        """Two, when there are two nodes."""
        return self.least_hops

    def mean_distance(self) -> float:
        """Two, when there are two nodes."""
        return float(self.least_hops)

    def __str__(self) -> str:
        return f"switch with {self.nodes} node{'s' if self.nodes > 1 else ''}"
