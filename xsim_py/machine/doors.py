"""Links of the nodes themselves: a port between a node's ranks and the network, and its memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xsim_py.config import MachineSpec
from xsim_py.machine.topology import IN, MEMORY, OUT, PORT, Route, Topology, Wire


class Doors(Topology):
    """A topology whose nodes have a port, which all messages of their ranks share, or a memory, or both.

    Parameters
    ----------
    inner
        The topology itself.
    port
        ``full``: a link for each direction; ``half``: one for both; or no port.
    memory
        Whether messages within a node share a link.
    """

    def __init__(self, inner: Topology, *, port: str | None, memory: bool) -> None:
        self.inner, self._port, self._memory = inner, port, memory
        self.layers = (*inner.layers, *(["port"] if port else []), *(["memory"] if memory else []))
        self.widths = inner.widths and (*inner.widths, *[1] * (len(self.layers) - len(inner.layers)))
        self.edge_figures = inner.edge_figures and inner.edge_figures + ((None, None),) * (
            len(self.layers) - len(inner.layers)
        )
        self.closed_form, self.one_way_out = inner.closed_form, inner.one_way_out or port is not None
        self.grows, self.equally_far = inner.grows, inner.equally_far
        self.codes, self.switches, self.processor_name = inner.codes, inner.switches, inner.processor_name
        self.grow(inner.nodes)

    @classmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Refuse: it is made around another one, see `around`."""
        raise NotImplementedError

    @classmethod
    def around(cls, inner: Topology, spec: MachineSpec) -> Topology:
        """Return a topology with the ports and memories that a description asks for; itself if that is none."""
        links = spec.topology.links or {}
        if "port" not in links and "memory" not in links:
            return inner
        port = (spec.topology.duplex or "full") if "port" in links else None
        return cls(inner, port=port, memory="memory" in links)

    @property
    def seed(self) -> int:
        """The seed of ways that are drawn by chance."""
        return self.inner.seed

    @seed.setter
    def seed(self, seed: int) -> None:
        self.inner.seed = seed

    def grow(self, nodes: int) -> None:
        """Have room for that many nodes."""
        if nodes != self.inner.nodes:
            self.inner.grow(nodes)
        self.nodes = nodes
        self.least_hops = self.inner.least_hops + (2 if self._port and self.inner.least_hops else 0)

    def route(self, a: int, b: int, /) -> Route:
        """Return the way between two ports, or the memory of a node."""
        way = self.inner.route(a, b)
        a, b = self.inner.vertex_of(a), self.inner.vertex_of(b)
        if a == b:
            return [(a, a, MEMORY)] if self._memory else []
        if self._port is None:
            return way
        out, into = (PORT, PORT) if self._port == "half" else (OUT, IN)
        return [(a, a, out), *way, (b, b, into)]

    def vertex_of(self, node: int, /) -> int:
        """Return the vertex that a node is in the topology itself."""
        return self.inner.vertex_of(node)

    def hops(self, a: int, b: int, /) -> int:
        """Return the links of the route between two nodes, 0 within one."""
        return self.inner.hops(a, b) + (2 if self._port and a != b else 0)

    def ways(self, a: int, b: int, /) -> tuple[int, ...]:
        """Return how many links of each layer the route has; of port and memory, those that there are."""
        ways = self.inner.ways(a, b)
        if self._port:
            ways = (*ways, 2 if a != b else 0)
        return (*ways, int(a == b)) if self._memory else ways

    def layer(self, link: Wire, /) -> int:
        """Return the place of a link's layer."""
        if link[-1] == MEMORY:
            return len(self.layers) - 1
        return len(self.inner.layers) if self._port and link[-1] in (PORT, OUT, IN) else self.inner.layer(link)

    def name(self, node: int, /) -> str:
        """Return what a user calls that node."""
        return self.inner.name(node)

    def vertex(self, vertex: int, /) -> str:
        """Return the name that it has in the topology itself."""
        return self.inner.vertex(vertex)

    def wires(self) -> Iterator[Wire]:
        """Yield the links between vertices."""
        return self.inner.wires()

    def diameter(self) -> int:
        """Return the links of the longest way, ports counted."""
        inner = self.inner.diameter()
        return inner + (2 if self._port and inner else 0)

    def mean_distance(self) -> float:
        """Return the mean over all pairs, ports counted."""
        inner = self.inner.mean_distance()
        return inner + (2 if self._port and inner else 0)

    def router_hops(self) -> tuple[int, float] | None:
        """Return the hops between switches in the topology itself."""
        return self.inner.router_hops()

    def bisection(self, bandwidths: Sequence[float], /) -> float | None:
        """Return what the network carries, or the ports of half of the nodes."""
        inner = self.inner.bisection(bandwidths[: len(self.inner.layers)])
        if not self._port or inner is None:
            return inner
        return min(inner, self.nodes // 2 * bandwidths[len(self.inner.layers)])

    def __str__(self) -> str:
        port = f"{self._port}-duplex ports" if self._port else ""
        memory = "memories" if self._memory else ""
        return f"{self.inner} with {' and '.join(filter(None, (port, memory)))}"
