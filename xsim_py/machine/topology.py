"""The base class of all topologies, and the two trivial ones: one node, and a switch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

from xsim_py import rng
from xsim_py.config import MachineSpec

Wire = tuple[int, ...]
"""A directed link: the vertices that it leads from and to, then the number of a parallel link other than the first.

A link within a vertex has a number of `WITHIN`, possibly after that of a NIC or socket.
"""
Route = list[Wire]

PORT: Final = -1
OUT: Final = -2
IN: Final = -3
MEMORY: Final = -4
BACKBONE: Final = -5
NIC: Final = -6
WITHIN: Final = {PORT: ".port", OUT: ".out", IN: ".in", MEMORY: ".mem", BACKBONE: "", NIC: ".port"}
"""The links within a vertex by their numbers: the suffixes of their names."""


class Topology(ABC):
    """The connections between the nodes of a machine. Nodes are numbered from 0.

    Switches follow them.

    Attributes
    ----------
    nodes : int
        The number of nodes.
    least_hops : int
        The hops between the two nearest nodes (0 if there is only one node).
    grows : str
        What grows with the number of ranks if the size is open: ``cores``, ``nodes`` or nothing.
    equally_far : bool
        Whether any two different nodes are equally far apart.
    codes : array of int or None
        A number per node: the difference of two of them determines the distance of their nodes.
    many_links : int
        An upper bound of the numbers of `links`; 0 if links have no numbers.
    processor_name : str
        The default of the key ``machine.processor_name``.
    layers : tuple of str
        The kinds of links, each with a bandwidth and a latency; see `layer`.
    widths : tuple of int or None
        The bandwidth factor of a link by layer; None: 1.
    edge_parameters : tuple
        Picoseconds per byte and of latency by layer, if links define them; None: undefined.
    link_parameters : tuple of (picoseconds per byte, picoseconds of latency) or None
        The parameters of each layer; None if all links are as in section ``network``.
    host_ports : int
        The number of layers of links of the nodes themselves, which are the last ones.
    switches : int
        The number of vertices that are not nodes.
    shared_first_link : bool
        Whether all messages of a rank to other nodes share their first link.
    closed_form : bool
        Whether distances are cheap to compute for any number of nodes.
    seed : int
        The seed of randomly drawn routes.
    """

    nodes: int
    least_hops: int
    layers: tuple[str, ...] = ("link",)
    widths: tuple[int, ...] | None = None
    edge_parameters: tuple[tuple[Fraction | None, int | None], ...] = ()
    link_parameters: tuple[tuple[Fraction, int], ...] | None = None
    host_ports = 0
    switches = 0
    shared_first_link = False
    closed_form = True
    seed = 0
    grows = ""
    equally_far = False
    codes: array[int] | None = None
    many_links = 0
    processor_name = "node{node}"

    @classmethod
    @abstractmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Return the topology that a description defines.

        If its size is open, it has room for `nodes`.

        Raises
        ------
        ConfigError
            If there is no such topology.
        """

    def grow(self, nodes: int) -> None:
        """Make room for that number of nodes, at least the current one."""
        self.nodes = nodes

    @abstractmethod
    def hops(self, a: int, b: int, /) -> int:
        """Return the number of links of a shortest path from node ``a`` to node ``b``."""

    @abstractmethod
    def route(self, a: int, b: int, /) -> Route:
        """Return a shortest path of `hops` links, always the same for the same two nodes."""

    def links(self, a: int, b: int, /) -> list[int] | Route:
        """Return the links of `route`, the last one first; as numbers, if links have numbers."""
        return self.route(a, b)[::-1]

    def layer(self, link: Wire, /) -> int:
        """Return the index of a link's layer in `layers`."""
        return 0

    def partner(self, link: Wire, /) -> Wire:
        """Return the link in the opposite direction of a node's NIC."""
        return (*link[:-1], OUT + IN - link[-1])

    def links_per_layer(self, a: int, b: int, /) -> tuple[int, ...]:
        """Return the number of links per layer of `route`."""
        counts = [0] * len(self.layers)
        for link in self.route(a, b):
            counts[self.layer(link)] += 1
        return tuple(counts)

    def name(self, node: int, /) -> str:
        """Return the node's name for users."""
        return str(node)

    def vertex_of(self, node: int, /) -> int:
        """Return the vertex of a node: its number, unless other vertices precede it."""
        return node

    def vertex(self, vertex: int, /) -> str:
        """Return the name of a node or switch in the names of links."""
        return f"n{vertex}"

    def link_name(self, link: Wire, /) -> str:
        """Return the name of a link, such as ``h0>s1.0``, ``a>b#1`` for a second one, or ``n0.mem`` within a node."""
        a, b, *number = link
        if a == b:
            return self.vertex(a) + WITHIN[number[-1]] + "".join(map(str, number[:-1]))
        return f"{self.vertex(a)}>{self.vertex(b)}" + (f"#{number[0]}" if number else "")

    def wires(self) -> Iterator[Wire]:
        """Yield all links between vertices, one per pair of directions."""
        seen: set[Wire] = set()
        for a in range(self.nodes):
            for b in range(self.nodes):
                for at, to, *number in self.route(a, b) if a != b else ():
                    link = (min(at, to), max(at, to), *number)
                    if at != to and link not in seen:
                        seen.add(link)
                        yield link

    def router_hops(self) -> tuple[int, float] | None:
        """Return the maximum and the mean hops between two different switches, or None if not useful."""
        return None

    def bisection(self, bandwidths: Sequence[float], /) -> float | None:
        """Return the bisection bandwidth of the nodes, or None if it is unknown.

        Parameters
        ----------
        bandwidths
            Of the links of each layer, without their `widths`.
        """
        return None

    def draw(self, choices: int, *names: str | int) -> int:
        """Return a random number below `choices`, determined by the seed and these names."""
        return rng.derive_seed(self.seed, "routing", *names) % choices

    @abstractmethod
    def diameter(self) -> int:
        """Return the hops of the longest route between two nodes."""

    @abstractmethod
    def mean_distance(self) -> float:
        """Return the mean hops over all ordered pairs of different nodes (0 if there is only one node)."""

    @abstractmethod
    def __str__(self) -> str:
        """Return a description for the head of a report."""


class RouterTopology(Topology):
    """Routers with the same number of nodes each, the `hosts`; subclasses connect the routers."""

    hosts: int

    def wires(self) -> Iterator[Wire]:
        """Yield the links of nodes."""
        return ((node, self.nodes + node // self.hosts) for node in range(self.nodes))

    def diameter(self) -> int:
        """Return the number of links of the longest route."""
        return 2 + self.router_diameter() if self.nodes > 1 else 0

    def router_hops(self) -> tuple[int, float]:
        """Return the maximum and the mean hops between two different routers."""
        return self.router_diameter(), self.mean_router_hops()

    def mean_distance(self) -> float:
        """Return the mean hops over all ordered pairs of different nodes, and all routes that may be drawn."""
        others = self.nodes - self.hosts
        return (2 * (self.hosts - 1) + others * (2 + self.mean_router_hops())) / max(self.nodes - 1, 1)

    @abstractmethod
    def router_diameter(self) -> int:
        """Return the hops between routers of the longest route."""

    @abstractmethod
    def mean_router_hops(self) -> float:
        """Return the mean hops between routers over all ordered pairs of different routers."""


class Single(Topology):
    """One node, without links."""

    nodes = 1
    least_hops = 0
    grows = "cores"

    @classmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Return the single node."""
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
    """A switch with every node on it: one hop up and one hop down.

    If `half`, a node's port is one link for both directions. If `backbone`, all messages share a link within the
    switch.
    """

    grows = "nodes"
    equally_far = True
    shared_first_link = True
    switches = 1

    def __init__(self, nodes: int, *, half: bool = False, backbone: bool = False) -> None:
        self._first = nodes
        self.half, self._backbone = half, backbone
        self.layers = ("node", "backbone") if backbone else ("node",)
        self.grow(nodes)

    @classmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Return a switch for all nodes."""
        half, backbone = spec.topology.duplex == "half", "backbone" in (spec.topology.links or ())
        return cls(spec.machine.nodes or nodes, half=half, backbone=backbone)

    def grow(self, nodes: int) -> None:
        """Make room for that number of nodes on the switch."""
        self.nodes = nodes
        self.least_hops = 2 + self._backbone if nodes > 1 else 0

    def hops(self, a: int, b: int, /) -> int:
        """Return the number of links of the route, 0 from a node to itself."""
        return self.least_hops if a != b else 0

    def route(self, a: int, b: int, /) -> Route:
        """Return the route up from ``a`` and down to ``b``.

        The switch is the vertex after the initial nodes.
        """
        if a == b:
            return []
        switch = self._first
        a, b = self.vertex_of(a), self.vertex_of(b)
        backbone: Route = [(switch, switch, BACKBONE)] if self._backbone else []
        if self.half:
            return [(a, a, PORT), *backbone, (b, b, PORT)]
        return [(a, switch), *backbone, (switch, b)]

    def vertex_of(self, node: int, /) -> int:
        """Return the vertex of a node; nodes added later follow the switch."""
        return node + (node >= self._first)

    def links_per_layer(self, a: int, b: int, /) -> tuple[int, ...]:
        """Return two links of nodes, and possibly the backbone; none within a node."""
        return (2 * (a != b), int(a != b)) if self._backbone else (2 * (a != b),)

    def layer(self, link: Wire, /) -> int:
        """Return 0 for the link of a node, and 1 for the backbone."""
        return int(link[-1] == BACKBONE)

    def vertex(self, vertex: int, /) -> str:
        """Return ``sw`` for the switch, and ``n<number>`` for a node."""
        return "sw" if vertex == self._first else f"n{vertex - (vertex > self._first)}"

    def wires(self) -> Iterator[Wire]:
        """Yield the link of each node."""
        yield from ((self.vertex_of(node), self._first) for node in range(self.nodes))

    def diameter(self) -> int:
        """Return the number of links of a route between two nodes."""
        return self.least_hops

    def mean_distance(self) -> float:
        """Return the number of links of a route between two nodes."""
        return float(self.least_hops)

    def bisection(self, bandwidths: Sequence[float], /) -> float:
        """Return the bandwidth of half of the nodes, or of the backbone."""
        nodes = self.nodes // 2 * bandwidths[0]
        return min(nodes, bandwidths[1]) if self._backbone else nodes

    def __str__(self) -> str:
        return f"switch with {self.nodes} node{'s' if self.nodes > 1 else ''}"
