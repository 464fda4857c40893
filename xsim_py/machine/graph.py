"""User-defined topologies: any connected graph, routed by shortest paths.

The graph comes from a file or from the description. Distances are found by breadth-first search, one search per sending
node.
"""

from __future__ import annotations

import fnmatch
import re
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, reduce
from operator import or_
from pathlib import Path
from typing import Any

from xsim_py.config import EdgeSpec, MachineSpec
from xsim_py.machine.graphfile import GraphEdge, read_graph
from xsim_py.machine.topology import Route, Topology, Wire

_AT_ONCE = 4096  # concurrent searches: fewer need more passes over the graph, more need more memory


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Return a natural sort key: n2 before n10, and n1 before n01, with numbers of any size."""
    parts = re.split(r"([0-9]+)", name)
    digits = [part.lstrip("0") for part in parts]
    key = [(len(digits[i]), digits[i]) if i % 2 else (-1, part) for i, part in enumerate(parts)]
    return key, name


class GraphTopology(Topology):
    """A graph whose vertices are nodes, followed by switches."""

    processor_name = "{node}"
    closed_form = False

    def __init__(
        self,
        # Pairs of names, optionally with the parameters of the link. Edges between the same two vertices are parallel
        # links; direction and loops are ignored.
        edges: Iterable[tuple[Any, ...]],
        *,
        hosts: str = "*",  # the pattern of the names that are nodes
        isolated: Iterable[str] = (),  # names of vertices that may have no edge at all
        cables: str = "destination",  # the choice between parallel links: ``destination`` or ``source``
        routing: str = "minimal",  # ``minimal``, or ``ecmp``: a random shortest route, drawn for each pair of nodes
    ) -> None:
        self._by_source, self._drawn = cables == "source", routing == "ecmp"
        pairs = [GraphEdge(*edge) for edge in edges]
        names = sorted({*isolated, *(name for pair in pairs for name in pair[:2])}, key=_natural)
        self.names = sorted(names, key=lambda name: not fnmatch.fnmatchcase(name, hosts))  # stable: nodes first
        self.nodes = sum(fnmatch.fnmatchcase(name, hosts) for name in names)
        number = {name: index for index, name in enumerate(self.names)}
        linked: list[set[int]] = [set() for _ in names]
        for a, b, *_ in pairs:
            linked[number[a]].add(number[b])
            linked[number[b]].add(number[a])
        self._linked = [sorted(others - {at}) for at, others in enumerate(linked)]
        self.switches = len(names) - self.nodes
        self._index_links(pairs, number)
        self.least_hops = self._closest_pair()
        self._distances: dict[int, array[int]] = {}
        self._search = lru_cache(maxsize=64)(self._search_from)

    def _index_links(self, pairs: list[GraphEdge], number: dict[str, int]) -> None:
        """Record vertices joined by parallel links, and links with separate parameters."""
        known = sorted(
            {pair[2:] for pair in pairs}, key=lambda values: [(each is not None, each or 0) for each in values]
        )
        self.edge_parameters = tuple(known) or ((None, None),)
        self.layers = ("link", *(f"link {layer}" for layer in range(2, len(self.edge_parameters) + 1)))
        layer_of = {values: layer for layer, values in enumerate(self.edge_parameters)}
        side_by_side: dict[tuple[int, int], list[int]] = {}
        for pair in pairs:
            a, b = sorted((number[pair.a], number[pair.b]))
            if a != b:
                side_by_side.setdefault((a, b), []).append(layer_of[pair[2:]])
        self.many = sum(map(len, side_by_side.values()))
        self._cables = {ends: sorted(layers) for ends, layers in side_by_side.items() if layers != [0]}

    @classmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Return the graph that a description defines.

        Raises a `ConfigError` if its file cannot be read, an edge is duplicated, no vertex is a node, or two nodes are
        not connected.
        """
        topology = spec.topology
        key = "topology.file" if topology.file is not None else "topology.edges"
        if topology.file is not None:
            edges, vertices = _read(spec, topology.file)
        else:
            edges, vertices = _edges_of(spec), list[str]()
        options = {"cables": topology.cables or "destination", "routing": topology.routing or "minimal"}
        graph = cls(edges, hosts=topology.hosts, isolated=vertices, **options)
        if not graph.nodes:
            raise spec.error("topology.hosts", f"no vertex matches {topology.hosts}, of {len(graph.names)}")
        lost = graph.unreachable()
        if lost is not None:
            raise spec.error(key, f"the graph is not connected: no path from {lost[0]} to {lost[1]}")
        return graph

    def _closest_pair(self) -> int:
        """Return the hops between the two nearest nodes: where searches from all nodes first meet."""
        found = {node: (0, node) for node in range(self.nodes)}  # distance from its nearest node, and that node
        least = len(self.names)
        queue = deque(found)
        while queue:
            at = queue.popleft()
            distance, nearest = found[at]
            for to in self._linked[at]:
                if to not in found:
                    found[to] = distance + 1, nearest
                    queue.append(to)
                elif found[to][1] != nearest:
                    least = min(least, distance + 1 + found[to][0])
        return least if self.nodes > 1 else 0

    def unreachable(self) -> tuple[str, str] | None:
        """Return two nodes without a path between them, or None."""
        if not self.nodes:
            return None
        distance, _ = self._search(0)
        lost = next((node for node in range(self.nodes) if distance[node] < 0), None)
        return None if lost is None else (self.names[0], self.names[lost])

    def _search_from(self, source: int) -> tuple[array[int], array[int]]:
        """Search breadth first from ``source``.

        Return each vertex's distance (-1: none) and predecessor.
        """
        distance = array("i", [-1]) * len(self.names)
        before = array("i", [-1]) * len(self.names)
        distance[source] = 0
        queue = deque([source])
        while queue:
            at = queue.popleft()
            for to in self._linked[at]:  # in ascending order, so that ties are broken consistently
                if distance[to] < 0:
                    distance[to], before[to] = distance[at] + 1, at
                    queue.append(to)
        return distance, before

    def hops(self, a: int, b: int, /) -> int:
        """Return the hops of a shortest path from node ``a`` to node ``b``."""
        found = self._distances.get(a)
        if found is None:  # distances only, and only to nodes: this may grow to nodes squared
            found = self._distances[a] = self._search(a)[0][: self.nodes]
        return found[b]

    def route(self, a: int, b: int, /) -> Route:
        """Return a shortest path.

        Among several, the first found by a search from ``a``, or a drawn one.
        """
        distance, before = self._search(a)
        route: Route = []
        to = b
        while to != a:
            at = before[to]
            if self._drawn:
                near = [each for each in self._linked[to] if distance[each] == distance[to] - 1]
                at = near[self.draw(len(near), a, b, to)]
            route.append(self._cable(at, to, a, b))
            to = at
        return route[::-1]

    def _cable(self, at: int, to: int, a: int, b: int) -> Wire:
        """Return the link between two vertices for a message between two nodes."""
        cables = self._cables.get((at, to) if at < to else (to, at))
        if cables is None or len(cables) == 1:
            return at, to
        if self._drawn:
            chosen = self.draw(len(cables), a, b, "cable", min(at, to), max(at, to))
        else:
            chosen = (a if self._by_source else b) % len(cables)
        return (at, to, chosen) if chosen else (at, to)

    def layer(self, link: Wire, /) -> int:
        """Return the index of a link's entry in `edge_parameters`."""
        at, to, *chosen = link
        cables = self._cables.get((at, to) if at < to else (to, at))
        return cables[chosen[0] if chosen else 0] if cables else 0

    def vertex(self, vertex: int, /) -> str:
        """Return the name of a vertex."""
        return self.names[vertex]

    def wires(self) -> Iterator[Wire]:
        """Yield all links, parallel ones consecutively."""
        for a, near in enumerate(self._linked):
            for b in near:
                if a < b:
                    yield a, b
                    yield from ((a, b, cable) for cable in range(1, len(self._cables.get((a, b), "x"))))

    def bisection(self, bandwidths: Sequence[float], /) -> float:
        """Return the maximum flow from the first half of the nodes to the second."""
        from xsim_py.machine.cuts import flow_between_halves  # importing networkx takes a while

        return flow_between_halves(self, bandwidths)

    def name(self, node: int, /) -> str:
        """Return the name of a node's vertex."""
        return self.names[node]

    def diameter(self) -> int:
        """Return the hops between the two farthest nodes."""
        return self._farthest_and_sum[0]

    def mean_distance(self) -> float:
        """Return the mean hops over all ordered pairs of different nodes."""
        return self._farthest_and_sum[1] / max(self.nodes * (self.nodes - 1), 1)

    @cached_property
    def _farthest_and_sum(self) -> tuple[int, int]:
        """The largest distance between nodes, and the sum of all, by concurrent searches from many nodes.

        Each vertex has a bit set of the searches that have reached it, and passes it to its neighbours.
        """
        farthest = total = 0
        for first in range(0, self.nodes, _AT_ONCE):
            sources = range(first, min(first + _AT_ONCE, self.nodes))
            reached = [1 << at - first if at in sources else 0 for at in range(len(self.names))]
            distance, known = 0, len(sources)
            while known < len(sources) * self.nodes:
                distance += 1
                earlier = reached
                reached = [
                    reduce(or_, map(reached.__getitem__, near), reached[at]) for at, near in enumerate(self._linked)
                ]
                if reached == earlier:  # it is not connected, see `unreachable`
                    break
                before, known = known, sum(map(int.bit_count, reached[: self.nodes]))
                total += distance * (known - before)
            farthest = max(farthest, distance)
        return farthest, total

    def __str__(self) -> str:
        return f"graph of {self.nodes} nodes, {self.switches} switches and {self.many} links"


def _edges_of(spec: MachineSpec) -> list[GraphEdge]:
    """Return the edges in the description."""
    edges: list[GraphEdge] = []
    for edge in spec.topology.edges or ():
        if isinstance(edge, EdgeSpec):
            a, b = edge.ends
            edges += [GraphEdge(a, b, edge.ps_per_byte, edge.latency_ps)] * edge.parallel
        else:
            edges.append(GraphEdge(edge[0], edge[1]))
    return edges


def _read(spec: MachineSpec, file: Path) -> tuple[list[GraphEdge], list[str]]:
    """Return the edges and the vertex names of a file."""
    try:
        graph = read_graph(file)
    except OSError as error:
        raise spec.error("topology.file", f"cannot read the graph {file}: {error.strerror}") from None
    return graph.edges, list(graph.vertices)
