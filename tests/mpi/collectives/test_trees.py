"""Tree shapes can be observed: who sees an error when a rank is dead. They are those of a real Open MPI."""

from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest

from tests.mpi.collectives.toy_network import Sums, ToyNetwork
from xsim_py.mpi.collectives import choose, trees

ROOTED: dict[str, Callable[[int, int, int], trees.Tree]] = {
    "binomial": trees.binomial,
    "in_order_binomial": trees.in_order_binomial,
    "binary": trees.binary,
    "knomial": trees.knomial,
    "chain": trees.chain,
    "in_order_binary": lambda rank, size, root: trees.in_order_binary((rank - root - 1) % size, size),
}


def children(tree: Callable[..., trees.Tree], size: int) -> dict[int, tuple[int, ...]]:
    """Children of the ranks that have any, for root 0."""
    return {rank: below for rank in range(size) if (below := tree(rank, size, 0)[1])}


def starved(size: int, dead: int, function: Callable[[Any], Any]) -> list[int]:
    """Ranks that wait for ever because `dead` never does anything."""
    network = ToyNetwork(size, dead=[dead])
    network.run(function)
    return network.stuck


@pytest.mark.parametrize("shape", ["binomial", "in_order_binomial", "binary", "knomial", "chain"])
def test_every_root_gives_a_tree_of_all_ranks(shape: str):
    tree = ROOTED[shape]
    for size in range(1, 40):
        for root in range(size):
            graph = nx.DiGraph()
            graph.add_nodes_from(range(size))
            for rank in range(size):
                parent, below = tree(rank, size, root)
                assert (parent == -1) == (rank == root)
                graph.add_edges_from((rank, child) for child in below)
                assert all(tree(child, size, root)[0] == rank for child in below)
            assert size == 1 or nx.is_arborescence(graph)


def test_the_in_order_binary_tree_is_one_of_runs():
    for size in range(1, 40):
        graph = nx.DiGraph((rank, child) for rank in range(size) for child in trees.in_order_binary(rank, size)[1])
        graph.add_nodes_from(range(size))
        assert trees.in_order_binary(size - 1, size)[0] == -1
        for rank in range(size):
            below = sorted(nx.descendants(graph, rank))
            assert below == list(range(rank - len(below), rank))
        assert size == 1 or nx.dag_longest_path_length(graph) == size.bit_length() - 1


def test_parents_follow_from_the_bits():
    for size in (1, 2, 7, 64, 100):
        for v in range(1, size):
            assert trees.binomial(v, size, 0)[0] == v - (1 << (v.bit_length() - 1))
            assert trees.in_order_binomial(v, size, 0)[0] == v & (v - 1)
            assert v in trees.binary(trees.binary(v, size, 0)[0], size, 0)[1]


def test_shapes_drawn_in_open_mpi():
    """The examples drawn in ``coll_base_topo.c`` and ``coll_base_bcast.c``."""
    assert children(trees.binary, 7) == {0: (1, 2), 1: (3, 5), 2: (4, 6)}
    assert children(trees.binomial, 8) == {0: (1, 2, 4), 1: (3, 5), 2: (6,), 3: (7,)}
    assert children(trees.in_order_binomial, 8) == {0: (1, 2, 4), 2: (3,), 4: (5, 6), 6: (7,)}
    assert children(trees.knomial, 10) == {0: (4, 8, 1, 2, 3), 4: (5, 6, 7), 8: (9,)}
    in_order = {rank: below for rank in range(9) if (below := trees.in_order_binary(rank, 9)[1])}
    assert in_order == {8: (7, 3), 7: (6, 5), 5: (4,), 3: (2, 1), 1: (0,)}


@pytest.mark.parametrize("name", ["tuned", "binomial", "binary_tree"])
@pytest.mark.parametrize(("dead", "failing"), [(1, [3, 5, 7]), (7, []), (4, [])])
def test_who_misses_a_broadcast_when_a_rank_is_dead(name: str, dead: int, failing: list[int]):
    """Seen with Open MPI 5.0.11, 8 ranks, root 0."""
    bcast = choose("bcast", 8, 8, True, name)
    assert starved(8, dead, lambda ch: bcast(ch, None if ch.rank else b"8 bytes.", 0, 8)) == failing


@pytest.mark.parametrize("name", ["tuned", "binary"])
def test_who_misses_a_reduction_when_rank_7_is_dead(name: str):
    """Seen with Open MPI 5.0.11, 8 ranks, root 0: it reduces few bytes on 8 ranks along the binary tree."""
    reduce = choose("reduce", 8, 8, True, name)
    assert starved(8, 7, lambda ch: reduce(ch, b"8 bytes.", Sums("i4"), 0)) == [0, 1, 3]


def test_the_binomial_reduction_goes_up_the_in_order_tree():
    reduce = choose("reduce", 8, 8, True, "binomial")
    assert starved(8, 7, lambda ch: reduce(ch, b"8 bytes.", Sums("i4"), 0)) == [0, 4, 6]


@pytest.mark.parametrize("dead", [0, 1, 4, 7])
def test_an_allreduce_fails_everywhere(dead: int):
    """Seen with Open MPI 5.0.11, 8 ranks."""
    allreduce = choose("allreduce", 8, 8)
    living = [rank for rank in range(8) if rank != dead]
    assert starved(8, dead, lambda ch: allreduce(ch, b"8 bytes.", Sums("i4"))) == living
