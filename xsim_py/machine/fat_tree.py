"""Fat trees of any number of levels: parallel-ports generalized fat trees (PGFT).

``PGFT(h; m_1 ... m_h; w_1 ... w_h; p_1 ... p_h)`` has h levels of switches above the nodes, which are level 0. A switch
of level i has m_i children, a vertex of level i-1 has w_i parents, and p_i cables join each such pair. With p = 1 it is
an XGFT (Öhring, Ibel, Das, Kumar, "On generalized fat trees", IPPS 1995).

A vertex of level i has digits d_1 ... d_h, of which those up to i count parents (d_j < w_j) and the others children
(d_j < m_j); digit 1 runs fastest in its number. Neighbours of levels i-1 and i differ only in digit i.

The upward route of a message depends only on its destination node, as with one table per switch (D-mod-k: Zahavi,
Johnson, Kerbyson, Lang, "Optimized InfiniBand fat-tree routing for shift all-to-all communication patterns",
Concurrency and Computation 22(2), 2010). So every shift is free of conflicts if no level is tapered.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod
from operator import mul

from xsim_py.config import MachineSpec
from xsim_py.config.fat_trees import tree_shape
from xsim_py.machine.topology import Route, Topology, Wire


class FatTree(Topology):
    """A fat tree; consecutive nodes are on one switch.

    Switches follow the nodes, level by level.
    """

    def __init__(
        self,
        children: Sequence[int],  # per switch, level by level from below
        parents: Sequence[int],  # per node, then per switch of each level
        parallel: Sequence[int] | None = None,  # cables between each such pair; None: one
        *,
        # The choice between parallel cables downwards: ``destination``, as in D-mod-k, or ``source`` (SimGrid's rule).
        cables: str = "destination",
        routing: str = "dmodk",  # ``dmodk``, or ``ecmp``: a random shortest route, drawn for each pair of nodes
    ) -> None:
        self.children, self.parents = tuple(children), tuple(parents)
        self.parallel = tuple(parallel or [1] * len(self.children))
        self._by_source, self._drawn = cables == "source", routing == "ecmp"
        self.shared_first_link = self.parents[0] * self.parallel[0] == 1
        levels = len(self.children)
        self._below = list(accumulate(self.children, mul, initial=1))  # nodes below a switch of level i
        self._above = list(accumulate(self.parents, mul, initial=1))
        sizes = [self._above[level] * prod(self.children[level:]) for level in range(levels + 1)]
        self._starts = list(accumulate(sizes))  # the first vertex of each level except the lowest
        self.sizes = sizes
        self.nodes, self.switches = sizes[0], sum(sizes[1:])
        self.layers = tuple(f"level{level}" for level in range(1, levels + 1))
        self._reach = [(below, 2 * level) for level, below in enumerate(self._below[1:], 1)]
        self._by_bits: list[int] | None = None
        if all(below & (below - 1) == 0 for below in self._below):
            self._by_bits = [0] + [
                next(hops for below, hops in self._reach if below > 1 << bits)
                for bits in range(self.nodes.bit_length() - 1)
            ]
        self._needed = [level for level, under in enumerate(self.children, 1) if under > 1]
        self.least_hops = 2 * self._needed[0] if self._needed else 0

    @classmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Return the tree that a description defines.

        If its size is open, it is large enough for the ranks.
        """
        topology = spec.topology
        shape = tree_shape(topology, nodes)
        return cls(*shape, cables=topology.cables or "destination", routing=topology.routing or "dmodk")

    def hops(self, a: int, b: int, /) -> int:
        """Return twice the level of the lowest common switch, or 0 from a node to itself."""
        if self._by_bits is not None:  # hot path: one look-up
            return self._by_bits[(a ^ b).bit_length()]
        if a == b:
            return 0
        for below, hops in self._reach:
            if a // below == b // below:
                return hops
        raise IndexError(f"nodes {a} and {b} are out of range: there are {self.nodes}")

    def links_per_layer(self, a: int, b: int, /) -> tuple[int, ...]:
        """Return two links for each level that the route reaches."""
        top = self.hops(a, b) // 2
        return (2,) * top + (0,) * (len(self.children) - top)

    def layer(self, link: Wire, /) -> int:
        """Return the level of a link's lower end."""
        return bisect(self._starts, min(link[0], link[1]))

    def route(self, a: int, b: int, /) -> Route:
        """Return the route up to a common switch and down.

        Upward ports are the digits of node ``b`` in radix parents times cables.
        """
        top = self.hops(a, b) // 2
        route: Route = []
        at = place = a
        for level in range(top):
            above, below, parents = self._above[level], self.children[level], self.parents[level]
            ports = parents * self.parallel[level]
            port = self.draw(ports, a, b, "up", level) if self._drawn else b // above % ports
            rest, low = divmod(place, above)
            place = low + above * (port % parents + parents * (rest // below))
            to = self._starts[level] + place
            route.append((at, to, port // parents) if port >= parents else (at, to))
            at = to
        for level in range(top, 0, -1):
            above, parents = self._above[level - 1], self.parents[level - 1]
            rest, low = divmod(place, above)
            digit = b // self._below[level - 1] % self.children[level - 1]
            place = low + above * (digit + self.children[level - 1] * (rest // parents))
            to = self._starts[level - 2] + place if level > 1 else place
            cable = self._cable_down(a, b, level)
            route.append((at, to, cable) if cable else (at, to))
            at = to
        return route

    def _cable_down(self, a: int, b: int, level: int) -> int:
        """Return the parallel cable that a message takes downwards from a switch of a level."""
        parallel, parents = self.parallel[level - 1], self.parents[level - 1]
        if parallel == 1:
            return 0
        if self._drawn:
            return self.draw(parallel, a, b, "down", level)
        return a % parallel if self._by_source else b // self._above[level - 1] % (parents * parallel) // parents

    def vertex(self, vertex: int, /) -> str:
        """Return ``h<number>`` for a node, and ``s<level>.<number>`` for a switch."""
        level = bisect(self._starts, vertex)
        return f"s{level}.{vertex - self._starts[level - 1]}" if level else f"h{vertex}"

    def wires(self) -> Iterator[Wire]:
        """Yield the cables level by level, from below."""
        for level, (below, parents, parallel) in enumerate(
            zip(self.children, self.parents, self.parallel, strict=True)
        ):
            above, start = self._above[level], self._starts[level]
            first = self._starts[level - 1] if level else 0
            for place in range(self.sizes[level]):
                rest, low = divmod(place, above)
                for parent in range(parents):
                    to = start + low + above * (parent + parents * (rest // below))
                    yield first + place, to
                    yield from ((first + place, to, cable) for cable in range(1, parallel))

    def diameter(self) -> int:
        """Return twice the highest level of any route."""
        return 2 * self._needed[-1] if self._needed else 0

    def mean_distance(self) -> float:
        """Return the mean hops over all pairs; all nodes have the same distances."""
        total = sum(2 * level * (self._below[level] - self._below[level - 1]) for level in self._needed)
        return total / max(self.nodes - 1, 1)

    def bisection(self, bandwidths: Sequence[float], /) -> float:
        """Return half of the upward bandwidth of the level with the least."""
        ups = [self.sizes[level] * self.parents[level] * self.parallel[level] for level in range(len(self.layers))]
        needed = self._needed[-1] if self._needed else 0
        return min((up * bandwidth / 2 for up, bandwidth in zip(ups[:needed], bandwidths, strict=False)), default=0.0)

    def __str__(self) -> str:
        if len(self.children) == 2 and self.parents[0] == 1 and set(self.parallel) == {1}:
            spines = f"{self.parents[1]} spine{'s' if self.parents[1] > 1 else ''}"
            return f"fat tree of {self.children[1]} x {self.children[0]} nodes, {spines}"
        lists = (",".join(map(str, each)) for each in (self.children, self.parents, self.parallel))
        return f"fat tree {len(self.children)}; {'; '.join(lists)} with {self.nodes} nodes"
