"""Fat trees: distances and routes against the same graph in networkx, which spines are used, and what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.config import config_hash, load_machine
from xsim_py.errors import ConfigError
from xsim_py.machine import Machine
from xsim_py.machine.fat_tree import FatTree

TREE = {"type": "fattree", "leaves": 3, "nodes_per_leaf": 4, "spines": 2}


def machine(ranks: int = 1, **changes: Any) -> Machine:
    description = {"topology": {**TREE, **changes}, "network": {"latency": "1us"}}
    return Machine(load_machine(description), ranks=ranks)


def as_graph(tree: FatTree) -> networkx.Graph[Any]:
    """The tree link by link, from its figures only; nodes have numbers, and switches have names."""
    graph: networkx.Graph[Any] = networkx.Graph()
    for leaf in range(tree.leaves):
        first = leaf * tree.nodes_per_leaf
        graph.add_edges_from((node, f"leaf{leaf}") for node in range(first, first + tree.nodes_per_leaf))
        graph.add_edges_from((f"leaf{leaf}", f"spine{spine}") for spine in range(tree.spines))
    return graph


def name(tree: FatTree, vertex: int) -> Any:
    if vertex < tree.nodes:
        return vertex
    switch = vertex - tree.nodes
    return f"leaf{switch}" if switch < tree.leaves else f"spine{switch - tree.leaves}"


@given(st.builds(FatTree, st.integers(1, 5), st.integers(1, 5), st.integers(1, 4)))
def test_distances_and_routes_are_those_of_the_graph(tree: FatTree) -> None:
    graph = as_graph(tree)
    distances = dict(networkx.all_pairs_shortest_path_length(graph))
    far = []
    for a in range(tree.nodes):
        for b in range(tree.nodes):
            route = tree.route(a, b)
            assert len(route) == tree.hops(a, b) == distances[a][b]
            assert [a, *(to for _, to in route)] == [*(at for at, _ in route), b]
            assert all(graph.has_edge(name(tree, at), name(tree, to)) for at, to in route)
            far += [distances[a][b]] * (a != b)
    assert tree.diameter() == max(far, default=0)
    assert tree.least_hops == min(far, default=0)
    assert tree.mean_distance() == pytest.approx(sum(far) / max(len(far), 1))


def test_the_destination_chooses_the_spine() -> None:
    tree = FatTree(4, 4, 4)
    assert all(len({tree.route(a, b)[1][1] for a in range(16) if a // 4 != b // 4}) == 1 for b in range(16))
    shift = Counter(link for a in range(16) for link in tree.route(a, (a + 4) % 16))
    assert set(shift.values()) == {1}  # as many spines as nodes on a leaf: nobody meets anybody


def test_a_description_may_leave_leaves_and_spines_open() -> None:
    assert str(machine().topology) == "fat tree of 3 x 4 nodes, 2 spines"
    assert str(machine(9, leaves=None, spines=None).topology) == "fat tree of 3 x 4 nodes, 4 spines"
    with pytest.raises(ConfigError, match=r"12 cores \(12 nodes of 1\), too few for 13 ranks"):
        machine(13)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("topology.nodes_per_leaf", None, "a fat tree needs it"),
        ("machine.nodes", 12, "the size of a fat tree is given by topology.leaves and topology.nodes_per_leaf"),
        ("topology.type", "switch", "only a fattree has leaves, and topology.type is switch"),
    ],
)
def test_what_cannot_be_is_refused(key: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_machine({"topology": TREE, "network": {"latency": "1us"}}, overrides={key: value})


def test_the_hash_sees_the_tree_and_that_of_other_machines_is_what_it_was() -> None:
    given = [{}, {"leaves": 2}, {"nodes_per_leaf": 2}, {"spines": 1}]
    assert len({config_hash(machine(**changes).spec) for changes in given}) == len(given)
    plain = config_hash(load_machine({"network": {"latency": "1us"}}))
    assert plain == "cf4a6902c893face"  # from before there were fat trees
