"""The keys of section ``topology``: the connections between nodes; see `description`."""

# ruff: noqa: RUF009 - `option` makes a dataclasses.field, which is what a default here has to be

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from xsim_py.config import value_kinds as kinds
from xsim_py.config.value_kinds import ListOf, ListOrSection, OneOf, Section, SectionsOf, choice, integer, option

_MOST = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class TwistSpec:
    """One entry of ``topology.twist``: wrapping one dimension shifts the position in another."""

    wrap: int = option(kinds.DIMENSION, "Dimension whose wrap-around links are twisted.", default=0, required=True)
    shift: int = option(
        kinds.DIMENSION, "Dimension in which the far ends of these links are shifted.", default=0, required=True
    )
    by: int = option(
        integer(1, _MOST),
        "Number of nodes by which they are shifted, in ascending direction.",
        default=1,
        required=True,
    )


TOPOLOGY_KEYS = {
    "single": (),
    "switch": ("duplex", "links"),
    "torus": ("dims", "twist", "ties", "routing", "links"),
    "fattree": (
        *("leaves", "nodes_per_leaf", "spines", "shape", "children", "parents", "parallel", "arity", "radix", "levels"),
        *("taper", "cables", "routing", "links"),
    ),
    "dragonfly": (
        *("hosts_per_router", "routers_per_group", "global_links_per_router", "groups", "links_between_groups"),
        *("wiring", "routing", "links"),
    ),
    "cascade": (
        *("shape", "groups", "links_between_groups", "chassis", "links_between_chassis", "blades", "links_in_chassis"),
        *("hosts_per_router", "routing", "links"),
    ),
    "hyperx": ("dims", "hosts_per_router", "parallel", "routing", "links"),
    "graph": ("file", "edges", "hosts", "cables", "routing", "links"),
}
"""The keys of section ``topology`` by type, besides ``type``; their classes are in `machine.topologies`."""

ROUTINGS = {
    "torus": ("dimension_order",),
    "fattree": ("dmodk", "ecmp"),
    "dragonfly": ("minimal", "valiant", "ecmp"),
    "cascade": ("minimal",),
    "hyperx": ("dimension_order", "ecmp", "valiant"),
    "graph": ("minimal", "ecmp"),
}
"""The values of ``topology.routing`` by type, the default first."""

_LAYERS = (
    *("every", "node", "backbone", "host", "local", "global", "green", "black", "blue", "link"),
    *(f"level{level}" for level in range(1, 9)),
    *(f"dim{dimension}" for dimension in range(1, 7)),
    *kinds.DIMENSIONS,
)


@dataclass(frozen=True, kw_only=True)
class LinkSpec:
    """One entry of ``topology.links``: the parameters of one layer of links."""

    ps_per_byte: Fraction | None = option(
        kinds.BANDWIDTH, "Bandwidth of a link, per direction.", shown="network.bandwidth", key="bandwidth"
    )
    latency_ps: int | None = option(kinds.COST, "Latency added by a link.", shown="network.per_hop; 0s within a switch")


@dataclass(frozen=True, kw_only=True)
class EdgeSpec:
    """One entry of ``topology.edges`` with more than two names."""

    ends: tuple[str, ...] = option(
        ListOf(kinds.NAME, "two names", least=2, most=2), "The two vertices.", default=(), required=True
    )
    parallel: int = option(integer(1, 2**16), "Number of parallel links.", default=1, shown="1")
    ps_per_byte: Fraction | None = option(
        kinds.BANDWIDTH, "Bandwidth of each link, per direction.", shown="network.bandwidth", key="bandwidth"
    )
    latency_ps: int | None = option(kinds.COST, "Latency added by the link.", shown="network.per_hop")


_COUNTS = ListOf(integer(1, _MOST), "a list of numbers, one per level or dimension", most=8)


@dataclass(frozen=True, kw_only=True)
class TopologySpec:
    """Section ``topology``: the connections between nodes."""

    type: str = option(
        choice(*TOPOLOGY_KEYS),
        "One node, a switch (two hops between any two nodes), an n-D torus, a fat tree, a dragonfly, Cray's "
        "dragonfly (cascade), a HyperX, or a custom graph.",
        default="switch",
    )
    dims: tuple[int, ...] | None = option(
        ListOf(integer(1, _MOST), "the lengths of one to six dimensions, such as [8, 8, 8]", least=1, most=6),
        "Lengths of the torus in x, y, z, w, v and u; node 1 is the neighbour of node 0 in x. For a HyperX "
        "(required): routers per dimension.",
        shown="the smallest 3-D torus that holds the ranks and is at most twice as long as wide",
    )
    twist: str | tuple[TwistSpec, ...] = option(
        OneOf(
            choice("none", "half"),
            ListOf(Section(TwistSpec), "a list of {wrap: y, shift: x, by: 4}"),
            "none, half, or a list of {wrap: y, shift: x, by: 4}",
        ),
        "Twist of the torus. half: wrapping around in any dimension except x shifts the position in x by half the "
        "length of x, as in the rectangular twisted torus (2a x a) and the prismatic doubly twisted torus (2a x a x "
        "a).",
        default="none",
    )
    ties: str | None = option(
        choice("up", "simgrid"),
        "Choice between two equally long routes around a ring. up: the ascending direction; simgrid: SimGrid's rule.",
        shown="up",
    )
    leaves: int | None = option(
        integer(1, _MOST), "Number of leaf switches of a two-level fat tree.", shown="as many as the ranks need"
    )
    nodes_per_leaf: int | None = option(
        integer(1, _MOST), "Nodes per leaf switch of a two-level fat tree; consecutive nodes share a leaf switch."
    )
    spines: int | None = option(
        integer(1, _MOST),
        "Number of switches above the leaf switches, each linked to every leaf switch. With dmodk, a message to node n "
        "crosses spine n modulo this number.",
        shown="nodes_per_leaf",
    )
    shape: str | None = option(
        kinds.TEXT,
        "The whole fat tree in one text (levels; children; parents; parallel links), such as 3; 4,4,4; 1,4,2; 1,1,1. "
        "Or the whole cascade (groups,links; chassis,links; blades,links; nodes), such as 4,1;2,1;4,1;2.",
    )
    children: tuple[int, ...] | None = option(
        _COUNTS,
        "Children per switch of a fat tree, one number per level from the bottom; the first is the number of nodes per "
        "leaf switch.",
    )
    parents: tuple[int, ...] | None = option(
        _COUNTS, "Parents per node of a fat tree, then parents per switch of each level except the top."
    )
    parallel: tuple[int, ...] | None = option(
        _COUNTS,
        "Number of parallel links: between a child and a parent of a fat tree, per level, or between two routers of a "
        "HyperX, per dimension.",
        shown="1 everywhere",
    )
    arity: int | None = option(
        integer(2, _MOST),
        "The k of a k-ary fat tree: every switch has k children and, below the top, k parents; the tree has k^levels "
        "nodes.",
    )
    radix: int | None = option(
        integer(4, _MOST),
        "Ports per switch of a fat tree: half of them lead upwards; at the top, all lead downwards.",
    )
    levels: int | None = option(
        integer(1, 8), "Number of switch levels of a fat tree with arity or radix.", shown="as many as the ranks need"
    )
    taper: float | None = option(
        kinds.POSITIVE,
        "Factor by which the number of top-level switches of a fat tree is reduced, relative to full bandwidth.",
        shown="1",
    )
    cables: str | None = option(
        choice("destination", "source"),
        "Choice between parallel links. destination: by the destination node of a message; source: by its source node "
        "(in a fat tree, only for downward links, as in SimGrid).",
        shown="destination",
    )
    hosts_per_router: int | None = option(
        integer(1, _MOST),
        "Nodes per router of a dragonfly (p), a cascade or a HyperX.",
        shown="dragonfly: balanced, or as many as the ranks need; HyperX: as many as the ranks need; cascade: 1",
    )
    routers_per_group: int | None = option(
        integer(1, _MOST), "Routers per group of a dragonfly (a).", shown="twice hosts_per_router"
    )
    global_links_per_router: int | None = option(
        integer(1, _MOST),
        "Links per router of a dragonfly to other groups (h).",
        shown="hosts_per_router",
    )
    groups: int | None = option(
        integer(1, _MOST), "Groups of a dragonfly or cascade.", shown="dragonfly: the maximum that the links allow"
    )
    links_between_groups: int | None = option(
        integer(1, 2**16),
        "Number of links between any two groups of a dragonfly; for a cascade, bandwidth factor of the link between "
        "two groups.",
        shown="1",
    )
    wiring: str | None = option(
        choice("relative", "absolute"),
        "Port j of group i of a dragonfly leads to group i + 1 + j (relative), or to the j-th of the other groups, "
        "counted from 0 (absolute).",
        shown="relative",
    )
    chassis: int | None = option(integer(1, _MOST), "Chassis per group of a cascade.", shown="1")
    links_between_chassis: int | None = option(
        integer(1, 2**16), "Bandwidth factor of black links (between chassis).", shown="1"
    )
    blades: int | None = option(integer(1, _MOST), "Blades per chassis of a cascade, each with a router.")
    links_in_chassis: int | None = option(
        integer(1, 2**16), "Bandwidth factor of green links (in a chassis).", shown="1"
    )
    routing: str | None = option(
        choice(*dict.fromkeys(word for words in ROUTINGS.values() for word in words)),
        "Routes of messages. dimension_order: along one dimension after another; dmodk: up the tree by the "
        "destination's number (D-mod-k); minimal: a shortest route; valiant: through a random group or router; ecmp: a "
        "random shortest route. Random routes are drawn once for each pair of nodes, by the seed.",
        shown="dmodk on a fat tree, dimension_order on a torus and a HyperX, minimal elsewhere",
    )
    duplex: str | None = option(
        choice("full", "half"),
        "full: one link per direction between a node and its switch; half: both directions share one link.",
        shown="full",
    )
    links: Mapping[str, LinkSpec] | None = option(
        SectionsOf(_LAYERS, Section(LinkSpec), "a section such as {host: {bandwidth: 10GB/s, latency: 100ns}}"),
        "Bandwidth and latency per layer of links. every: all layers without a separate entry; backbone: an "
        "additional link in a switch, shared by all messages.",
        shown="none",
    )
    file: Path | None = option(
        kinds.FILE,
        "File of the graph: GraphML, or text with one edge (two names) per line; its path is relative to this file.",
    )
    edges: tuple[tuple[str, str] | EdgeSpec, ...] | None = option(
        ListOf(
            ListOrSection(
                ListOf(kinds.NAME, "two names", least=2, most=2),
                Section(EdgeSpec),
                "two names, or a section such as {ends: [a, b], bandwidth: 10Gbps}",
            ),
            "a list of edges such as [[a, b], [b, c]]",
        ),
        "Edges of the graph, instead of a file.",
    )
    hosts: str = option(
        kinds.TEXT,
        "Pattern for the names of the vertices that are nodes, such as n*; all other vertices are switches. Nodes are "
        "numbered in the natural order of their names (n2 before n10).",
        default="*",
    )
