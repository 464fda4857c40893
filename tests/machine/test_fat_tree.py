"""Fat trees: distances and routes against the same graph in networkx, closed forms, and what is refused."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from xsim_py.config import config_hash, load_machine
from xsim_py.errors import ConfigError
from xsim_py.machine import Machine, Topology
from xsim_py.machine.cuts import flow_between_halves
from xsim_py.machine.fat_tree import FatTree

TREE = {"type": "fattree", "leaves": 3, "nodes_per_leaf": 4, "spines": 2}


def machine(ranks: int = 1, **changes: Any) -> Machine:
    description = {"topology": {**TREE, **changes}, "network": {"latency": "1us"}}
    return Machine(load_machine(description), ranks=ranks)


def tree(ranks: int = 1, **topology: Any) -> Topology:
    description = {"topology": {"type": "fattree", **topology}, "network": {"latency": "1us"}}
    return Machine(load_machine(description), ranks=ranks).topology


def as_graph(tree: FatTree) -> networkx.Graph[Any]:
    """The tree link by link, from its definition only: neighbours differ in one digit."""
    graph: networkx.Graph[Any] = networkx.Graph()
    levels = len(tree.children)
    for level in range(levels + 1):
        radices = [*tree.parents[:level], *tree.children[level:]]
        for place in range(prod(radices)):
            digits = digits_of(place, radices)
            vertex = name(level, place)
            graph.add_node(vertex)
            if level < levels:
                above = [*tree.parents[: level + 1], *tree.children[level + 1 :]]
                for parent in range(tree.parents[level]):
                    digits[level] = parent
                    graph.add_edge(vertex, name(level + 1, place_of(digits, above)))
    return graph


def digits_of(place: int, radices: list[int]) -> list[int]:
    digits = []
    for radix in radices:
        place, digit = divmod(place, radix)
        digits.append(digit)
    return digits


def place_of(digits: list[int], radices: list[int]) -> int:
    place = 0
    for digit, radix in zip(reversed(digits), reversed(radices), strict=True):
        place = place * radix + digit
    return place


def name(level: int, place: int) -> str:
    return f"s{level}.{place}" if level else f"h{place}"


SHAPES = st.integers(1, 3).flatmap(
    lambda levels: st.tuples(*(st.lists(st.integers(1, 3), min_size=levels, max_size=levels) for _ in range(3)))
)


@given(SHAPES, st.sampled_from(["dmodk", "ecmp"]), st.sampled_from(["destination", "source"]))
@settings(max_examples=40 if CAMPAIGN else 10)
def test_distances_and_routes_are_those_of_the_graph(shape: Any, routing: str, cables: str) -> None:
    tree = FatTree(*shape, routing=routing, cables=cables)
    graph = as_graph(tree)
    hosts = [f"h{node}" for node in range(tree.nodes)]
    distances = {host: networkx.single_source_shortest_path_length(graph, host) for host in hosts}
    far = []
    for a in range(tree.nodes):
        for b in range(tree.nodes):
            route = tree.route(a, b)
            assert len(route) == tree.hops(a, b) == sum(tree.links_per_layer(a, b)) == distances[hosts[a]][hosts[b]]
            assert [a, *(link[1] for link in route)] == [*(link[0] for link in route), b]
            assert all(graph.has_edge(tree.vertex(link[0]), tree.vertex(link[1])) for link in route)
            counts = Counter(tree.layer(link) for link in route)
            assert tree.links_per_layer(a, b) == tuple(counts[layer] for layer in range(len(tree.layers)))
            assert all(link[2] < tree.parallel[tree.layer(link)] for link in route if len(link) > 2)
            far += [len(route)] * (a != b)
    assert tree.diameter() == max(far, default=0)
    assert tree.least_hops == min(far, default=0)
    assert tree.mean_distance() == pytest.approx(sum(far) / max(len(far), 1))
    assert {frozenset(map(tree.vertex, link[:2])) for link in tree.wires()} == set(map(frozenset, graph.edges()))
    assert tree.nodes + tree.switches == len(graph)


@pytest.mark.parametrize(
    ("shape", "a", "b", "route"),
    [
        ("2;4,4;1,4;1,1", 0, 1, "h0>s1.0 s1.0>h1"),
        ("2;4,4;1,4;1,1", 0, 5, "h0>s1.0 s1.0>s2.1 s2.1>s1.1 s1.1>h5"),
        ("2;4,4;1,4;1,1", 15, 6, "h15>s1.3 s1.3>s2.2 s2.2>s1.1 s1.1>h6"),
        ("2;4,4;1,2;1,2", 0, 6, "h0>s1.0 s1.0>s2.0#1 s2.0>s1.1 s1.1>h6"),
        ("2;4,4;1,2;1,2", 1, 7, "h1>s1.0 s1.0>s2.1#1 s2.1>s1.1#1 s1.1>h7"),
        ("3;4,4,4;1,4,2", 0, 63, "h0>s1.0 s1.0>s2.3 s2.3>s3.7 s3.7>s2.15 s2.15>s1.15 s1.15>h63"),
        ("3;4,4,4;1,4,2", 21, 42, "h21>s1.5 s1.5>s2.6 s2.6>s3.2 s3.2>s2.10 s2.10>s1.10 s1.10>h42"),
        ("3;2,3,4;1,2,3", 7, 18, "h7>s1.3 s1.3>s2.2 s2.2>s3.0 s3.0>s2.6 s2.6>s1.9 s1.9>h18"),
    ],
)
def test_d_mod_k_takes_the_ways_of_simgrid(shape: str, a: int, b: int, route: str) -> None:
    built = tree(shape=shape, cables="source")
    assert " ".join(map(built.link_name, built.route(a, b))) == route


def worst_of_shifts(tree: Topology) -> int:
    worst = 0
    for shift in range(1, tree.nodes):
        loads = Counter(link for a in range(tree.nodes) for link in tree.route(a, (a + shift) % tree.nodes))
        worst = max(worst, *loads.values())
    return worst


@pytest.mark.parametrize(
    ("shape", "cables", "worst"),
    [
        ("2;4,4;1,4", "destination", 1),
        ("2;8,8;1,8", "destination", 1),
        ("3;2,2,4;1,2,2", "destination", 1),
        ("3;4,4,4;1,4,4", "destination", 1),
        ("2;4,4;1,2", "destination", 2),
        ("3;4,4,4;1,4,2", "destination", 2),
        ("2;4,4;1,2;1,2", "destination", 1),
        ("2;4,4;1,2;1,2", "source", 2),
        ("3;3,4,2;1,3,2;1,1,2", "destination", 1),
    ],
)
def test_shifts_load_no_link_twice_where_nothing_is_tapered(shape: str, cables: str, worst: int) -> None:
    assert worst_of_shifts(tree(shape=shape, cables=cables)) == worst


@pytest.mark.parametrize("shape", ["2;4,4;1,4", "2;4,4;1,2", "3;2,4,2;1,2,3;1,2,1", "1;6;1", "2;3,2;2,2;2,3"])
def test_half_of_the_bandwidth_is_what_flows_between_two_halves(shape: str) -> None:
    built = tree(shape=shape)
    bandwidths = [3.0, 2.0, 5.0][: len(built.layers)]
    assert built.bisection(bandwidths) == pytest.approx(flow_between_halves(built, bandwidths))


def test_ecmp_is_drawn_by_the_seed_for_each_pair() -> None:
    trees = [FatTree((4, 4), (1, 4), routing="ecmp") for _ in range(3)]
    trees[2].seed = 1
    ways = [[tree.route(a, b) for a in range(4) for b in range(4, 16)] for tree in trees]
    assert ways[0] == ways[1] != ways[2]
    spines = Counter(way[1][1] for way in ways[0])
    assert len(spines) == 4
    assert max(spines.values()) < 24  # of 48: 12 each are expected


def test_a_description_may_leave_leaves_and_spines_open() -> None:
    assert str(machine().topology) == "fat tree of 3 x 4 nodes, 2 spines"
    assert str(machine(9, leaves=None, spines=None).topology) == "fat tree of 3 x 4 nodes, 4 spines"
    assert str(tree(nodes_per_leaf=4, leaves=2, taper=2)) == "fat tree of 2 x 4 nodes, 2 spines"
    with pytest.raises(ConfigError, match=r"12 cores \(12 nodes of 1\), too few for 13 ranks"):
        machine(13)


def test_trees_in_words_are_those_in_figures() -> None:
    assert str(tree(arity=8, levels=3)) == "fat tree 3; 8,8,8; 1,8,8; 1,1,1 with 512 nodes"
    assert str(tree(9, arity=3)) == "fat tree of 3 x 3 nodes, 3 spines"
    assert str(tree(radix=8, levels=3)) == "fat tree 3; 4,4,8; 1,4,4; 1,1,1 with 128 nodes"  # k**3 / 4
    assert tree(radix=8, levels=3).switches == 80  # 5 k**2 / 4
    assert str(tree(648, radix=36)) == "fat tree of 36 x 18 nodes, 18 spines"
    assert str(tree(arity=4, levels=3, taper=2)) == "fat tree 3; 4,4,4; 1,4,2; 1,1,1 with 64 nodes"
    assert str(tree(children=[4, 4], parents=[1, 2], parallel=[1, 2])) == "fat tree 2; 4,4; 1,2; 1,2 with 16 nodes"


def test_a_large_tree_needs_no_tables() -> None:
    built = tree(shape="3;24,24,32;1,24,24")
    assert (built.nodes, built.diameter()) == (18432, 6)
    assert built.mean_distance() == pytest.approx((2 * 23 + 4 * (576 - 24) + 6 * (18432 - 576)) / 18431)
    assert len(built.route(17, 18000)) == built.hops(17, 18000) == 6


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("topology.nodes_per_leaf", None, "missing key of a fat tree, or one of shape"),
        ("machine.nodes", 12, "the size of this fat tree is given by topology.leaves and topology.nodes_per_leaf"),
        ("topology.type", "switch", "cannot be combined with topology.type switch: only a fattree has leaves"),
        ("topology.shape", "2;4,4;1,4", "the tree is defined twice, by shape and by nodes_per_leaf; drop one"),
        ("topology.levels", 2, "levels cannot be combined with nodes_per_leaf; drop one"),
        ("topology.taper", 2, "cannot be combined with a number of spines, which tapers the tree; drop one"),
        ("topology.leaves", 2**31 - 1, "more than 16,777,216 nodes or switches"),
        ("topology.routing", "valiant", "topology.routing: expected dmodk or ecmp on a fattree, got valiant"),
        ("topology.duplex", "half", "only a switch has duplex"),
        ("topology", {"type": "fattree", "children": [4], "parents": [1, 2]}, "have different numbers of levels"),
        ("topology", {"type": "fattree", "children": [4]}, "topology.parents: missing key of a fat tree"),
        ("topology", {"type": "fattree", "radix": 7}, "expected an even number of ports, half of which lead up, got 7"),
        ("topology", {"type": "fattree", "shape": "2;4,4;1"}, "topology.shape: expected 2 numbers per list, one per"),
        ("topology", {"type": "fattree", "shape": "2;4,0;1,1"}, "topology.shape: 0 is out of range in '2;4,0;1,1':"),
        ("topology", {"type": "fattree", "shape": "a tree"}, "topology.shape: expected levels"),
    ],
)
def test_what_cannot_be_is_refused(key: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_machine({"topology": TREE, "network": {"latency": "1us"}}, overrides={key: value})


@pytest.mark.parametrize(
    ("form", "keys"),
    [
        ({"shape": "2; 4,4; 1,2"}, "topology.shape"),
        ({"children": [4, 4], "parents": [1, 2]}, "topology.children and topology.parents"),
        ({"arity": 4, "levels": 2}, "topology.arity and topology.levels"),
        ({"radix": 8, "levels": 2}, "topology.radix and topology.levels"),
    ],
)
def test_a_number_of_nodes_is_refused_by_the_keys_of_this_tree(form: dict[str, object], keys: str) -> None:
    source = {"machine": {"nodes": 16}, "topology": {"type": "fattree", **form}, "network": {"latency": "1us"}}
    with pytest.raises(ConfigError, match=f"machine.nodes: the size of this fat tree is given by {keys}; drop"):
        load_machine(source)


def test_the_hash_sees_the_tree_and_that_of_other_machines_is_what_it_was() -> None:
    given = [{}, {"leaves": 2}, {"nodes_per_leaf": 2}, {"spines": 1}, {"cables": "source"}, {"routing": "ecmp"}]
    assert len({config_hash(machine(**changes).spec) for changes in given}) == len(given)
    plain = {"network": {"latency": "1us"}, "mpi": {"ftco": {"missing": "none"}}}  # the default of then
    assert config_hash(load_machine(plain)) == "cf4a6902c893face"  # from before there were fat trees
    two_levels = load_machine(plain | {"topology": TREE})
    assert config_hash(two_levels) == "dd1b984aeaa5546c"  # from before there were other trees than of two levels
