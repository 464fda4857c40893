"""The choice of an algorithm equals Open MPI's fixed decisions, points of which are written out here."""

import random
from typing import Any

import pytest

from tests.mpi.collectives.toy_network import Sums, ToyNetwork
from xsim_py.errors import ConfigError
from xsim_py.mpi.collectives import REGISTRY, bcast, choose, choose_name, gather, reduce, reduce_scatter, scatter

# operation, ranks, bytes, commutes, Open MPI's algorithm; from coll_tuned_decision_fixed.c of Open MPI 5.0.
DECISIONS = [
    *[
        ("barrier", ranks, 0, True, name)
        for ranks, name in [
            (2, "recursive_doubling"),
            (3, "recursive_doubling"),
            (4, "linear"),
            (7, "linear"),
            (8, "recursive_doubling"),
            (63, "recursive_doubling"),
            (64, "bruck"),
            (255, "bruck"),
            (256, "tree"),
            (511, "tree"),
            (512, "bruck"),
            (1023, "bruck"),
            (1024, "tree"),
            (4095, "tree"),
            (4096, "bruck"),
            (65536, "bruck"),
        ]
    ],
    ("bcast", 2, 31, True, "chain"),
    ("bcast", 2, 32, True, "binary_tree"),
    ("bcast", 8, 7, True, "knomial"),
    ("bcast", 8, 8, True, "binary_tree"),
    ("bcast", 8, 64, True, "knomial"),
    ("bcast", 8, 1 << 20, True, "linear"),
    ("bcast", 20, 1 << 20, True, "scatter_allgather"),
    ("bcast", 40, 2047, True, "binomial"),
    ("bcast", 300, 16384, True, "split_binary_tree"),
    ("bcast", 1024, 8, True, "knomial"),
    ("bcast", 16384, 8192, True, "binary_tree"),
    ("reduce", 2, 7, True, "rabenseifner"),
    ("reduce", 3, 8, True, "binary"),
    ("reduce", 3, 31, True, "chain"),
    ("reduce", 3, 32, True, "linear"),
    ("reduce", 8, 8, True, "binary"),
    ("reduce", 8, 8192, True, "binomial"),
    ("reduce", 1024, 8, True, "binomial"),
    ("reduce", 16384, 16, True, "in_order_binary"),
    ("reduce", 3, 7, False, "in_order_binary"),
    ("reduce", 5, 7, False, "linear"),
    ("reduce", 64, 8, False, "in_order_binary"),
    ("allreduce", 4, 15, True, "ring"),
    ("allreduce", 4, 16, True, "recursive_doubling"),
    ("allreduce", 8, 8, True, "recursive_doubling"),
    ("allreduce", 8, 8192, True, "rabenseifner"),
    ("allreduce", 16, 63, True, "ring"),
    ("allreduce", 1024, 8, True, "nonoverlapping"),
    ("allreduce", 1024, 2048, True, "recursive_doubling"),
    ("allreduce", 4096, 32768, True, "rabenseifner"),
    ("allreduce", 3, 131072, False, "linear"),
    ("allreduce", 200, 8, False, "nonoverlapping"),
    ("gather", 2, 1, True, "linear_sync"),
    ("gather", 100, 1 << 22, True, "binomial"),
    ("scatter", 100, 511, True, "binomial"),
    ("scatter", 100, 512, True, "linear_nb"),
    ("allgather", 2, 8, True, "two_proc"),
    ("allgather", 3, 8, True, "recursive_doubling"),
    ("allgather", 40, 1024, True, "neighbor"),
    ("allgather", 40, 65536, True, "ring"),
    ("allgather", 1024, 4, True, "bruck"),
    ("allgatherv", 2, 2047, True, "ring"),
    ("allgatherv", 2, 2048, True, "two_proc"),
    ("allgatherv", 9, 1023, True, "linear"),
    ("allgatherv", 2000, 4096, True, "neighbor"),
    ("alltoall", 2, 1, True, "pairwise"),
    ("alltoall", 2, 2, True, "two_proc"),
    ("alltoall", 5, 8, True, "linear"),
    ("alltoall", 40, 511, True, "bruck"),
    ("alltoall", 100, 1 << 18, True, "pairwise"),
    ("alltoallv", 3, 0, True, "pairwise"),
    ("alltoallv", 4, 0, True, "linear"),
    ("alltoallv", 64, 0, True, "pairwise"),
    ("reduce_scatter", 3, 8, True, "ring"),
    ("reduce_scatter", 8, 8, True, "recursive_halving"),
    ("reduce_scatter", 40, 2048, True, "butterfly"),
    ("reduce_scatter", 8, 8, False, "nonoverlapping"),
    ("reduce_scatter_block", 5, 8, True, "recursive_doubling"),
    ("reduce_scatter_block", 5, 32, True, "butterfly"),
    ("reduce_scatter_block", 5, 7, True, "recursive_halving"),
    ("reduce_scatter_block", 9, 3, True, "nonoverlapping"),
    *[(operation, 1000, 8, True, "linear") for operation in ("gatherv", "scatterv", "alltoallw", "scan", "exscan")],
]


@pytest.mark.parametrize(("operation", "ranks", "size_bytes", "commutative", "name"), DECISIONS)
def test_tuned_is_what_open_mpi_decides(operation: str, ranks: int, size_bytes: int, commutative: bool, name: str):
    assert choose_name(operation, ranks, size_bytes, commutative) == name


@pytest.mark.parametrize("operation", REGISTRY)
def test_tuned_always_names_an_algorithm(operation: str):
    for commutative in (True, False):
        for ranks in (1, 2, 3, 8, 100, 700, 5000, 1 << 20):
            for size_bytes in (0, 1, 1000, 1 << 30):
                assert choose_name(operation, ranks, size_bytes, commutative) in REGISTRY[operation]


def test_a_named_algorithm_is_taken_at_any_size():
    for operation, names in REGISTRY.items():
        for name, algorithm in names.items():
            chosen = choose(operation, 1000, 8, True, name)
            assert getattr(chosen, "func", chosen) is algorithm


def test_what_changes_the_order_is_replaced_for_operations_that_do_not_commute():
    assert choose("reduce", 8, 8, False, "binomial") is reduce.in_order_binary
    assert choose_name("allreduce", 8, 8, False, "ring") == "recursive_doubling"
    assert choose("reduce_scatter", 8, 8, False, "ring") is reduce_scatter.butterfly
    assert choose_name("reduce", 8, 8, False, "linear") == "linear"


def test_an_unknown_name_is_bad_input_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"bcast has no algorithm 'binomail'; did you mean 'binomial'\?"):
        choose("bcast", 8, 8, True, "binomail")
    with pytest.raises(ConfigError, match="It has: tuned, linear, double_ring"):
        choose("barrier", 8, 0, True, "zzz")


def test_compositions_use_what_would_be_chosen_for_their_parts():
    both = choose("allreduce", 1024, 8)
    assert both.keywords == {"reduce": reduce.binomial, "bcast": bcast.knomial}
    ordered = choose("allreduce", 200, 8, False)
    assert ordered.keywords == {"reduce": reduce.in_order_binary, "bcast": bcast.binary_tree}
    block = choose("reduce_scatter_block", 9, 3)
    assert block.keywords == {"reduce": choose("reduce", 9, 27), "scatter": scatter.binomial}
    whole = choose("reduce_scatter", 9, 27, False)
    assert whole.keywords == {"reduce": choose("reduce", 9, 27, False), "scatter": scatter.linear}
    unequal = choose("allgatherv", 9, 100)
    assert unequal.keywords == {"gather": gather.linear, "bcast": choose("bcast", 9, 900)}
    assert choose("allgather", 9, 100, True, "linear").keywords["gather"] is gather.binomial


def test_choosing_again_costs_a_look_up():
    assert choose("allreduce", 1024, 8) is choose("allreduce", 1024, 8)


def test_tuned_collectives_give_right_results_where_they_change_algorithm():
    rng = random.Random(1)
    for size in (2, 3, 4, 7, 8, 15, 16, 31, 32, 33):
        for size_bytes in (4, 16, 64, 512, 2048, 8192, 70_000):
            vectors = [rng.randbytes(size_bytes) for _ in range(size)]
            fold = Sums("u1")
            total = vectors[0]
            for vector in vectors[1:]:
                total = fold(total, vector)

            def program(
                ch: Any, size: int = size, size_bytes: int = size_bytes, vectors: Any = vectors, fold: Any = fold
            ) -> Any:
                mine = vectors[ch.rank]
                everywhere = choose("allreduce", size, size_bytes)(ch, mine, fold)
                at_one = choose("reduce", size, size_bytes)(ch, mine, fold, 1)
                sent = choose("bcast", size, size_bytes)(ch, mine if ch.rank == 1 else None, 1, size_bytes)
                return everywhere, at_one, sent

            network = ToyNetwork(size, rendezvous=True)
            results = network.run(program)
            assert results == [(total, total if rank == 1 else None, vectors[1]) for rank in range(size)]
