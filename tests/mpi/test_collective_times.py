"""Collectives of whole programs: on a network where only the latency costs, they take their closed forms."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.campaign import CAMPAIGN
from tests.mpi.collectives.closed_forms import BY_ITSELF, CLOSED_FORMS, SAME
from tests.mpi.collectives.test_times import call
from tests.mpi.collectives.toy_network import ToyNetwork
from xsim_py import simulate
from xsim_py.mpi.collectives import REGISTRY
from xsim_py.mpi.collectives.choose import choose_name

LATENCY_ONLY = {"network": {"latency": "1us"}}
US = 10**6
SIZES = [*range(1, 18), 23, 31, 32, 33, 47, 64, 65] if CAMPAIGN else [1, 2, 3, 4, 5, 7, 8, 9, 16]
TWO_PROC = {"allgather": "ring", "alltoall": "pairwise"}
"""What that algorithm is on two ranks and, asked for by name, on more."""


def one_call(operation: str, root: int = 0) -> float:
    """Call an operation on vectors of one number a rank; the time at its end."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    p, at_root = comm.size, comm.rank == root
    one, many, more = np.ones(1, "i4"), np.ones(p, "i4"), np.zeros(p, "i4")
    counts, places, types = [1] * p, [4 * i for i in range(p)], [MPI.INT] * p
    calls: dict[str, Callable[[], Any]] = {
        "barrier": lambda: comm.Barrier(),
        "bcast": lambda: comm.Bcast(many, root),
        "reduce": lambda: comm.Reduce(many, more, root=root),
        "allreduce": lambda: comm.Allreduce(many, more),
        "gather": lambda: comm.Gather(one, many if at_root else None, root),
        "gatherv": lambda: comm.Gatherv(one, [many, counts] if at_root else None, root),
        "scatter": lambda: comm.Scatter(many if at_root else None, one, root),
        "scatterv": lambda: comm.Scatterv([many, counts] if at_root else None, one, root),
        "allgather": lambda: comm.Allgather(one, many),
        "allgatherv": lambda: comm.Allgatherv(one, [many, counts]),
        "alltoall": lambda: comm.Alltoall(many, more),
        "alltoallv": lambda: comm.Alltoallv([many, counts], [more, counts]),
        "alltoallw": lambda: comm.Alltoallw([many, (counts, places), types], [more, (counts, places), types]),
        "reduce_scatter": lambda: comm.Reduce_scatter(many, one, counts),
        "reduce_scatter_block": lambda: comm.Reduce_scatter_block(many, one),
        "scan": lambda: comm.Scan(one, np.zeros(1, "i4")),
        "exscan": lambda: comm.Exscan(one, np.zeros(1, "i4")),
    }
    calls[operation]()
    return MPI.Wtime()


def measure(p: int, operation: str, name: str, **options: Any) -> tuple[list[int], int]:
    """When each rank ends, in picoseconds, and how many messages were sent."""
    overrides = {f"mpi.collectives.{operation}": name}
    result = simulate(one_call, ranks=p, machine=LATENCY_ONLY, args=[operation], set=overrides, **options)
    assert result.ended == "finished", result.report
    return [round(end_s * 10**12) for end_s in result.values], result.messages


def parts_of(operation: str, name: str, p: int) -> list[tuple[str, str]]:
    """The algorithms that an algorithm is made of, one after the other; of most, itself."""
    whole = 4 * p
    reduce, bcast = ("reduce", choose_name("reduce", p, whole)), ("bcast", choose_name("bcast", p, whole))
    return {
        ("allreduce", "nonoverlapping"): [reduce, bcast],
        ("allgather", "linear"): [("gather", choose_name("gather", p, 4)), bcast],
        ("allgatherv", "linear"): [("gather", "linear"), bcast],
        ("reduce_scatter", "nonoverlapping"): [reduce, ("scatter", "linear")],
        ("reduce_scatter_block", "nonoverlapping"): [reduce, ("scatter", choose_name("scatter", p, 4))],
    }.get((operation, name), [(operation, name)])


def closed_form(operation: str, name: str, p: int) -> tuple[int, int]:
    """Steps and messages."""
    if p == 1:
        return 0, 0
    base = SAME.get(operation, operation)
    time, messages = CLOSED_FORMS[base, TWO_PROC[base] if name == "two_proc" else name]
    return time(p), messages(p)


WITH_CLOSED_FORM = [
    (operation, name)
    for operation, names in REGISTRY.items()
    for name in names
    if (SAME.get(operation, operation), name) not in BY_ITSELF
]


@pytest.mark.sampled
@pytest.mark.parametrize(("operation", "name"), WITH_CLOSED_FORM)
def test_each_algorithm_takes_its_closed_form(operation: str, name: str) -> None:
    for p in SIZES:
        ends, messages = measure(p, operation, name)
        parts = [closed_form(*part, p) for part in parts_of(operation, name, p)]
        assert (max(ends), messages) == (US * sum(part[0] for part in parts), sum(part[1] for part in parts)), p


@pytest.mark.parametrize(("operation", "name"), [*CLOSED_FORMS, *sorted(BY_ITSELF)])
def test_each_rank_ends_when_it_does_on_the_toy_network(operation: str, name: str) -> None:
    for p in (1, 2, 3, 7, 8, 12, 21) if CAMPAIGN else (3, 8):
        if parts_of(operation, name, p) != [(operation, name)]:
            continue
        network = ToyNetwork(p, latency=US)
        network.run(lambda ch, p=p: call(operation, name, ch, elements=p))
        assert measure(p, operation, name) == (network.times, network.messages), p


def test_all_algorithms_may_be_chosen_at_once() -> None:
    chosen = {"allreduce": "ring", "bcast": "chain"}
    for operation, steps in (("allreduce", 18), ("bcast", 9)):
        machine = {**LATENCY_ONLY, "mpi": {"collectives": chosen}}
        result = simulate(one_call, ranks=10, machine=machine, args=[operation])
        assert round(max(result.values) * 10**6) == steps


@pytest.mark.parametrize(
    ("reduction", "broadcast"), [("binary", "binary_tree"), ("chain", "tuned"), ("tuned", "linear")]
)
def test_the_parts_of_an_allreduce_may_be_chosen_too(reduction: str, broadcast: str) -> None:
    for p in (1, 2, 7, 12):
        chosen = {"allreduce": "nonoverlapping", "reduce": reduction, "bcast": broadcast}
        machine = {**LATENCY_ONLY, "mpi": {"collectives": chosen}}
        result = simulate(one_call, ranks=p, machine=machine, args=["allreduce"])
        parts = [
            closed_form(operation, choose_name(operation, p, 4 * p, preference=name), p)
            for operation, name in (("reduce", reduction), ("bcast", broadcast))
        ]
        assert round(max(result.values) * 10**12) == US * sum(part[0] for part in parts)
        assert result.messages == sum(part[1] for part in parts)


def call_bytes(operation: str, size: int) -> float:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    data, more = np.zeros(size, "u1"), np.zeros(size, "u1")
    many, table = np.zeros(size * comm.size, "u1"), np.zeros(size * comm.size, "u1")
    calls: dict[str, Callable[[], Any]] = {
        "barrier": comm.Barrier,
        "bcast": lambda: comm.Bcast(data),
        "reduce": lambda: comm.Reduce(data, more),
        "allreduce": lambda: comm.Allreduce(data, more),
        "gather": lambda: comm.Gather(data, many),
        "allgather": lambda: comm.Allgather(data, many),
        "alltoall": lambda: comm.Alltoall(many, table),
        "scan": lambda: comm.Scan(data, more),
    }
    calls[operation]()
    return MPI.Wtime()


# Open MPI 5.0, coll_tuned_decision_fixed.c: operation, ranks, bytes (of a block, where there are blocks), algorithm.
DECISIONS = [
    ("barrier", 4, 0, "linear"),
    ("barrier", 8, 0, "recursive_doubling"),
    ("barrier", 64, 0, "bruck"),
    ("barrier", 256, 0, "tree"),
    ("bcast", 8, 7, "knomial"),
    ("bcast", 8, 8, "binary_tree"),
    ("bcast", 8, 1 << 20, "linear"),
    ("bcast", 40, 2047, "binomial"),
    ("reduce", 3, 31, "chain"),
    ("reduce", 3, 32, "linear"),
    ("allreduce", 4, 15, "ring"),
    ("allreduce", 4, 16, "recursive_doubling"),
    ("allreduce", 8, 8192, "rabenseifner"),
    ("gather", 2, 1, "linear_sync"),
    ("gather", 100, 8, "binomial"),
    ("allgather", 3, 8, "recursive_doubling"),
    ("allgather", 40, 1024, "neighbor"),
    ("allgather", 40, 65536, "ring"),
    ("allgather", 200, 4, "bruck"),
    ("alltoall", 5, 8, "linear"),
    ("alltoall", 40, 511, "bruck"),
    ("scan", 9, 8, "linear"),
]


@pytest.mark.parametrize(("operation", "p", "size", "name"), DECISIONS)
def test_tuned_takes_the_time_of_what_open_mpi_would_take(operation: str, p: int, size: int, name: str) -> None:
    result = simulate(call_bytes, ranks=p, machine=LATENCY_ONLY, args=[operation, size])
    steps, messages = closed_form(operation, name, p)
    assert (round(max(result.values) * 10**12), result.messages) == (steps * US, messages)


def test_tuned_allreduce_of_many_ranks_is_a_reduce_and_a_broadcast() -> None:
    result = simulate(call_bytes, ranks=1024, machine=LATENCY_ONLY, args=["allreduce", 8])
    up, down = closed_form("reduce", "binomial", 1024), closed_form("bcast", "knomial", 1024)
    assert (round(max(result.values) * 10**12), result.messages) == ((up[0] + down[0]) * US, up[1] + down[1])
