"""Dragonflies: routes against the graph of their links, the closed forms of Kim et al., and what is refused."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from xsim_py.config import load_machine
from xsim_py.errors import ConfigError
from xsim_py.machine import Machine, Topology
from xsim_py.machine.cuts import flow_between_halves
from xsim_py.machine.dragonfly import GLOBAL, Cascade, Dragonfly

WIRINGS = ("relative", "absolute")


def topology(ranks: int = 1, **given: Any) -> Topology:
    return Machine(load_machine({"topology": given, "network": {"latency": "1us"}}), ranks=ranks).topology


def router_hops(dragonfly: Dragonfly | Cascade) -> list[int]:
    """Between all ordered pairs of different routers, by their routes."""
    hosts = range(0, dragonfly.nodes, dragonfly.hosts)
    return [len(dragonfly.route(a, b)) - 2 for a in hosts for b in hosts if a != b]


def router_of(topology: Dragonfly | Cascade, node: int) -> int:
    return topology.nodes + node // topology.hosts


def check_routes(topology: Dragonfly | Cascade, *, shortest: bool = False) -> None:
    """Compare all routes with the links that there are; shortest, with the distances within the two groups."""
    graph: networkx.MultiGraph[Any] = networkx.MultiGraph()
    for link in topology.wires():
        graph.add_edge(link[0], link[1], key=link[2] if len(link) > 2 else 0)
    assert len(graph) == topology.nodes + topology.switches
    for a in range(topology.nodes):
        for b in range(topology.nodes):
            route = topology.route(a, b)
            assert len(route) == topology.hops(a, b)
            if shortest:
                of_group = topology.nodes // topology.groups
                groups = {a // of_group, b // of_group}
                nodes = [node for node in range(topology.nodes) if node // of_group in groups]
                near = {*nodes, *(router_of(topology, node) for node in nodes)}
                assert len(route) == networkx.shortest_path_length(graph.subgraph(near), a, b)
            assert [a, *(link[1] for link in route)] == [*(link[0] for link in route), b]
            assert all(graph.has_edge(*link[:2], key=link[2] if len(link) > 2 else 0) for link in route)
            counts = Counter(topology.layer(link) for link in route)
            assert topology.links_per_layer(a, b) == tuple(counts[layer] for layer in range(len(topology.layers)))
    far = [topology.hops(a, b) for a in range(topology.nodes) for b in range(topology.nodes) if a != b]
    assert topology.least_hops == min(far, default=0)


@given(
    st.integers(1, 2),
    st.integers(1, 4),
    st.integers(1, 2),
    st.integers(1, 2),
    st.sampled_from(WIRINGS),
    st.sampled_from(["minimal", "valiant", "ecmp"]),
    st.data(),
)
@settings(max_examples=30 if CAMPAIGN else 10)
def test_routes_take_links_that_are_there(p: int, a: int, h: int, n: int, wiring: str, routing: str, data: Any) -> None:
    groups = data.draw(st.integers(1, a * h // n + 1))
    dragonfly = Dragonfly(p, a, h, groups=groups, between=n, wiring=wiring, routing=routing)
    check_routes(dragonfly, shortest=routing != "valiant")
    hops = router_hops(dragonfly)
    assert dragonfly.router_diameter() >= max(hops, default=0)
    if routing != "valiant":
        assert dragonfly.router_diameter() == max(hops, default=0)
        assert dragonfly.mean_router_hops() == pytest.approx(sum(hops) / max(len(hops), 1))
    ports = Counter(end for link in dragonfly.wires() if dragonfly.layer(link) == GLOBAL for end in link[:2])
    assert max(ports.values(), default=0) <= h


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize(
    ("p", "a", "h", "mean"), [(1, 2, 1, 1.8), (2, 4, 2, 2.3714), (4, 8, 4, 2.7034), (8, 16, 8, 2.8614)]
)
def test_mean_hops_are_those_of_the_closed_form(p: int, a: int, h: int, mean: float, wiring: str) -> None:
    dragonfly = Dragonfly(p, a, h, wiring=wiring)
    assert dragonfly.nodes == a * p * (a * h + 1)
    assert dragonfly.mean_router_hops() == pytest.approx(mean, abs=5e-5)
    assert dragonfly.router_diameter() == 3
    if a <= 4:
        hops = router_hops(dragonfly)
        assert sum(hops) / len(hops) == pytest.approx(dragonfly.mean_router_hops())
        assert max(hops) == 3
        if a == 4:
            assert Counter(hops) == {1: 180, 2: 432, 3: 648}


ROUTES = """
    both     0 7  -  h0>r0.0 r0.0>r0.3 r0.3>h7
    relative 0 9  -  h0>r0.0 r0.0>r1.3 r1.3>r1.0 r1.0>h9
    relative 1 71 -  h1>r0.0 r0.0>r0.3 r0.3>r8.0 r8.0>r8.3 r8.3>h71
    relative 40 3 -  h40>r5.0 r5.0>r5.1 r5.1>r0.2 r0.2>r0.1 r0.1>h3
    relative 1 71 5  h1>r0.0 r0.0>r0.2 r0.2>r5.1 r5.1>r8.2 r8.2>r8.3 r8.3>h71
    absolute 0 9  -  h0>r0.0 r0.0>r1.0 r1.0>h9
    absolute 40 3 -  h40>r5.0 r5.0>r0.2 r0.2>r0.1 r0.1>h3
    absolute 1 71 5  h1>r0.0 r0.0>r0.2 r0.2>r5.0 r5.0>r5.3 r5.3>r8.2 r8.2>r8.3 r8.3>h71
"""


@pytest.mark.parametrize("line", ROUTES.strip().splitlines())
def test_wirings_are_those_of_the_reference(line: str) -> None:
    wiring, a, b, via, *links = line.split()
    for each in WIRINGS if wiring == "both" else (wiring,):
        dragonfly = Dragonfly(2, 4, 2, wiring=each)
        route = dragonfly.route_over(int(a), int(b), None if via == "-" else int(via))
        assert [dragonfly.link_name(link) for link in route] == links


@pytest.mark.parametrize("wiring", WIRINGS)
def test_traffic_to_the_next_group_has_one_link_and_over_all_others_many(wiring: str) -> None:
    dragonfly = Dragonfly(2, 4, 2, wiring=wiring)
    in_group = 8
    pairs = [(a, (a + in_group) % dragonfly.nodes) for a in range(dragonfly.nodes)]
    loads = Counter(link for a, b in pairs for link in dragonfly.route(a, b))
    assert max(loads.values()) == in_group  # a p flows over one link: a throughput of 1 / (a p)
    spread: Counter[Any] = Counter()
    for a, b in pairs:
        others = set(range(dragonfly.groups)) - {a // in_group, b // in_group}
        for via in others:
            for link in dragonfly.route_over(a, b, via):
                spread[link] += Fraction(1, len(others))
    used = {spread[link] for link in spread if dragonfly.layer(link) == GLOBAL}
    assert used == {Fraction(2 * in_group, dragonfly.groups - 2)}  # 2 a p / (g - 2), 0.4375 of what a node sends


def test_valiant_draws_a_third_group_for_each_pair_by_the_seed() -> None:
    dragonfly = Dragonfly(2, 4, 2, routing="valiant")
    drawn = {(a, b): dragonfly.via(a, b) for a in range(8) for b in range(16, 72)}
    assert all(via not in (None, 0, b // 8) for (_, b), via in drawn.items())
    assert Counter(drawn.values()).keys() == set(range(1, 9))
    assert dragonfly.via(0, 7) is None
    means = []
    for seed in range(2):
        dragonfly.seed = seed
        hops = router_hops(dragonfly)
        means.append(sum(hops) / len(hops))
        assert max(hops) == dragonfly.router_diameter() == 5
        assert means[-1] == pytest.approx(dragonfly.mean_router_hops(), rel=0.02)
    assert means[0] != means[1]


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 2), st.data())
@settings(max_examples=30 if CAMPAIGN else 10)
def test_cascades_have_no_holes(blades: int, chassis: int, hosts: int, data: Any) -> None:
    cascade = Cascade(data.draw(st.integers(1, blades)), chassis, blades, hosts, green=2, black=3, blue=4)
    check_routes(cascade)
    hops = router_hops(cascade)
    assert cascade.router_diameter() >= max(hops, default=0)
    assert cascade.mean_router_hops() == pytest.approx(sum(hops) / max(len(hops), 1))
    cut = cascade.bisection([9.0, 1.0, 1.0, 1.0])
    parts = cascade.groups if cascade.groups > 1 else cascade.chassis if chassis > 1 else blades
    if parts % 2 == 0:
        assert cut == pytest.approx(flow_between_halves(cascade, [9.0, 1.0, 1.0, 1.0]))


def test_a_cascade_takes_the_ways_of_simgrid() -> None:
    cascade = topology(type="cascade", shape="4,1;1,1;4,1;2")
    ways = {(0, 9): "h0>r0.0.0 r0.0.0>r0.0.1 r0.0.1>r1.0.0 r1.0.0>h9"}
    ways[6, 31] = "h6>r0.0.3 r0.0.3>r3.0.0 r3.0.0>r3.0.3 r3.0.3>h31"
    for (a, b), links in ways.items():
        assert " ".join(map(cascade.link_name, cascade.route(a, b))) == links
    # From one chassis to another one on another blade: the black link is there.
    wide = topology(type="cascade", groups=4, chassis=2, blades=4, hosts_per_router=2)
    assert " ".join(map(wide.link_name, wide.route(8, 2))) == "h8>r0.1.0 r0.1.0>r0.1.1 r0.1.1>r0.0.1 r0.0.1>h2"


@pytest.mark.parametrize(("p", "a", "h", "groups"), [(2, 4, 1, 4), (2, 4, 2, None), (8, 2, 1, 2), (3, 4, 2, 1)])
def test_half_of_the_bandwidth_is_what_links_between_half_of_the_groups_carry(
    p: int, a: int, h: int, groups: int | None
) -> None:
    dragonfly = Dragonfly(p, a, h, groups=groups)
    bandwidths = [1.0, 3.0, 2.0]
    found = dragonfly.bisection(bandwidths)
    if dragonfly.groups % 2 == 0 or dragonfly.groups == 1:
        assert found == pytest.approx(flow_between_halves(dragonfly, bandwidths))
    else:
        assert found == 36.0  # nodes: 20 links of 2 between 4 and 5 groups would carry more


def test_a_dragonfly_is_balanced_and_as_large_as_the_ranks_need() -> None:
    assert str(topology(type="dragonfly", hosts_per_router=2)) == str(Dragonfly(2, 4, 2))
    assert str(topology(type="dragonfly", routers_per_group=8)) == str(Dragonfly(4, 8, 4))
    assert str(topology(73, type="dragonfly")) == str(Dragonfly(3, 6, 3))
    assert topology(type="dragonfly", hosts_per_router=2, groups=4, links_between_groups=2).nodes == 32
    large = topology(type="dragonfly", hosts_per_router=8)
    assert (large.nodes, large.switches) == (16512, 2064)
    assert len(large.route(5, 16000)) == large.hops(5, 16000) == sum(large.links_per_layer(5, 16000))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"type": "dragonfly", "hosts_per_router": 2, "groups": 10}, "10 groups need 9 global links each, and a group"),
        ({"type": "dragonfly", "hosts_per_router": 100}, "such a dragonfly has more than 16,777,216 nodes"),
        ({"type": "dragonfly", "hosts_per_router": 2, "routing": "dmodk"}, "topology.routing: expected minimal or"),
        ({"type": "dragonfly", "blades": 2}, "only a cascade has blades"),
        ({"type": "cascade"}, "machine description: topology.blades: missing key of a cascade"),
        ({"type": "cascade", "blades": 2, "groups": 3}, "3 groups are out of range: blade j links to group j"),
        ({"type": "cascade", "shape": "3,1;1,1;2,1;1"}, "3 groups are out of range: blade j links to group j"),
        ({"type": "cascade", "shape": "3,1;1,1;2;1"}, "machine description: topology.shape: expected groups,links"),
        ({"type": "cascade", "shape": "2,1;1,1;2,1;1", "blades": 2}, "topology.shape: cannot be combined with other"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        topology(**given)
    with pytest.raises(ConfigError, match=r"the size of a (dragonfly|cascade) is given by its topology"):
        load_machine({"machine": {"nodes": 4}, "topology": {"type": given["type"]}, "network": {"latency": "1us"}})
