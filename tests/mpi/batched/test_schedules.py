"""What is known of an algorithm in advance is what it does."""

import gc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from tests.mpi.collectives.toy_network import ToyNetwork
from xsim_py import simulate
from xsim_py.mpi.batched.batch import Batch
from xsim_py.mpi.batched.formulas import formula
from xsim_py.mpi.batched.instance import CollectiveInstance
from xsim_py.mpi.batched.instances import CollectiveInstances
from xsim_py.mpi.batched.timing import Costs, Times
from xsim_py.mpi.batched.trees import tree
from xsim_py.mpi.checksum import crc32
from xsim_py.mpi.collectives import allreduce, bcast, reduce
from xsim_py.mpi.collectives.channel import cut
from xsim_py.mpi.collectives.choose import REGISTRY, reduce_then_bcast
from xsim_py.mpi.op import PREDEFINED, make_fold
from xsim_py.mpi4py.datatype import TYPE_DICT

SUM = make_fold(PREDEFINED["SUM"], TYPE_DICT["d"]._impl)
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


def message_by_message(algorithm, size, arguments, clock, costs):
    """What each message has, and when it comes; when ranks leave, with what; and the digest."""
    network = ToyNetwork(size, latency=costs.transit_ps, overhead=costs.send_ps)
    network.times[:] = clock
    results = network.run(lambda ch: algorithm(ch, *arguments[ch.rank]))
    assert not network.unreceived()
    digest = sum(
        hash((when, 100 + dest, source, 7, len(data), crc32(data)))
        for (source, dest), messages in network.sent.items()
        for when, data in messages
    )
    return network.sent, network.times, [plain(result) for result in results], digest % 2**64


def at_once(schedule, contributions, clock, costs):
    """The same of a call that is computed."""
    size = schedule.size
    bound = batch(schedule, costs, range(100, 100 + size))
    times = bound.times(clock, [0] * size, [rank << 34 for rank in range(size)])
    memory, results = bound.values(contributions, SUM)
    listing = bound.listing(times)
    sent = {}
    for number in np.argsort(listing.key).tolist():
        message = int(listing.first_ps[number]), bound.payload(memory, number)
        sent.setdefault((int(listing.source[number]), int(listing.target[number])), []).append(message)
    assert (times.clock_ps >= max(clock)).all()  # nobody leaves before the last one has come
    counted = np.zeros((2, size), np.int64)
    for (source, _), messages in sent.items():
        counted[:, source] += len(messages), sum(len(data) for _, data in messages)
    assert [column.tolist() for column in bound.sums()] == [list(range(100, 100 + size)), *counted.tolist()]
    digest = bound.hashes(times, 7, memory) % 2**64
    return sent, times.clock_ps.tolist(), [plain(result) for result in results], digest


def plain(result):
    return result if result is None or isinstance(result, bytes) else list(result)


def batch(schedule, costs, numbers):
    return Batch(schedule, [costs] * sum(1 for _ in schedule.stages()), numbers, True)


def random_bytes(count, *seeds):
    return np.random.default_rng(seeds).random(count // 8 + 1).tobytes()[:count]


def check(schedule, algorithm, size, contributions, arguments, send_ps, seed):
    clock = np.random.default_rng(seed).integers(0, 5_000, size).tolist()
    costs = Costs(send_ps, 0, 2_000, 0)
    theirs = message_by_message(algorithm, size, arguments, clock, costs)
    assert at_once(schedule, contributions, clock, costs) == theirs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xsim_py.mpi.batched.timing._MOST_KEPT", 0)
        assert at_once(schedule, contributions, clock, costs) == theirs


@pytest.mark.sampled
@pytest.mark.parametrize(("operation", "name"), FORMULAS)
@settings(max_examples=20 if CAMPAIGN else 8)
@given(st.integers(2, 40), st.sampled_from([0, 1, 8, 30]), st.sampled_from([0, 300]), st.integers(0, 99))
def test_formula_is_its_algorithm(operation, name, size, block_bytes, send_ps, seed):
    algorithm = REGISTRY[operation][name]
    if name == "rabenseifner":
        size = 1 << size % 6
    sizes = [block_bytes] * size
    if operation == "allgather":
        sizes = [block_bytes + seed % 3 * (rank % 4) for rank in range(size)]  # all the same, or not
    elif operation == "allreduce":
        sizes = [(block_bytes & -8) * (size if name == "rabenseifner" else 1)] * size
    elif operation == "alltoall":
        sizes = [block_bytes * size] * size
    shape = {"barrier": 0, "allgather": tuple(sizes), "allreduce": sizes[0], "alltoall": block_bytes}[operation]
    schedule = formula(algorithm, size, shape)
    if schedule is None:
        assert name == "rabenseifner"
        assert size == 1 or not block_bytes & -8
        return
    data = [b"" if operation == "barrier" else random_bytes(count, seed, rank) for rank, count in enumerate(sizes)]
    arguments = {
        "barrier": lambda mine: (),
        "allreduce": lambda mine: (mine, SUM),
        "allgather": lambda mine: (mine, sizes),
        "alltoall": lambda mine: (cut(mine, [block_bytes] * size),),
    }[operation]
    check(schedule, algorithm, size, data, list(map(arguments, data)), send_ps, seed)


@pytest.mark.parametrize("algorithm", [*TREES, REGISTRY["barrier"]["tree"]])
@settings(max_examples=15 if CAMPAIGN else 8)
@given(st.integers(2, 70), st.sampled_from([8, 24]), st.sampled_from([0, 300]), st.integers(0, 99))
def test_tree_is_its_algorithm(algorithm, size, size_bytes, send_ps, seed):
    barrier = algorithm is REGISTRY["barrier"]["tree"]
    data = [b"" if barrier else random_bytes(size_bytes, seed, rank) for rank in range(size)]
    arguments = [() if barrier else (mine, SUM) for mine in data]
    check(tree(algorithm, size, size_bytes), algorithm, size, data, arguments, send_ps, seed)


def test_a_call_that_is_listed_in_advance_is_one_of_those_that_are_chosen():
    assert tree(allreduce.rabenseifner, 8, 8) is None
    assert all(tree(algorithm, 8, 8) is not None for algorithm in TREES)


def test_costs_that_differ_give_the_times_of_the_formulas_for_equal_ones():
    size = 20
    schedule = tree(TREES[1], size, 8)
    count = schedule.messages
    equal = Costs(300, 400, 2_000, 700)
    listed = Costs(*(np.full(count, cost) for cost in equal[:4]))
    data = [random_bytes(8, rank) for rank in range(size)]
    one, other = (at_once(schedule, data, list(range(size)), costs) for costs in (equal, listed))
    assert one == other


@pytest.mark.parametrize(
    ("operation", "algorithm", "call", "computed"),
    [
        ("barrier", "bruck", "Barrier()", True),
        ("barrier", "double_ring", "Barrier()", False),
        ("allreduce", "nonoverlapping", "Allreduce(one, other)", True),
        ("allreduce", "ring", "Allreduce(one, other)", False),
        ("allgatherv", "ring", "Allgatherv(one[:1], other)", True),
        ("allgatherv", "linear", "Allgatherv(one[:1], other)", False),
        ("reduce_scatter_block", "ring", "Reduce_scatter_block(one, other[:1])", False),
        ("bcast", "scatter_allgather", "Bcast(one)", False),
        ("scan", "recursive_doubling", "Scan(one, other)", False),
    ],
)
def test_algorithms_without_a_formula_go_message_by_message(operation, algorithm, call, computed, monkeypatch):
    assert len(computed_calls(8, operation, algorithm, call, "arrays", monkeypatch)) == (4 if computed else 0)


@pytest.mark.parametrize(
    ("operation", "algorithm", "call", "least"),
    [
        ("barrier", "recursive_doubling", "Barrier()", 32),
        ("barrier", "bruck", "Barrier()", 24),
        ("barrier", "tree", "Barrier()", 48),
        ("alltoall", "linear", "Alltoall(numpy.ones(n), numpy.ones(n))", 24),
        ("alltoallv", "pairwise", "Alltoallv([numpy.ones(n), [1] * n], [numpy.ones(n), [1] * n])", 32),
        ("allreduce", "nonoverlapping", "allreduce(1)", 48),
        ("scan", "recursive_doubling", "scan(1)", 64),  # the first power of two that is large enough
    ],
)
def test_calls_on_too_few_ranks_go_message_by_message_if_that_is_faster(operation, algorithm, call, least, monkeypatch):
    for ranks, count in ((least - 1, 0), (least, 4)):
        assert len(computed_calls(ranks, operation, algorithm, call, "auto", monkeypatch)) == count, ranks


def computed_calls(ranks, operation, algorithm, call, collectives, monkeypatch):
    """Return the calls that are computed, of four."""
    done = []
    finish = CollectiveInstances.finish
    monkeypatch.setattr(CollectiveInstances, "finish", lambda it, call: (done.append(call.note.name), finish(it, call)))
    code = f"""if True:
        import numpy
        from mpi4py import MPI
        one, other, n = numpy.ones(8), numpy.zeros(8), MPI.COMM_WORLD.size
        for _ in range(4):
            MPI.COMM_WORLD.{call}
    """
    machine = {"network": {"latency": "1us"}, "mpi": {"collectives": {operation: algorithm}}}
    simulate(code, kind="code", ranks=ranks, machine=machine, collectives=collectives)
    return [name for name in done if name != "Comm.Dup"]  # of objects, before the first one


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
        kinds = (Batch, Times, CollectiveInstance)
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
        assert found["CollectiveInstance"] <= 2 * shards
