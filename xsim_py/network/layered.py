"""A network with layers (within a node, between nodes, and between groups of nodes) and LogGP costs.

See `link` for the closed form, and `network` for the interface of a model.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from xsim_py.config import LayerSpec, MachineSpec
from xsim_py.network.link import Cost, Link, least_ps_per_byte
from xsim_py.network.network import Network, Places

if TYPE_CHECKING:
    from xsim_py.network.contention import LinkContention
    from xsim_py.network.fair_contention import FairContention

_FEW_NODES: Final = 128
_MOST_PAIRS: Final = 1 << 16  # 8 MB; computing the distance of two tree nodes takes five times as long as a look-up


class LayeredNetwork(Network):
    """The costs of messages between the ranks of a machine."""

    link_class: type[Link] = Link
    """The class that computes the costs; subclasses may replace it."""

    def __init__(self, spec: MachineSpec, *, places: Places) -> None:
        self._shares_port = False
        self._across_costs = spec.network
        self._node_of = places.node_of
        self._topology = places.topology
        self._by_layer = parameters = places.topology.link_parameters
        self._route_of: Any = places.topology.hops if parameters is None else places.topology.links_per_layer
        self._least_hops = places.topology.least_hops
        self._across: dict[Any, Link] = {}
        self._shares_links = spec.network is not None and spec.network.contention != "none"
        self._flows = spec.network is not None and spec.network.contention == "flows"
        self._between = len(parameters or ()) - places.topology.host_ports  # layers of links between nodes
        self._nic = spec.nic
        self._memory = places.topology.layers[-1:] == ("memory",)
        self._unshared: dict[Link, Link] = {}  # the costs without shared links
        self._unshared_by_name: dict[str, Link] = {}
        self.uniform: dict[int, Cost] = {}
        self.equally_far = False
        self._places = places
        sockets = spec.machine.sockets_per_node or 1
        near = [(each.nodes or 0, each.cores or places.cores_per_node // sockets, each) for each in spec.layers or ()]
        self._enclosing = [(nodes, each) for nodes, _, each in sorted(near, key=lambda one: one[0]) if nodes]
        within = [(cores, each) for nodes, cores, each in sorted(near, key=lambda one: one[1]) if not nodes]
        if self._flows and self._memory:
            self._share_interfaces()
        self._inside = [(cores, self._within(each, each.name)) for cores, each in within]
        # Without separate values: as between neighbours.
        self._same = self._nearest() if spec.same_node is None else self._within(spec.same_node, "same_node")
        if self._flows and not self._memory:
            self._share_interfaces()
            self._across.clear()
        per_hop_ps = 0 if spec.network is None or parameters is not None else spec.network.per_hop_ps
        equally_far = (places.topology.equally_far or (parameters is None and per_hop_ps == 0)) and not self._enclosing
        if isinstance(places.node_of, range) and spec.network is not None and equally_far:
            # Hot path: one rank per node, and equal costs between any two nodes.
            self._uniform = self._nearest()
            self.link = self._uniform_link  # type: ignore[method-assign]
            self.uniform = self._uniform.cache
            self.equally_far = True
        self._by_pair: dict[int, Link] = {}
        self._by_code: dict[int, Link] = {}
        self._code_of: Sequence[int] | None = None
        if not self.equally_far and not spec.layers and (codes := places.topology.codes) is not None:
            # Hot path: the distance of two nodes of a torus depends on the difference of their codes only.
            self._codes = codes
            self._set_codes()
            self.link = self._coded_link  # type: ignore[method-assign]

    def _share_interfaces(self) -> None:
        """Make messages share the injection port of their sender instead of waiting for it."""
        self._shares_port = True
        self._unshared_by_name.clear()

    def _new_link(self, costs: LayerSpec, **named: Any) -> Link:
        link = self.link_class(costs, **named)
        link.shares_port = self._shares_port
        return link

    def _set_codes(self) -> None:
        ranks, codes = self._node_of, self._codes
        self._code_of = codes if isinstance(ranks, range) else array("q", [codes[node] for node in ranks])

    def _coded_link(self, src_rank: int, dst_rank: int) -> Link:
        """Return the result of `link` with one subtraction and one look-up."""
        codes = self._code_of
        key = codes[dst_rank] - codes[src_rank]  # type: ignore[index]
        found = self._by_code.get(key)
        if found is None:
            found = self._by_code[key] = LayeredNetwork.link(self, src_rank, dst_rank)
        return found

    def update_nodes(self, node_of: Sequence[int]) -> None:
        """Take account of more ranks, and possibly more nodes."""
        self._node_of = node_of
        if self._code_of is not None:
            self._set_codes()
        if self._least_hops != self._topology.least_hops:  # there was only one node
            self._least_hops = self._topology.least_hops
            if self.link == self._uniform_link:
                self._uniform = self._nearest()
                self.uniform = self._uniform.cache

    def _uniform_link(self, src_rank: int, dst_rank: int) -> Link:
        return self._same if src_rank == dst_rank else self._uniform

    def link(self, src_rank: int, dst_rank: int) -> Link:
        """Return the costs from one rank to another; pairs at equal distance share one object."""
        node_of = self._node_of
        a = node_of[src_rank]
        b = node_of[dst_rank]
        if a == b:
            if self._inside:
                core_of = self._places.core_of
                a, b = core_of[src_rank], core_of[dst_rank]
                for cores, link in self._inside:
                    if a // cores == b // cores:
                        return link
            return self._same
        pair = a << 32 | b
        found = self._by_pair.get(pair)
        if found is None:
            if len(self._by_pair) >= _MOST_PAIRS:
                self._by_pair.clear()
            found = self._by_pair[pair] = self._between_nodes(a, b)
        return found

    def _between_nodes(self, a: int, b: int) -> Link:
        """Return the costs from one node to another."""
        route = self._route_of(a, b)
        for index, (nodes, _) in enumerate(self._enclosing):
            if a // nodes == b // nodes:
                return self._across.get((index, route)) or self._make(route, index)
        return self._across.get(route) or self._make(route)

    def _within(self, costs: LayerSpec, name: str) -> Link:
        """Make the costs of messages within a node, including those of its shared memory, if any."""
        slowest, memory_ps = self._by_layer[-1] if self._memory and self._by_layer else (Fraction(0), 0)
        link = self._new_link(costs, layer=name, hops=0, route_ps=memory_ps, slowest=slowest)
        self._unshared[link] = self._new_link(costs, layer=name, hops=0, route_ps=0)
        return link

    def _make(self, route: Any, index: int | None = None) -> Link:
        """Make the costs of a route, given by its hops or by its links per layer.

        The costs are those of section ``network``, or of the layer of nodes with index `index`.
        """
        costs, name = self._parameters_of(index)
        if self._by_layer is None:
            assert self._across_costs is not None
            link = self._new_link(costs, layer=name, hops=route, route_ps=route * self._across_costs.per_hop_ps)
        else:
            link = self._over(costs, name, route)
        if self._shares_links:
            self._unshared[link] = self._unshared_by_name.get(name) or self._new_link(
                costs, layer=name, hops=0, route_ps=0
            )
            self._unshared_by_name[name] = self._unshared[link]
        elif self._topology.host_ports:
            own = (0,) * self._topology.host_ports
            self._unshared[link] = self._over(costs, name, (*route[: self._between], *own))
        self._across[route if index is None else (index, route)] = link
        return link

    def _parameters_of(self, index: int | None) -> tuple[LayerSpec, str]:
        """Return the costs between nodes, or of the layer of nodes with that index, and the name."""
        if index is not None:
            layer = self._enclosing[index][1]
            return layer, layer.name
        assert self._across_costs is not None  # validation of the description ensures this
        return self._across_costs, "network"

    def _over(self, costs: LayerSpec, name: str, route: Sequence[int]) -> Link:
        """Make the costs of a route with that number of links per layer."""
        assert self._by_layer is not None
        route_ps = sum(links * latency_ps for links, (_, latency_ps) in zip(route, self._by_layer, strict=True))
        slowest = max([ps for links, (ps, _) in zip(route, self._by_layer, strict=True) if links], default=Fraction(0))
        return self._new_link(costs, layer=name, hops=sum(route[: self._between]), route_ps=route_ps, slowest=slowest)

    def _nearest(self) -> Link:
        """Return the costs between the first two nodes, or between nearest nodes if all links are equal."""
        route = self._nearest_route()
        return self._across.get(route) or self._make(route)

    def _nearest_route(self) -> Any:
        if self._by_layer is None:
            return self._least_hops
        return (0,) * len(self._by_layer) if self._least_hops == 0 else self._route_of(0, 1)

    @property
    def in_order(self) -> bool:
        """True if messages between two ranks arrive in order by themselves.

        Flows may overtake each other; their caller restores the order.
        """
        across = [] if self._flows else self._nearest_of_all()
        within = [] if self._flows and self._memory else self._all_within()
        return all(link.in_order for link in (*across, *within))

    def _all_within(self) -> list[Link]:
        return [self._same, *(link for _, link in self._inside)]

    def _nearest_of_all(self) -> list[Link]:
        """Return the costs between nearest nodes, also with each layer of nodes."""
        if self._across_costs is None:
            return []
        route = self._nearest_route()
        return [self._nearest(), *(self._make(route, index) for index in range(len(self._enclosing)))]

    def min_latency_ps(self, blocks: Sequence[range] | None = None) -> int:
        """Return the smallest latency between ranks of different blocks.

        See `Network.min_latency_ps`. This is a lower bound, not always attained: any two nodes count as nearest. If
        links are shared, nodes count as one hop apart: shards look at a window's hops after the window, and only the
        last hop may remain.
        """
        node_of = self._node_of
        if blocks is None:
            parts, counted = len(node_of), len(node_of)
            nodes = len(set(node_of))
        else:
            used = [set(node_of[block.start : block.stop]) for block in blocks if block]
            parts, counted = len(used), sum(map(len, used))
            nodes = len(set().union(*used))
        latencies = []
        if counted > nodes or parts == 1 or self._memory:  # two blocks share a node (or there is no need for lookahead)
            latencies.append(self._same_ps)
        if parts > 1 and nodes > 1:
            latencies.append(self.nearest_ps)
        return min(latencies)

    def latencies_ps(self, blocks: Sequence[range]) -> list[list[int]]:
        """Return the smallest latency between any two blocks.

        Blocks that share a node are as near as ranks on one node, others as the two nearest nodes.
        """
        same_ps = self._same_ps
        across_ps = min(self.nearest_ps, same_ps) if self._memory else self.nearest_ps
        nodes = [set(self._node_of[block.start : block.stop]) for block in blocks]
        return [[across_ps if a.isdisjoint(b) else same_ps for b in nodes] for a in nodes]

    @property
    def _same_ps(self) -> int:
        """The minimum time of a message within a node.

        If links are shared, it is only the part before them.
        """
        return min((self._unshared[link] if self._memory else link).least_ps for link in self._all_within())

    @property
    def nearest_ps(self) -> int:
        """The latency between the two nearest nodes, in the nearest layer."""
        if self._across_costs is None:
            return self._same_ps
        one_by_one = self._shares_links and not self._flows
        if self._by_layer is None:
            hops = 1 if one_by_one else self._least_hops or 1
            least_ps = self._across_costs.per_hop_ps
        else:
            # A lower bound: all links as fast as the fastest hop.
            layers = list(zip(self._topology.layers, self._by_layer, strict=True))[: self._between]
            backbone = "backbone" in self._topology.layers
            least_ps = min(latency_ps for name, (_, latency_ps) in layers if name != "backbone")
            if one_by_one:
                hops = 0 if backbone or self._topology.host_ports else 1
            else:
                hops = max(self._least_hops - backbone, 0)
        costs = [self._across_costs, *(layer for _, layer in self._enclosing)]
        return min(self._new_link(each, layer="", hops=hops, route_ps=hops * least_ps).least_ps for each in costs)

    def longest(self) -> Link:
        """Return the costs between the two farthest nodes, or within a node if that takes longer."""
        if self._across_costs is None:
            return self._same
        if self._by_layer is None:
            diameter = self._topology.diameter()
            across = self._across.get(diameter) or self._make(diameter)
        else:
            across = max(map(self._make, self._sample_routes()), key=lambda link: link.latency_ps)
        return max(across, *self._nearest_of_all(), *self._all_within(), key=lambda link: link.latency_ps)

    def _sample_routes(self) -> set[tuple[int, ...]]:
        """Return the routes between all nodes, or from a sample of many, whose routes are representative."""
        nodes = self._topology.nodes
        sources = range(nodes) if nodes <= _FEW_NODES else (0, nodes // 2, nodes - 1)
        return {self._route_of(a, b) for a in sources for b in range(nodes)}

    def contention(self) -> LinkContention | FairContention | None:
        """Return a new contention model of the links, or None if messages share none."""
        costs = self._across_costs
        if costs is not None and self._flows:
            from xsim_py.network.fair_contention import fair_contention  # few machines have any

            ahead_ps = min(self.nearest_ps, self._same_ps) if self._memory else self.nearest_ps
            return fair_contention(self.link, costs, self._topology, ahead_ps=ahead_ps)
        if not self._shares_links and not self._topology.host_ports:
            return None
        from xsim_py.network.contention import LinkContention  # most runs share no links

        if self._by_layer is None:
            assert costs is not None
            return LinkContention(per_hop_ps=costs.per_hop_ps)
        from xsim_py.network.uneven import LinkParameters, UnevenContention  # most machines have links of a single kind

        fastest = Fraction(0) if costs is None else least_ps_per_byte(costs)
        parameters = [LinkParameters(ps_per_byte or fastest, latency_ps) for ps_per_byte, latency_ps in self._by_layer]
        if self._nic is not None:
            at = self._topology.layers.index("nic")
            parameters[at] = parameters[at]._replace(least_ps=self._nic.message_ps)
            if self._nic.both_ways < 1:
                both = Fraction(self._nic.both_ways).limit_denominator(10**6)
                parameters[at] = parameters[at]._replace(rest=2 * both - 1)
                parameters[at + 1] = parameters[at + 1]._replace(counts=False)
        return UnevenContention(layer_of=self._topology.layer, parameters=parameters, partner=self._topology.partner)

    def unshared(self, src_rank: int, dst_rank: int) -> Link:
        """Return the costs from one rank to another without the links that messages share."""
        return self._unshared[self.link(src_rank, dst_rank)]
