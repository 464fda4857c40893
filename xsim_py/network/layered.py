"""A network of two layers, one within a node and one between nodes, whose costs are those of LogGP.

See `link` for the closed form, and `network` for what a run asks a model.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from xsim_py.config import MachineSpec
from xsim_py.network.link import Cost, Link
from xsim_py.network.network import Network, Places

if TYPE_CHECKING:
    from xsim_py.network.contention import LinkContention
    from xsim_py.network.fair_contention import FairContention

_FEW_NODES: Final = 128


class LayeredNetwork(Network):
    """The costs of messages between the ranks of a machine.

    Parameters
    ----------
    spec
        The checked description.
    places
        Where the ranks are.

    Attributes
    ----------
    link_class
        What its costs are computed by; another model may have another one.
    """

    link_class = Link

    def __init__(self, spec: MachineSpec, *, places: Places) -> None:
        self._across_costs = spec.network
        self._node_of = places.node_of
        self._topology = places.topology
        self._figures = figures = places.topology.figures
        self._way: Any = places.topology.hops if figures is None else places.topology.ways
        self._least_hops = places.topology.least_hops
        self._across: dict[Any, Link] = {}
        sharing = "none" if spec.network is None else spec.network.contention
        self._shares_links, self._flows = sharing == "links", sharing == "flows"
        self.uniform: dict[int, Cost] = {}
        self.equally_far = False
        if spec.same_node is not None:
            slowest, memory_ps = figures[-1] if figures and places.topology.layers[-1] == "memory" else (Fraction(0), 0)
            self._same = self.link_class(spec.same_node, layer="same_node", hops=0, way_ps=memory_ps, slowest=slowest)
        else:  # no figures of its own: as between neighbours
            self._same = self._nearest()
        if self._flows:
            from xsim_py.network.fair_contention import sharing_link  # few machines have any

            self.link_class = sharing_link(self.link_class)
            self._across.clear()
        per_hop_ps = 0 if spec.network is None or figures is not None else spec.network.per_hop_ps
        equally_far = places.topology.equally_far or (figures is None and per_hop_ps == 0)
        if isinstance(places.node_of, range) and spec.network is not None and equally_far:
            # Hot path: one rank a node, and any two nodes cost the same.
            self._only = self._nearest()
            self.link = self._uniform_link  # type: ignore[method-assign]
            self.uniform = self._only.cache
            self.equally_far = True
        self._by_code: dict[int, Link] = {}
        self._code_of: Sequence[int] | None = None
        if not self.equally_far and (codes := places.topology.codes) is not None:
            # Hot path: how far two nodes of a torus are apart depends on the difference of their codes only.
            self._codes = codes
            self._set_codes()
            self.link = self._coded_link  # type: ignore[method-assign]

    def _set_codes(self) -> None:
        ranks, codes = self._node_of, self._codes
        self._code_of = codes if isinstance(ranks, range) else array("q", [codes[node] for node in ranks])

    def _coded_link(self, src_rank: int, dst_rank: int) -> Link:
        """Return what `link` returns, by one subtraction and one look-up."""
        codes = self._code_of
        key = codes[dst_rank] - codes[src_rank]  # type: ignore[index]
        found = self._by_code.get(key)
        if found is None:
            found = self._by_code[key] = LayeredNetwork.link(self, src_rank, dst_rank)
        return found

    def follow(self, node_of: Sequence[int]) -> None:
        """Take account of more ranks, and perhaps more nodes, than there were."""
        self._node_of = node_of
        if self._code_of is not None:
            self._set_codes()
        if self._least_hops != self._topology.least_hops:  # there was one node only
            self._least_hops = self._topology.least_hops
            if self.link == self._uniform_link:
                self._only = self._nearest()
                self.uniform = self._only.cache

    def _uniform_link(self, src_rank: int, dst_rank: int) -> Link:
        return self._same if src_rank == dst_rank else self._only

    def link(self, src_rank: int, dst_rank: int) -> Link:
        """Return the costs from one rank to another; the same object for all pairs that are equally far apart."""
        node_of = self._node_of
        a = node_of[src_rank]
        b = node_of[dst_rank]
        if a == b:
            return self._same
        way = self._way(a, b)
        return self._across.get(way) or self._make(way)

    def _make(self, way: Any) -> Link:
        """Make the costs of a way: so many hops or, where layers of links have figures, so many links of each."""
        costs = self._across_costs
        assert costs is not None  # the rules of the description see to that
        if self._figures is None:
            link = self.link_class(costs, layer="network", hops=way, way_ps=way * costs.per_hop_ps)
        else:
            way_ps = sum(links * latency_ps for links, (_, latency_ps) in zip(way, self._figures, strict=True))
            slowest = max([ps for links, (ps, _) in zip(way, self._figures, strict=True) if links], default=Fraction(0))
            link = self.link_class(costs, layer="network", hops=sum(way), way_ps=way_ps, slowest=slowest)
        self._across[way] = link
        return link

    def _nearest(self) -> Link:
        """Return the costs between the first two nodes, or the two nearest ones where all links are alike."""
        if self._figures is None:
            return self._make(self._least_hops)
        way = (0,) * len(self._figures) if self._least_hops == 0 else self._way(0, 1)
        return self._across.get(way) or self._make(way)

    @property
    def in_order(self) -> bool:
        """True if no message can come before an earlier one of the same rank to the same one by itself.

        Flows may; whoever follows them sees to that.
        """
        across = self._across_costs is None or self._flows or self._nearest().in_order
        return across and self._same.in_order

    def min_latency_ps(self, blocks: Sequence[range] | None = None) -> int:
        """Return the smallest latency between ranks of different blocks; see `Network.min_latency_ps`.

        Nothing gets from block to block faster, though perhaps nothing is as fast: any two nodes count as if they could
        be the nearest ones. Where links are shared, they count as if they were one hop apart: shards look at a window's
        hops after the window, and the last hop may be all that is left to go.
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
        if counted > nodes or parts == 1:  # two blocks share a node (or nobody has to look ahead)
            latencies.append(self._same.least_ps)
        if parts > 1 and nodes > 1:
            latencies.append(self.nearest_ps)
        return min(latencies)

    def latencies_ps(self, blocks: Sequence[range]) -> list[list[int]]:
        """Return the smallest latency between any two blocks.

        Blocks that share a node are as near as ranks on one node, others as the two nearest nodes.
        """
        same_ps = self._same.least_ps
        across_ps = self.nearest_ps
        nodes = [set(self._node_of[block.start : block.stop]) for block in blocks]
        return [[across_ps if a.isdisjoint(b) else same_ps for b in nodes] for a in nodes]

    @property
    def nearest_ps(self) -> int:
        """The latency between the two nearest nodes."""
        if self._across_costs is None:
            return self._same.least_ps
        if self._figures is None:
            hops = 1 if self._shares_links else self._least_hops or 1
            return (self._across.get(hops) or self._make(hops)).least_ps
        # Nothing is faster than all links would be if they were as fast as the fastest hop.
        layers = list(zip(self._topology.layers, self._figures, strict=True))
        inside = [name for name, _ in layers if name in ("port", "memory", "backbone")]
        least_ps = min(latency_ps for name, (_, latency_ps) in layers if name not in inside)
        if self._shares_links:
            hops = 0 if inside else 1
        else:
            hops = self._least_hops - 2 * ("port" in inside) - ("backbone" in inside)
        link = self.link_class(self._across_costs, layer="network", hops=hops, way_ps=max(hops, 0) * least_ps)
        return link.least_ps

    def longest(self) -> Link:
        """Return the costs between the two nodes that are farthest apart, or within one if that takes longer."""
        if self._across_costs is None:
            return self._same
        if self._figures is None:
            diameter = self._topology.diameter()
            across = self._across.get(diameter) or self._make(diameter)
        else:
            across = max(map(self._make, self._some_ways()), key=lambda link: link.latency_ps)
        return max(across, self._same, key=lambda link: link.latency_ps)

    def _some_ways(self) -> set[tuple[int, ...]]:
        """Return the ways between all nodes, or from a few of many: these see about what the others see."""
        nodes = self._topology.nodes
        sources = range(nodes) if nodes <= _FEW_NODES else (0, nodes // 2, nodes - 1)
        return {self._way(a, b) for a in sources for b in range(nodes)}

    def contention(self) -> LinkContention | FairContention | None:
        """Return a fresh account of the links, or None if messages share none."""
        costs = self._across_costs
        if costs is not None and self._flows:
            from xsim_py.network.fair_contention import fair_contention  # few machines have any

            return fair_contention(self, costs, self._topology)
        if costs is None or not self._shares_links:
            return None
        from xsim_py.network.contention import LinkContention  # most runs share none

        link = self.link_class(costs, layer="network", hops=0, way_ps=0)
        if self._figures is None:
            return LinkContention(link, per_hop_ps=costs.per_hop_ps)
        from xsim_py.network.uneven import UnevenContention  # most machines have links that are all alike

        return UnevenContention(link, layer_of=self._topology.layer, figures=self._figures)
