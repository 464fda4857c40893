"""Every algorithm and root on 1 to 17 ranks, and in a campaign on 33, gives what plain Python and numpy give.

Sends that block do not deadlock.
"""

import random
from collections.abc import Callable
from functools import reduce as python_reduce
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from tests.campaign import CAMPAIGN
from tests.mpi.collectives.toy_network import Concatenation, Matrices, Sums, ToyNetwork
from xsim_py.mpi.collectives import REGISTRY, TUNED, choose

SIZES = range(1, 34) if CAMPAIGN else (*range(1, 9), 11, 16, 17)
ELEMENTS = (0, 1, 7, 40)
IN_ORDER = {
    "reduce": {"linear", "in_order_binary"},
    "allreduce": {"linear", "nonoverlapping", "recursive_doubling"},
    "reduce_scatter": {"nonoverlapping", "recursive_doubling", "butterfly"},
    "reduce_scatter_block": {"nonoverlapping", "recursive_doubling", "butterfly"},
}
UNEQUAL = {"gatherv", "scatterv", "allgatherv", "alltoallv", "alltoallw"}
Run = Callable[..., list[Any]]


def run(size: int, function: Callable[[Any], Any], *, rendezvous: bool) -> list[Any]:
    """Run on a network whose sends block until received, or on one with free sends; no message may be left over."""
    network = ToyNetwork(size, rendezvous=rendezvous)
    results = network.run(function)
    assert network.unreceived() == 0
    return results


def names(*operations: str) -> list[Any]:
    """All (operation, algorithm) pairs, each once with free and once with blocking sends."""
    return [
        pytest.param(operation, name, rendezvous, id=f"{operation}-{name}-{'blocking' if rendezvous else 'free'}")
        for operation in operations
        for name in REGISTRY[operation]
        for rendezvous in (False, True)
    ]


def bytes_of(rng: random.Random, size_bytes: int) -> bytes:
    return rng.randbytes(size_bytes)


def block_sizes(operation: str, rng: random.Random, size: int) -> list[int]:
    """Unequal sizes, some zero, for the v and w forms; else one size for all."""
    if operation in UNEQUAL:
        return [rng.choice((0, 1, 5, 8, 13)) for _ in range(size)]
    return [rng.choice(ELEMENTS)] * size


@pytest.mark.parametrize(("operation", "name", "rendezvous"), names("barrier"))
def test_no_rank_leaves_a_barrier_before_the_last_one_enters(operation: str, name: str, rendezvous: bool):
    barrier = choose(operation, 2, 0, True, name)
    for size in SIZES:
        late = size // 2
        left = []

        def enter(ch: Any, late: int = late, left: list[int] = left, size: int = size) -> None:
            if ch.rank == late:  # enters when all others have long been inside: each tells it so first
                for other in range(size):
                    if other != late:
                        ch.recv(other)
            else:
                ch.send(late, b"inside")
            if ch.rank == late:
                assert not left
            barrier(ch)
            left.append(ch.rank)

        run(size, enter, rendezvous=rendezvous)
        assert sorted(left) == list(range(size))


@pytest.mark.sampled
@pytest.mark.parametrize(("operation", "name", "rendezvous"), names("bcast"))
def test_everyone_gets_what_the_root_broadcasts(operation: str, name: str, rendezvous: bool):
    rng = random.Random(1)
    for size in SIZES:
        for root in range(size):
            for size_bytes in {rng.choice(ELEMENTS), rng.choice((0, 1, size - 1, size, 2 * size + 1, 200))}:
                data = bytes_of(rng, size_bytes)
                bcast = choose(operation, size, size_bytes, True, name)
                results = run(
                    size,
                    lambda ch, data=data, root=root, bcast=bcast: bcast(
                        ch, data if ch.rank == root else None, root, len(data)
                    ),
                    rendezvous=rendezvous,
                )
                assert results == [data] * size


def test_a_pipeline_puts_its_segments_together():
    for size in (1, 2, 5):
        for size_bytes in (0, 1, 9, 10, 11, 95):
            data = bytes_of(random.Random(size), size_bytes)
            pipeline = REGISTRY["bcast"]["pipeline"]
            network = ToyNetwork(size, rendezvous=True)
            results = network.run(
                lambda ch, data=data, pipeline=pipeline: pipeline(ch, None if ch.rank else data, 0, len(data), 10)
            )
            assert results == [data] * size
            assert network.messages == (size - 1) * max(1, -(-size_bytes // 10))


@pytest.mark.parametrize(("operation", "name", "rendezvous"), names("reduce"))
def test_reduce_equals_numpy_at_every_root(operation: str, name: str, rendezvous: bool):
    rng = np.random.default_rng(2)
    for size in SIZES:
        for root in range(size):
            vectors = rng.integers(-1000, 1000, (size, int(rng.choice((0, 1, 7, size, 2 * size + 3)))), dtype="i4")
            fold = Sums("i4")
            reduce = choose(operation, size, 0, True, name)
            results = run(
                size,
                lambda ch, vectors=vectors, reduce=reduce, fold=fold, root=root: reduce(
                    ch, vectors[ch.rank].tobytes(), fold, root
                ),
                rendezvous=rendezvous,
            )
            expected = [None] * size
            expected[root] = vectors.sum(axis=0, dtype="i4").tobytes()
            assert results == expected


@pytest.mark.parametrize(("operation", "name", "rendezvous"), names("allreduce"))
def test_allreduce_equals_numpy(operation: str, name: str, rendezvous: bool):
    rng = np.random.default_rng(3)
    for size in SIZES:
        for count in (0, 1, 7, size, 2 * size + 3, 8 * size + 1):
            vectors = rng.integers(-1000, 1000, (size, count), dtype="i8")
            fold = Sums("i8")
            allreduce = choose(operation, size, 0, True, name)
            if name == "segmented_ring":
                allreduce = lambda ch, data, fold, call=allreduce: call(ch, data, fold, 16)  # noqa: E731
            results = run(
                size,
                lambda ch, vectors=vectors, allreduce=allreduce, fold=fold: allreduce(
                    ch, vectors[ch.rank].tobytes(), fold
                ),
                rendezvous=rendezvous,
            )
            assert results == [vectors.sum(axis=0).tobytes()] * size


@pytest.mark.parametrize(("operation", "name", "rendezvous"), names("reduce_scatter", "reduce_scatter_block"))
def test_reduce_scatter_equals_numpy(operation: str, name: str, rendezvous: bool):
    rng = np.random.default_rng(4)
    for size in SIZES:
        for largest in (0, 1, 3):
            counts = rng.integers(0, largest + 1, size) if operation == "reduce_scatter" else np.full(size, largest)
            vectors = rng.integers(-1000, 1000, (size, counts.sum()), dtype="i4")
            ends = [0, *np.cumsum(counts)]
            fold = Sums("i4")
            algorithm = choose(operation, size, 0, True, name)

            def call(
                ch: Any, algorithm: Any = algorithm, vectors: Any = vectors, ends: Any = ends, fold: Any = fold
            ) -> bytes:
                mine = vectors[ch.rank]
                parts = [mine[ends[i] : ends[i + 1]].tobytes() for i in range(ch.size)]
                return bytes(algorithm(ch, parts, fold))

            total = vectors.sum(axis=0, dtype="i4")
            expected = [total[ends[i] : ends[i + 1]].tobytes() for i in range(size)]
            assert run(size, call, rendezvous=rendezvous) == expected


@pytest.mark.parametrize(("operation", "name", "rendezvous"), names("scan", "exscan"))
def test_prefix_reductions_spell_out_rank_order(operation: str, name: str, rendezvous: bool):
    fold = Concatenation()
    for size in SIZES:
        letters = [bytes([rank]) for rank in range(size)]
        prefixes = list(accumulate(letters))
        scan = choose(operation, size, 0, False, name)
        results = run(size, lambda ch, scan=scan: scan(ch, bytes([ch.rank]), fold), rendezvous=rendezvous)
        assert results == (prefixes if operation == "scan" else [None, *prefixes[:-1]])


@pytest.mark.parametrize("name", [*REGISTRY["reduce"], TUNED])
def test_a_reduction_that_does_not_commute_is_in_rank_order(name: str):
    matrices, joined = Matrices(), Concatenation()
    for size in SIZES:
        vectors = [bytes_of(random.Random(100 * size + rank), 4 * (size % 5)) for rank in range(size)]
        expected = python_reduce(matrices, vectors)
        for root in {0, size // 3, size - 1}:
            reduce = choose("reduce", size, len(expected), False, name)
            results = ToyNetwork(size).run(lambda ch, r=reduce, v=vectors, root=root: r(ch, v[ch.rank], matrices, root))
            assert results[root] == expected
            spelled = ToyNetwork(size).run(lambda ch, r=reduce, root=root: r(ch, bytes([ch.rank]), joined, root))
            assert spelled[root] == bytes(range(size))


@pytest.mark.parametrize("name", [*REGISTRY["allreduce"], TUNED])
@pytest.mark.parametrize("count", [0, 1, 40])
def test_an_allreduce_that_does_not_commute_is_in_rank_order(name: str, count: int):
    matrices = Matrices()
    for size in SIZES:
        vectors = [bytes_of(random.Random(100 * size + rank), 4 * count) for rank in range(size)]
        allreduce = choose("allreduce", size, 4 * count, False, name)
        results = ToyNetwork(size).run(lambda ch, a=allreduce, v=vectors: a(ch, v[ch.rank], matrices))
        assert results == [python_reduce(matrices, vectors)] * size


@pytest.mark.parametrize("operation", ["reduce_scatter", "reduce_scatter_block"])
@pytest.mark.parametrize("name", [*REGISTRY["reduce_scatter"], TUNED])
def test_a_reduce_scatter_that_does_not_commute_is_in_rank_order(operation: str, name: str):
    matrices = Matrices()
    for size in SIZES:
        parts = [[bytes_of(random.Random(99 * size + rank), 4 * 2) for _ in range(size)] for rank in range(size)]
        algorithm = choose(operation, size, 8, False, name)
        results = ToyNetwork(size).run(lambda ch, a=algorithm, parts=parts: a(ch, parts[ch.rank], matrices))
        assert results == [python_reduce(matrices, [row[block] for row in parts]) for block in range(size)]


@pytest.mark.parametrize(("operation", "name"), [(o, n) for o, ordered in IN_ORDER.items() for n in sorted(ordered)])
def test_an_algorithm_that_keeps_rank_order_is_not_replaced(operation: str, name: str):
    registered = REGISTRY[operation][name]
    chosen = choose(operation, 8, 64, False, name)
    assert getattr(chosen, "func", chosen) is registered


@pytest.mark.parametrize(("operation", "name", "rendezvous"), names("gather", "gatherv"))
def test_gather_brings_the_blocks_in_rank_order(operation: str, name: str, rendezvous: bool):
    rng = random.Random(5)
    for size in SIZES:
        for root in range(size):
            blocks = [bytes_of(rng, size_bytes) for size_bytes in block_sizes(operation, rng, size)]
            gather = choose(operation, size, 0, True, name)
            results = run(
                size, lambda ch, b=blocks, g=gather, root=root: g(ch, b[ch.rank], root), rendezvous=rendezvous
            )
            assert results == [blocks if rank == root else None for rank in range(size)]


@pytest.mark.parametrize(("operation", "name", "rendezvous"), names("scatter", "scatterv"))
def test_scatter_gives_each_rank_its_block(operation: str, name: str, rendezvous: bool):
    rng = random.Random(6)
    for size in SIZES:
        for root in range(size):
            parts = [bytes_of(rng, size_bytes) for size_bytes in block_sizes(operation, rng, size)]
            scatter = choose(operation, size, 0, True, name)
            results = run(
                size,
                lambda ch, p=parts, s=scatter, root=root: s(ch, p if ch.rank == root else None, root),
                rendezvous=rendezvous,
            )
            assert results == parts


@pytest.mark.parametrize(("operation", "name", "rendezvous"), names("allgather", "allgatherv"))
def test_allgather_brings_all_blocks_to_all(operation: str, name: str, rendezvous: bool):
    rng = random.Random(7)
    for size in SIZES:
        for _ in range(3):
            sizes = block_sizes("allgatherv" if name != "linear" else operation, rng, size)
            blocks = [bytes_of(rng, size_bytes) for size_bytes in sizes]
            allgather = choose(operation, size, 0, True, name)
            results = run(size, lambda ch, b=blocks, a=allgather, s=sizes: a(ch, b[ch.rank], s), rendezvous=rendezvous)
            assert results == [blocks] * size


@pytest.mark.parametrize(("operation", "name", "rendezvous"), names("alltoall", "alltoallv", "alltoallw"))
@pytest.mark.parametrize("sizes_known", [False, True])
def test_alltoall_transposes(operation: str, name: str, rendezvous: bool, sizes_known: bool):
    rng = random.Random(8)
    for size in SIZES:
        table = [[bytes_of(rng, rng.choice((0, 1, 5))) for _ in range(size)] for _ in range(size)]
        if operation == "alltoall":
            table = [[bytes_of(rng, 3 * (size % 4)) for _ in range(size)] for _ in range(size)]
        transposed = [list(column) for column in zip(*table, strict=True)]
        alltoall = choose(operation, size, 0, True, name)

        def call(ch: Any, alltoall: Any = alltoall, table: Any = table, columns: Any = transposed) -> Any:
            sizes = [len(block) for block in columns[ch.rank]] if sizes_known else None
            return alltoall(ch, table[ch.rank], sizes)

        assert run(size, call, rendezvous=rendezvous) == transposed


def test_a_sparse_alltoallv_sends_only_what_is_not_empty():
    size = 9
    network = ToyNetwork(size)

    def shift(ch: Any) -> Any:
        right, left = (ch.rank + 1) % size, (ch.rank - 1) % size
        parts = [b"data" if rank == right else b"" for rank in range(size)]
        sizes = [4 if rank == left else 0 for rank in range(size)]
        return choose("alltoallv", size)(ch, parts, sizes)

    assert all(b"".join(blocks) == b"data" for blocks in network.run(shift))
    assert network.messages == size


@pytest.mark.parametrize(("operation", "name"), [(o, n) for o in ("reduce", "allreduce") for n in REGISTRY[o]])
def test_rounding_does_not_depend_on_timing(operation: str, name: str):
    rng = np.random.default_rng(9)
    fold = Sums("f8")
    for size in (5, 8, 13):
        vectors = rng.standard_normal((size, 3 * size)) * 10.0 ** rng.integers(-12, 12, (size, 1))
        algorithm = choose(operation, size, 0, True, name)
        rest = (0,) if operation == "reduce" else ()
        outcomes = {
            tuple(
                ToyNetwork(size, latency=latency, overhead=overhead, rendezvous=rendezvous).run(
                    lambda ch, a=algorithm, v=vectors, rest=rest: a(ch, v[ch.rank].tobytes(), fold, *rest)
                )
            )
            for latency, overhead, rendezvous in ((1, 0, False), (3, 7, False), (0, 5, True))
        }
        assert len(outcomes) == 1
        total = np.frombuffer(outcomes.pop()[0], "f8")
        assert np.allclose(total, vectors.sum(axis=0), rtol=1e-9, atol=1e-9 * np.abs(vectors).max())
