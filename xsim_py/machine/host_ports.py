"""Links of the nodes themselves (host ports): NICs shared by ranks, and the memory of sockets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xsim_py.config import MachineSpec
from xsim_py.machine.topology import IN, MEMORY, NIC, OUT, Route, Switch, Topology, Wire


class PortNumbers(NamedTuple):
    """The NIC and the socket of a rank, by their numbers within its node."""

    nic: int = 0
    socket: int = 0


_FIRST = PortNumbers()


class HostPorts(Topology):
    """A topology whose nodes have NICs or memories shared by the messages of their ranks, or both.

    `inner` is the topology without host ports. Each node has `nics` NICs and `sockets` memories; 0: messages share
    none. `duplex` is ``full``: a NIC is one link per direction; or ``half``: one link for both. If `both_ways`, a
    full-duplex NIC is slower while both directions are busy: a third link, crossed by both.
    """

    def __init__(
        self, inner: Topology, *, nics: int = 0, duplex: str = "full", both_ways: bool = False, sockets: int = 0
    ) -> None:
        self.inner, self._nics, self._sockets = inner, nics, sockets
        kinds = {"half": [NIC], "full": [OUT, NIC] if both_ways else [OUT]}[duplex] if nics else []
        self._out: Sequence[int] = kinds
        self._into: Sequence[int] = [IN if kind == OUT else kind for kind in reversed(kinds)]
        added = [*(["nic", "nic both ways"] if len(kinds) == 2 else ["nic"] * len(kinds)), *["memory"] * bool(sockets)]
        self.layers = (*inner.layers, *added)
        self.host_ports = len(added)
        self.widths = inner.widths and (*inner.widths, *[1] * self.host_ports)
        self.edge_parameters = inner.edge_parameters and inner.edge_parameters + ((None, None),) * self.host_ports
        self.closed_form, self.shared_first_link = inner.closed_form, inner.shared_first_link or nics > 0
        self.grows, self.equally_far = inner.grows, inner.equally_far
        self.codes, self.switches, self.processor_name = inner.codes, inner.switches, inner.processor_name
        self.grow(inner.nodes)

    @classmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Raise: this topology is only made by `wrap`."""
        raise NotImplementedError

    @classmethod
    def wrap(cls, inner: Topology, spec: MachineSpec) -> HostPorts:
        """Return a topology with the NICs and memories that a description defines."""
        nic, memory = spec.nic, spec.memory
        nics = 0 if nic is None else spec.machine.nics_per_node or 1
        sockets = 0 if memory is None else spec.machine.sockets_per_node or 1
        if nic is None:
            return cls(inner, sockets=sockets)
        return cls(inner, nics=nics, duplex=nic.duplex, both_ways=nic.both_ways < 1, sockets=sockets)

    @property
    def seed(self) -> int:
        """The seed of randomly drawn routes."""
        return self.inner.seed

    @seed.setter
    def seed(self, seed: int) -> None:
        self.inner.seed = seed

    def grow(self, nodes: int) -> None:
        """Make room for that number of nodes."""
        if nodes != self.inner.nodes:
            self.inner.grow(nodes)
        self.nodes, self.least_hops = nodes, self.inner.least_hops

    def ports_of(self, core: int, cores: int) -> PortNumbers:
        """Return the NIC and socket of a core: cores are divided among them evenly, in order."""
        return PortNumbers(core * max(self._nics, 1) // cores, core * max(self._sockets, 1) // cores)

    def route_between(self, a: int, b: int, origin: PortNumbers, to: PortNumbers, *, inner: bool) -> Route:
        """Return the links from one rank to another.

        The ranks are on nodes `a` and `b`, where they use the NICs and sockets `origin` and `to`. If `inner`, the links
        between nodes are included.
        """
        at, there = self.inner.vertex_of(a), self.inner.vertex_of(b)
        if at == there:
            sockets = sorted({origin.socket, to.socket}) if self._sockets else []
            return [_port_link(at, MEMORY, socket) for socket in sockets]
        out = [_port_link(at, kind, origin.nic) for kind in self._out]
        into = [_port_link(there, kind, to.nic) for kind in self._into]
        return [*out, *(self.inner.route(a, b) if inner else ()), *into]

    def route(self, a: int, b: int, /) -> Route:
        """Return the route between the first cores of two nodes, or the memory of a node's first socket."""
        return self.route_between(a, b, _FIRST, _FIRST, inner=True)

    def vertex_of(self, node: int, /) -> int:
        """Return the vertex of a node in the inner topology."""
        return self.inner.vertex_of(node)

    def hops(self, a: int, b: int, /) -> int:
        """Return the number of links between two nodes, without host ports."""
        return self.inner.hops(a, b)

    def links_per_layer(self, a: int, b: int, /) -> tuple[int, ...]:
        """Return the number of links per layer of the route, including NICs and memories."""
        host_ports = [2 if a != b else 0] * len(self._out) + [int(a == b)] * bool(self._sockets)
        return (*self.inner.links_per_layer(a, b), *host_ports)

    def layer(self, link: Wire, /) -> int:
        """Return the index of a link's layer."""
        kind = link[-1] if len(link) > 2 else 0
        if kind == MEMORY:
            return len(self.layers) - 1
        if kind in (OUT, IN, NIC):
            return len(self.inner.layers) + (kind == NIC and len(self._out) == 2)
        return self.inner.layer(link)

    def link_name(self, link: Wire, /) -> str:
        """Return the name of a link; a NIC next to the half-duplex port of a switch is ``n0.nic``."""
        name = super().link_name(link)
        shares_port = isinstance(self.inner, Switch) and self.inner.half
        return name.replace(".port", ".nic") if shares_port and link[-1] == NIC else name

    def name(self, node: int, /) -> str:
        """Return the node's name for users."""
        return self.inner.name(node)

    def vertex(self, vertex: int, /) -> str:
        """Return the vertex's name in the inner topology."""
        return self.inner.vertex(vertex)

    def wires(self) -> Iterator[Wire]:
        """Yield the links between vertices."""
        return self.inner.wires()

    def diameter(self) -> int:
        """Return the hops of the longest route between two nodes."""
        return self.inner.diameter()

    def mean_distance(self) -> float:
        """Return the mean hops over all pairs."""
        return self.inner.mean_distance()

    def router_hops(self) -> tuple[int, float] | None:
        """Return the hops between switches of the inner topology."""
        return self.inner.router_hops()

    def bisection(self, bandwidths: Sequence[float], /) -> float | None:
        """Return the bisection bandwidth of the network, or of the NICs of half of the nodes."""
        inner = self.inner.bisection(bandwidths[: len(self.inner.layers)])
        if not self._nics or inner is None:
            return inner
        return min(inner, self.nodes // 2 * self._nics * bandwidths[len(self.inner.layers)])

    def __str__(self) -> str:
        counts = ((self._nics, "NIC", "NICs"), (self._sockets, "shared memory", "shared memories"))
        words = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
        return f"{self.inner} with {' and '.join(words)} per node"


def _port_link(vertex: int, kind: int, number: int) -> Wire:
    """Return a link within a node: of its first NIC or socket, or of one with a number."""
    return (vertex, vertex, number, kind) if number else (vertex, vertex, kind)
