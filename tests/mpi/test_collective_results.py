"""Every upper-case collective equals numpy's, on 1 to 13 ranks (33 in a campaign), every root and all algorithms."""

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal as same

from tests.campaign import CAMPAIGN
from xsim_py import simulate
from xsim_py.mpi.collectives import REGISTRY

SIZES = range(1, 34) if CAMPAIGN else (1, 2, 3, 4, 5, 7, 8, 9, 13)


def some_algorithms(seed: int) -> dict[str, str]:
    """One for each operation, drawn by lot."""
    rng = random.Random(seed)
    return {f"mpi.collectives.{operation}": rng.choice([*names]) for operation, names in REGISTRY.items()}


def run(program: Any, size: int, *, tuned: bool) -> None:
    overrides = None if tuned else some_algorithms(size)
    result = simulate(program, ranks=size, args=[size], set=overrides)
    assert (result.ended, result.exit_status, result.warnings) == ("finished", 0, []), (overrides, result.report)


def table_of(rng: np.random.Generator, rows: int, columns: int) -> Any:
    return rng.integers(1, 100, (rows, columns))


def holes(rng: np.random.Generator, size: int) -> tuple[Any, Any, int]:
    """Counts (some are 0) and places of blocks that do not follow each other, and the length of the whole."""
    counts = rng.integers(0, 5, size)
    order, gaps = rng.permutation(size), rng.integers(0, 3, size)
    places, end = np.zeros(size, int), 0
    for rank in order:
        places[rank] = end + gaps[rank]
        end = places[rank] + counts[rank]
    return counts, places, int(end) + 1


def blocks(counts: Any, places: Any) -> Iterator[slice]:
    return (slice(at, at + count) for count, at in zip(counts, places, strict=True))


def filled(whole: int, parts: Any, counts: Any, places: Any) -> Any:
    """What a buffer of -1 holds after the blocks have arrived."""
    expected = np.full(whole, -1)
    for part, where in zip(parts, blocks(counts, places), strict=True):
        expected[where] = part
    return expected


@lru_cache(maxsize=4)  # drawn for the first rank, and the same numbers at all
def drawn_rooted(size: int, root: int) -> Any:
    rng = np.random.default_rng([size, root])
    n = int(rng.integers(0, 40))
    table = table_of(rng, size, n)
    counts, places, whole = holes(rng, size)
    pieces = [table_of(rng, 1, count)[0] for count in counts]
    return n, table, counts, places, whole, pieces, table_of(rng, 1, whole)[0]


def rooted(size: int) -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    me = comm.rank
    for root in range(size):
        n, table, counts, places, whole, pieces, source = drawn_rooted(size, root)
        here, in_place = me == root, root % 2 == 1

        buf = table[root].copy() if here else np.zeros(n, int)
        comm.Bcast(buf, root)
        same(buf, table[root])

        total = table[me].copy() if here and in_place else np.full(n, -1)
        comm.Reduce(MPI.IN_PLACE if here and in_place else table[me], total if here else None, MPI.MAX, root)
        same(total, table.max(0) if here else -1)

        gathered = np.full((size, n), -1)
        gathered[me] = table[me]
        comm.Gather(MPI.IN_PLACE if here and in_place else table[me], gathered if here else None, root)
        if here:
            same(gathered, table)

        part = np.full(n, -1)
        comm.Scatter(table if here else None, MPI.IN_PLACE if here and in_place else part, root)
        same(part, -1 if here and in_place else table[me])

        buf = np.full(whole, -1)
        mine: Any = pieces[me]
        if here and in_place:
            buf[places[me] : places[me] + counts[me]] = mine
            mine = MPI.IN_PLACE
        comm.Gatherv(mine, [buf, (counts, places), MPI.INT64_T] if here else None, root)
        same(buf, filled(whole, pieces, counts, places) if here else -1)

        part = np.full(counts[me], -1)
        comm.Scatterv([source, (counts, places)] if here else None, MPI.IN_PLACE if here and in_place else part, root)
        same(part, -1 if here and in_place else source[places[me] : places[me] + counts[me]])


def unrooted(size: int) -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    me = comm.rank
    for round_ in range(3):
        rng = np.random.default_rng([size, round_])
        n = int(rng.choice([0, 1, 3, 200, 3000]))
        table = table_of(rng, size, n)
        total = np.full(n, -1)
        comm.Allreduce(table[me], total)
        same(total, table.sum(0))
        here = table[me].copy()
        comm.Allreduce(MPI.IN_PLACE, here, MPI.MIN)
        same(here, table.min(0))

        k = int(rng.integers(0, 20))
        table = table_of(rng, size, k)
        everything = np.full((size, k), -1)
        comm.Allgather(table[me], everything)
        same(everything, table)
        everything[:] = -1
        everything[me] = table[me]
        comm.Allgather(MPI.IN_PLACE, everything)
        same(everything, table)

        cube = rng.integers(1, 100, (size, size, k))
        turned = np.full((size, k), -1)
        comm.Alltoall(cube[me], turned)
        same(turned, cube[:, me])
        turned = cube[me].copy()
        comm.Alltoall(MPI.IN_PLACE, turned)
        same(turned, cube[:, me])

        block = np.full(k, -1)
        comm.Reduce_scatter_block(cube[me], block)
        same(block, cube[:, me].sum(0))
        whole = cube[me].copy()
        comm.Reduce_scatter_block(MPI.IN_PLACE, whole)
        same(whole[:1], cube[:, me].sum(0)[None])

        table = table_of(rng, size, k)
        upto, before = np.full(k, -1), np.full(k, -1)
        comm.Scan(table[me], upto, MPI.PROD if size < 9 else MPI.SUM)
        same(upto, table[: me + 1].prod(0) if size < 9 else table[: me + 1].sum(0))
        comm.Exscan(table[me], before)
        same(before, table[:me].sum(0) if me else -1)


@lru_cache(maxsize=4)
def drawn_ragged(size: int, round_: int) -> Any:
    rng = np.random.default_rng([size, round_])
    counts, places, whole = holes(rng, size)
    parts = [table_of(rng, 1, count)[0] for count in counts]
    table = table_of(rng, size, sum(counts))
    amounts = rng.integers(0, 4, (size, size))  # from, to
    items = [[table_of(rng, 1, amount)[0] for amount in row] for row in amounts]
    return counts, places, whole, parts, table, amounts, items


def ragged(size: int) -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    me = comm.rank
    for round_ in range(2):
        counts, places, whole, parts, table, amounts, items = drawn_ragged(size, round_)
        buf = np.full(whole, -1)
        comm.Allgatherv(parts[me], [buf, (counts, places)])
        same(buf, filled(whole, parts, counts, places))

        part = np.full(counts[me], -1)
        comm.Reduce_scatter(table[me], part, counts.tolist())
        start = sum(counts[:me])
        same(part, table.sum(0)[start : start + counts[me]])

        rng = np.random.default_rng([size, round_, me])  # where each keeps it is its own affair
        out_at, in_at = (7 * rng.permutation(size) for _ in range(2))
        source = filled(7 * size, items[me], amounts[me], out_at)
        expected = filled(7 * size, [row[me] for row in items], amounts[:, me], in_at)
        target = np.full(7 * size, -1)
        comm.Alltoallv([source, (amounts[me], out_at)], [target, (amounts[:, me], in_at)])
        same(target, expected)
        target = np.full(7 * size, -1)
        types = [MPI.INT64_T] * size
        comm.Alltoallw([source, (amounts[me], 8 * out_at), types], [target, (amounts[:, me], 8 * in_at), types])
        same(target, expected)


def ordered(size: int) -> None:
    """Products of matrices (numbers wrap around) do not commute."""
    from mpi4py import MPI

    def product(left: Any, right: Any, datatype: Any) -> None:
        a, b = (np.frombuffer(side, "u8").reshape(-1, 2, 2) for side in (left, right))
        b[:] = a @ b

    comm = MPI.COMM_WORLD
    me = comm.rank
    op = MPI.Op.Create(product, commute=False)
    matrix = MPI.UINT64_T.Create_contiguous(4).Commit()
    rng = np.random.default_rng(size)
    factors = rng.integers(0, 1 << 60, (size, 3, 2, 2), "u8")  # of each rank three matrices
    upto = [factors[0]]
    for factor in factors[1:]:
        upto.append(upto[-1] @ factor)
    whole, got = upto[-1], np.zeros((3, 2, 2), "u8")
    for root in range(size):
        comm.Reduce([factors[me], 3, matrix], [got, 3, matrix] if me == root else None, op, root)
    same(got, whole)
    got[:] = 0
    comm.Allreduce([factors[me], 3, matrix], [got, 3, matrix], op)
    same(got, whole)
    comm.Scan([factors[me], 3, matrix], [got, 3, matrix], op)
    same(got, upto[me])
    got[:] = 0
    comm.Exscan([factors[me], 3, matrix], [got, 3, matrix], op)
    same(got, upto[me - 1] if me else 0)
    many = np.concatenate([factors[me, :1]] * size)
    one = np.zeros((2, 2), "u8")
    comm.Reduce_scatter_block([many, 1, matrix], [one, 1, matrix], op)
    same(one, whole[0])
    one[:] = 0
    comm.Reduce_scatter([many, size, matrix], [one, 1, matrix], [1] * size, op)
    same(one, whole[0])


def columns(size: int) -> None:
    """Columns of matrices, as vectors with a stride, on one side or on both."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    me = comm.rank
    column = MPI.INT64_T.Create_vector(6, 1, size).Commit()
    stepping = column.Create_resized(0, 8).Commit()  # the next one begins at the next number
    whole = np.arange(6 * size).reshape(6, size)
    for root in {0, size // 2, size - 1}:
        matrix = whole.copy() if me == root else np.full((6, size), -1)
        comm.Bcast([matrix, 1, column], root)
        same(matrix[:, 0], whole[:, 0])
        same(matrix[:, 1:], whole[:, 1:] if me == root else -1)
        mine = np.full(6, -1)
        comm.Scatter([whole, 1, stepping] if me == root else None, mine, root)
        same(mine, whole[:, me])
        matrix = np.full((6, size), -1)
        comm.Gather(mine, [matrix, 1, stepping] if me == root else None, root)
        same(matrix, whole if me == root else -1)
    matrix = np.full((6, size), -1)
    comm.Allgather([whole[:, me:], 1, column] if size == 1 else whole[:, me].copy(), [matrix, 1, stepping])
    same(matrix, whole)
    rows = np.full((size, 6), -1)
    comm.Alltoall([whole + 1000 * me, 1, stepping], rows)
    same(rows, whole[:, me] + 1000 * np.arange(size)[:, None])


def at_once(size: int) -> None:
    """All are started in one order, and completed in another one at each rank."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    me = comm.rank
    rng = np.random.default_rng(size)
    n = 50
    table, counts = table_of(rng, size, n), rng.integers(0, 5, size)
    starts, root, last = counts.cumsum() - counts, size // 2, size - 1
    cube = rng.integers(1, 100, (size, size, 2))

    def empty(*shape: int) -> Any:
        return np.full(shape, -1)

    bcast, total, least = (table[root].copy() if me == root else empty(n)), empty(n), empty(n)
    gathered, ragged_, part = empty(size, n), empty(sum(counts)), empty(2)
    turned, block, upto, before, everything = empty(size, 2), empty(2), empty(n), empty(n), empty(size, n)
    requests = [
        comm.Ibcast(bcast, root),
        comm.Ireduce(table[me], total, root=last),
        comm.Iallreduce(table[me], least, MPI.MIN),
        comm.Igather(table[me], gathered, root),
        comm.Iallgatherv(table[me, : counts[me]], [ragged_, counts]),
        comm.Ibarrier(),
        comm.Iscatter(cube[last], part, last),
        comm.Ialltoall(cube[me], turned),
        comm.Ireduce_scatter_block(cube[me], block),
        comm.Iscan(table[me], upto),
        comm.Iexscan(table[me], before),
        comm.Iallgather(table[me], everything),
    ]
    comm.Barrier()
    for place in random.Random(1000 * size + me).sample(range(len(requests)), len(requests)):
        requests[place].Wait()
    same(bcast, table[root])
    same(total, table.sum(0) if me == last else -1)
    same(least, table.min(0))
    same(gathered, table if me == root else -1)
    same(ragged_, np.concatenate([table[rank, : counts[rank]] for rank in range(size)]))
    same(starts[-1] + counts[-1], len(ragged_))
    same(part, cube[last, me])
    same(turned, cube[:, me])
    same(block, cube[:, me].sum(0))
    same(upto, table[: me + 1].sum(0))
    same(before, table[:me].sum(0) if me else -1)
    same(everything, table)


@pytest.mark.sampled
@pytest.mark.parametrize("tuned", [True, False], ids=["tuned", "by lot"])
@pytest.mark.parametrize("program", [rooted, unrooted, ragged, ordered, columns, at_once])
def test_results_are_numpys(program: Any, tuned: bool) -> None:
    for size in SIZES:
        run(program, size, tuned=tuned)


def test_unsigned_bytes_are_numbers() -> None:
    """Without a datatype they are MPI_UNSIGNED_CHAR, in every kind of buffer; MPI_BYTE cannot be added up."""

    def program() -> tuple[list[str], list[list[int]]]:
        import array

        from mpi4py import MPI

        names: list[str] = []
        note = MPI.Op.Create(lambda left, right, datatype: names.append(datatype.Get_name()), commute=True)
        sums = []
        for buffer in (np.ones(3, "u1"), bytearray([1, 1, 1]), array.array("B", [1, 1, 1])):
            MPI.COMM_WORLD.Allreduce(buffer, bytearray(3), note)
            total = np.zeros(3, "u1")
            MPI.COMM_WORLD.Allreduce(buffer, total)
            sums.append(total.tolist())
        return names, sums

    assert simulate(program, ranks=2).values == [(["MPI_UNSIGNED_CHAR"] * 3, [[2, 2, 2]] * 3)] * 2


def test_a_wrong_result_would_be_seen() -> None:
    """The programs above do compare: a broken sum ends them with an error."""

    def program(size: int) -> None:
        from mpi4py import MPI

        total = np.zeros(1)
        MPI.COMM_WORLD.Allreduce(np.ones(1), total)
        same(total, size + 1)

    with pytest.raises(AssertionError):
        run(program, 3, tuned=True)
