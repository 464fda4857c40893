"""HyperX: routers in a grid of any dimension, each linked to all that differ in one coordinate.

Ahn, Binkert, Davis, McLaren, Schreiber, "HyperX: topology, routing, and packaging of efficient large-scale networks"
(SC 2009): L dimensions of lengths S_1 ... S_L, K_i links between two routers along dimension i, T nodes per router.
Flattened butterflies and hypercubes are special cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod
from operator import mul

from xsim_py.config import MachineSpec
from xsim_py.machine.topology import Route, RouterTopology, Topology, Wire


class HyperX(RouterTopology):
    """A HyperX; consecutive nodes are on one router.

    Routers follow the nodes, the first digit fastest.
    """

    def __init__(
        self,
        dims: Sequence[int],  # the length of each dimension
        hosts: int,  # nodes per router
        parallel: Sequence[int] | None = None,  # links between two routers along each dimension; None: one
        *,
        # ``dimension_order``; ``ecmp``: order of dimensions and links drawn for each pair of nodes; ``valiant``: over a
        # randomly drawn router.
        routing: str = "dimension_order",
    ) -> None:
        self.dims, self.hosts, self.shared_first_link = tuple(dims), hosts, True
        self.parallel = tuple(parallel or [1] * len(self.dims))
        self.routing = routing
        self.layers = ("host", *(f"dim{dimension}" for dimension in range(1, len(self.dims) + 1)))
        self.switches = prod(self.dims)
        self.nodes = hosts * self.switches
        self._strides = list(accumulate(self.dims, mul, initial=1))
        self.least_hops = 2 if hosts > 1 else 3 if self.nodes > 1 else 0

    @classmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Return the HyperX that a description defines.

        If nodes per router are open, there are enough for all ranks.
        """
        topology = spec.topology
        assert topology.dims is not None  # validation of the description ensures this
        hosts = topology.hosts_per_router or -(-nodes // prod(topology.dims))
        return cls(topology.dims, hosts, topology.parallel, routing=topology.routing or "dimension_order")

    def digits(self, router: int) -> list[int]:
        """Return the coordinates of a router."""
        digits = []
        for length in self.dims:
            router, digit = divmod(router, length)
            digits.append(digit)
        return digits

    def _order(self, a: int, b: int) -> list[int]:
        """Return the order in which a message corrects the dimensions."""
        order = list(range(len(self.dims)))
        if self.routing == "ecmp":
            order.sort(key=lambda dimension: (self.draw(1 << 60, a, b, "order", dimension), dimension))
        return order

    def route(self, a: int, b: int, /) -> Route:
        """Return the route that corrects one coordinate after the other; twice, over a drawn router."""
        if a == b:
            return []
        at, last = a // self.hosts, b // self.hosts
        route: Route = [(a, self.nodes + at)]
        stops = [last]
        if self.routing == "valiant" and at != last:
            stops = [self.draw(self.switches, a, b), last]
        for stop in stops:
            route += self._between(at, stop, a, b)
            at = stop
        return [*route, (self.nodes + last, b)]

    def _between(self, router: int, other: int, a: int, b: int) -> Route:
        """Return the route between two routers of a message between two nodes."""
        route: Route = []
        here, there = self.digits(router), self.digits(other)
        for dimension in self._order(a, b):
            if here[dimension] != there[dimension]:
                to = router + (there[dimension] - here[dimension]) * self._strides[dimension]
                lanes = self.parallel[dimension]
                lane = self.draw(lanes, a, b, "lane", dimension) if self.routing == "ecmp" else b % lanes
                ends = self.nodes + router, self.nodes + to
                route.append((*ends, lane) if lane else ends)
                router = to
        return route

    def links_per_layer(self, a: int, b: int, /) -> tuple[int, ...]:
        """Return the number of links of nodes and along each dimension of the route."""
        if self.routing == "valiant":
            return super().links_per_layer(a, b)
        one, other = a // self.hosts, b // self.hosts
        counts = [2 if a != b else 0]
        for length in self.dims:
            counts.append(int(one % length != other % length))
            one //= length
            other //= length
        return tuple(counts)

    def hops(self, a: int, b: int, /) -> int:
        """Return the number of links of the route: two, and one for each coordinate that differs."""
        return sum(self.links_per_layer(a, b))

    def layer(self, link: Wire, /) -> int:
        """Return 0 for a node's link, and the dimension, counted from 1, for others."""
        if min(link[0], link[1]) < self.nodes:
            return 0
        step = abs(link[0] - link[1])
        return next(dimension for dimension in range(len(self.dims), 0, -1) if step >= self._strides[dimension - 1])

    def vertex(self, vertex: int, /) -> str:
        """Return ``h<number>`` for a node, and ``r<digit>.<digit>...`` for a router."""
        if vertex < self.nodes:
            return f"h{vertex}"
        return "r" + ".".join(map(str, self.digits(vertex - self.nodes)))

    def wires(self) -> Iterator[Wire]:
        """Yield the links of nodes, and those of each router to higher numbers."""
        yield from super().wires()
        for router in range(self.switches):
            for digit, length, stride, lanes in zip(
                self.digits(router), self.dims, self._strides, self.parallel, strict=False
            ):
                for step in range(1, length - digit):
                    ends = self.nodes + router, self.nodes + router + step * stride
                    yield ends
                    yield from ((*ends, lane) for lane in range(1, lanes))

    def router_diameter(self) -> int:
        """Return the hops between routers of the longest route."""
        return sum(length > 1 for length in self.dims) * (2 if self.routing == "valiant" else 1)

    def mean_router_hops(self) -> float:
        """Return the mean hops between routers over all ordered pairs of different routers."""
        to_any = sum((length - 1) / length for length in self.dims)
        if self.routing == "valiant":
            return 2 * to_any
        return to_any * self.switches / max(self.switches - 1, 1)

    def bisection(self, bandwidths: Sequence[float], /) -> float:
        """Return the bisection bandwidth: that of the narrowest cut across a dimension."""
        cuts = [
            (length // 2) * -(-length // 2) * (self.switches // length) * lanes * bandwidth
            for length, lanes, bandwidth in zip(self.dims, self.parallel, bandwidths[1:], strict=True)
            if length > 1
        ]
        return min([*cuts, self.nodes // 2 * bandwidths[0]])

    def __str__(self) -> str:
        lanes = "" if set(self.parallel) == {1} else f", {'x'.join(map(str, self.parallel))} links"
        way = "" if self.routing == "dimension_order" else f", {self.routing}"
        return f"{'x'.join(map(str, self.dims))} HyperX with {self.hosts} nodes per router{lanes}{way}"
