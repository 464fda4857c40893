"""What is known of an algorithm in advance is what it does."""

import gc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xsim_py import simulate
from xsim_py.mpi.batched import forms
from xsim_py.mpi.batched.batch import Batch
from xsim_py.mpi.batched.compiling import compiled
from xsim_py.mpi.batched.formulas import formula
from xsim_py.mpi.batched.meeting import Meeting
from xsim_py.mpi.batched.recording import SymbolicFold, record
from xsim_py.mpi.batched.schedule import all_need_all
from xsim_py.mpi.batched.timing import Costs, Times
from xsim_py.mpi.batched.trees import _PARENTS, ArrayTree, tree
from xsim_py.mpi.collectives import allreduce, bcast, reduce
from xsim_py.mpi.collectives.choose import REGISTRY, reduce_then_bcast
from xsim_py.mpi.op import PREDEFINED, make_fold
from xsim_py.mpi4py.datatype import TYPE_DICT

SUM = make_fold(PREDEFINED["SUM"], TYPE_DICT["d"]._impl)
SYMBOL = SymbolicFold(8, True)
FORMS = {"barrier": forms.BARRIER, "allreduce": forms.VECTOR, "allgather": forms.BLOCKS, "alltoall": forms.PARTS}
FORMULAS = [
    ("barrier", "bruck"),
    ("barrier", "recursive_doubling"),
    ("allreduce", "recursive_doubling"),
    ("allreduce", "rabenseifner"),
    ("allgather", "ring"),
    ("allgather", "bruck"),
    ("allgather", "recursive_doubling"),
    ("allgather", "neighbor"),
    ("alltoall", "pairwise"),
    ("alltoall", "linear"),
    ("alltoall", "linear_sync"),
    ("alltoall", "bruck"),
]
TREES = [
    reduce_then_bcast(up, down)
    for up in (reduce.binary, reduce.binomial)
    for down in (bcast.binary_tree, bcast.binomial, bcast.knomial)
]


def observed(bound, size, contributions, seed, early=False):
    """All that a run would see of a call; but when messages are taken, which a recording does not know of all."""
    random = np.random.default_rng(seed)
    clock, nic = random.integers(0, 5_000, (2, size)).tolist()
    keys = [rank << 34 for rank in range(size)]
    times = bound.times(clock, nic, keys)
    listing = bound.listing(times)
    memory, results = bound.values(contributions, SUM)
    columns = (listing.key, listing.origin, listing.dest, listing.source, listing.size_bytes)
    columns += (listing.arrival_ps, listing.taken_ps)[: 2 - early]
    data = [bound.payload(memory, number) for number in range(bound.schedule.messages)]
    messages = sorted(zip(*(column.tolist() for column in columns), data, strict=True))
    columns = (times.clock_ps, times.nic_free_ps, times.last_ps, times.last_key, times.waited_ps, times.keys)
    ranks = [column.tolist() for column in columns]
    sums = [column.tolist() for column in bound.sums()]
    plain = [result if result is None or isinstance(result, bytes) else list(result) for result in results]
    return messages, ranks, plain, bound.hashes(times, 7, memory), sums


def batch(schedule, costs, numbers):
    return Batch(schedule, [costs] * sum(1 for _ in schedule.stages()), numbers, True)


def recorded(algorithm, size, form, shape, fold):
    key = (shape, fold) if fold is not None else shape
    recording = record(
        size, form.sizes(key, size), lambda ch, made: algorithm(ch, *form.symbols(key, made, ch.rank, fold))
    )
    return compiled(recording)


def payloads(form, size, block_bytes, seed):
    each = {forms.BARRIER: 0, forms.PARTS: size * block_bytes}.get(form, block_bytes)
    sizes = [each] * size if isinstance(each, int) else each
    return [np.random.default_rng((seed, rank)).random(n // 8 + 1).tobytes()[:n] for rank, n in enumerate(sizes)]


@pytest.mark.parametrize(("operation", "name"), FORMULAS)
@settings(max_examples=20)
@given(st.integers(2, 40), st.sampled_from([0, 1, 8, 30]), st.sampled_from([0, 300]), st.integers(0, 99))
def test_formula_is_its_algorithm(operation, name, size, block_bytes, send_ps, seed):
    algorithm, form = REGISTRY[operation][name], FORMS[operation]
    fold = None
    if operation == "allreduce":
        block_bytes, fold = block_bytes & -8, SymbolicFold(8, True)
        if name == "rabenseifner":
            size = 1 << size % 6
            block_bytes *= size
    if operation == "allgather":
        block_bytes = tuple(block_bytes + seed % 3 * (rank % 4) for rank in range(size))  # all the same, or not
    shape = () if operation == "barrier" else block_bytes
    schedule = formula(algorithm, size, shape)
    if schedule is None:
        assert (operation, name) == ("barrier", "recursive_doubling") or name == "rabenseifner"
        assert size & (size - 1) or (name == "rabenseifner" and (size == 1 or not block_bytes))
        return
    costs = Costs(send_ps, 400, 2_000, 700)
    data = payloads(form, size, block_bytes, seed)
    made = recorded(algorithm, size, form, shape, fold)
    numbers = range(100, 100 + size)
    theirs = observed(batch(made, costs, numbers), size, data, seed, made.early)
    assert observed(batch(schedule, costs, numbers), size, data, seed, made.early) == theirs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xsim_py.mpi.batched.timing._MOST_KEPT", 0)
        assert observed(batch(schedule, costs, numbers), size, data, seed, made.early) == theirs


@pytest.mark.parametrize("algorithm", [*TREES, REGISTRY["barrier"]["tree"]])
@settings(max_examples=15)
@given(st.integers(2, 70), st.sampled_from([8, 24]), st.sampled_from([0, 300]), st.integers(0, 99))
def test_tree_is_its_algorithm(algorithm, size, size_bytes, send_ps, seed):
    barrier = algorithm is REGISTRY["barrier"]["tree"]
    form = forms.BARRIER if barrier else forms.VECTOR
    costs = Costs(send_ps, 400, 2_000, 700)
    data = payloads(form, size, size_bytes, seed)
    made = recorded(algorithm, size, form, () if barrier else size_bytes, None if barrier else SymbolicFold(8, True))
    twin = tree(algorithm, size, () if barrier else size_bytes)
    mine, theirs = (observed(batch(each, costs, range(size)), size, data, seed) for each in (twin, made))
    assert mine == theirs


def test_a_call_that_is_listed_in_advance_is_one_of_those_that_are_chosen():
    assert tree(allreduce.rabenseifner, 8, 8) is None
    assert all(tree(algorithm, 8, 8) is not None for algorithm in TREES)


def test_costs_that_differ_give_the_times_of_the_formulas_for_equal_ones():
    size = 20
    schedule = tree(TREES[1], size, 8)
    count = schedule.messages
    equal = Costs(300, 400, 2_000, 700)
    listed = Costs(*(np.full(count, cost) for cost in equal[:4]))
    data = payloads(forms.VECTOR, size, 8, 1)
    one, other = (observed(batch(schedule, costs, range(size)), size, data, 3) for costs in (equal, listed))
    assert one == other


@pytest.mark.parametrize("shape", _PARENTS)
@given(st.integers(1, 700))
def test_trees_of_all_ranks_are_those_of_each(shape, size):
    made = ArrayTree(shape, size)
    found = zip(made.parent.tolist(), np.split(made.children, made.starts[1:]), strict=True)
    assert [(parent, tuple(children.tolist())) for parent, children in found] == [
        shape(rank, size, 0) for rank in range(size)
    ]


@pytest.mark.parametrize(
    ("operation", "name", "size", "size_bytes", "all_wait"),
    [
        ("scan", "linear", 8, 8, False),
        ("scan", "recursive_doubling", 8, 8, True),
        ("exscan", "recursive_doubling", 6, 8, False),  # rank 1 of six never hears of the last two
        ("reduce", "binomial", 8, 64, False),
        ("reduce", "rabenseifner", 8, 64, True),
        ("bcast", "binomial", 8, 64, False),
        ("bcast", "scatter_allgather", 8, 64, True),
        ("bcast", "scatter_allgather", 8, 4, False),  # some ranks have no block to send
        ("allreduce", "linear", 7, 8, True),
    ],
)
def test_whether_all_ranks_need_all_others(operation, name, size, size_bytes, all_wait):
    form = {"bcast": forms.FROM_ROOT, "reduce": forms.TO_ROOT}.get(operation, forms.VECTOR)
    shape = {"bcast": (3, size_bytes), "reduce": (size_bytes, 3)}.get(operation, size_bytes)
    stage = recorded(REGISTRY[operation][name], size, form, shape, None if operation == "bcast" else SYMBOL).stage
    assert all_need_all(stage) is all_wait
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xsim_py.mpi.batched.schedule._BATCH", 3)
        assert all_need_all(stage) is all_wait


@pytest.mark.parametrize("shards", [1, 2])
def test_a_call_that_is_over_leaves_nothing_for_the_collector(shards: int):
    """It looks seldom in a run, and a call may have had megabytes of times."""

    def program() -> Counter[str]:
        import numpy as np
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        counts = [1 + (comm.rank + other) % 5 for other in range(comm.size)]
        for _ in range(6):
            comm.Alltoallv([np.zeros(sum(counts), "u1"), counts], [np.zeros(sum(counts), "u1"), counts])
            comm.Alltoall(np.zeros(comm.size), np.zeros(comm.size))
            comm.Allreduce(np.zeros(3), np.zeros(3))
        comm.Barrier()
        kinds = (Batch, Times, Meeting)
        return Counter(kind.__name__ for kind in kinds for thing in gc.get_objects() if isinstance(thing, kind))

    gc.collect()
    gc.disable()
    try:
        result = simulate(program, ranks=24, shards=shards, collectives="arrays")
    finally:
        gc.enable()
    for found in result.values:
        assert found["Batch"] <= 3 * shards  # those of the calls that come again
        assert found["Times"] <= 2 * shards  # the last two, of 19
        assert found["Meeting"] <= 2 * shards
