"""The upper-case collectives move and combine what numpy says they should, blocking and non-blocking."""

from functools import reduce

import numpy as np
import pytest

from tests.mpi4py.ranks import numbers, values_of

SIZES = [1, 2, 3, 5, 8, 13]
FORMS = ["", "I", "P"]


def call(comm, form, name, *args, **kwargs):
    """Call a collective in its blocking, its non-blocking or its persistent form."""
    if form == "P":
        request = getattr(comm, name + "_init")(*args, **kwargs)
        request.Start()
        request.Wait()
        request.Free()
    elif form:
        getattr(comm, "I" + name.lower())(*args, **kwargs).Wait()
    else:
        getattr(comm, name)(*args, **kwargs)


def counts_of(size):
    return [(3 * rank + 1) % 5 for rank in range(size)]  # some are 0


def starts_of(size):
    return [sum(counts_of(size)[:rank]) for rank in range(size)]


def all_numbers(size, count, dtype=np.int64):
    return np.array([numbers(rank, count, dtype) for rank in range(size)])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", SIZES)
def test_rooted_operations_with_every_root(size, form):
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        me, got = comm.rank, []
        counts, starts = counts_of(size), starts_of(size)
        for root in range(size):
            here = me == root
            buf = numbers(root, 7) if here else np.zeros(7, np.int64)
            call(comm, form, "Bcast", buf, root=root)
            whole = np.zeros(7, np.int64)
            call(comm, form, "Reduce", numbers(me, 7), whole if here else None, root=root)
            gathered = np.zeros((size, 4), np.int64)
            call(comm, form, "Gather", numbers(me, 4), gathered if here else None, root=root)
            ragged = np.zeros(sum(counts), np.int64)
            target = [ragged, (counts, starts), MPI.INT64_T] if here else None
            call(comm, form, "Gatherv", numbers(me, counts[me]), target, root=root)
            block = np.zeros(3, np.int64)
            call(comm, form, "Scatter", numbers(root, 3 * size) if here else None, block, root=root)
            part = np.zeros(counts[me], np.int64)
            source = [numbers(root, sum(counts)), counts] if here else None
            call(comm, form, "Scatterv", source, part, root=root)
            got.append((buf, whole, gathered, ragged, block, part))
        return got

    values = values_of(program, ranks=size)
    for root in range(size):
        for rank in range(size):
            buf, whole, gathered, ragged, block, part = values[rank][root]
            np.testing.assert_array_equal(buf, numbers(root, 7))
            np.testing.assert_array_equal(block, numbers(root, 3 * size)[3 * rank :][:3])
            start, count = starts_of(size)[rank], counts_of(size)[rank]
            np.testing.assert_array_equal(part, numbers(root, sum(counts_of(size)))[start : start + count])
            if rank == root:
                np.testing.assert_array_equal(whole, all_numbers(size, 7).sum(0))
                np.testing.assert_array_equal(gathered, all_numbers(size, 4))
                expected = [numbers(r, counts_of(size)[r]) for r in range(size)]
                np.testing.assert_array_equal(ragged, np.concatenate(expected))
            else:
                assert not any(untouched.any() for untouched in (whole, gathered, ragged))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", SIZES)
def test_operations_without_a_root(size, form):
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        me = comm.rank
        counts = counts_of(size)
        comm.Barrier()
        everything = np.zeros((size, 4), np.int64)
        call(comm, form, "Allgather", numbers(me, 4), everything)
        ragged = np.zeros(sum(counts), np.int64)
        call(comm, form, "Allgatherv", numbers(me, counts[me]), [ragged, counts])
        turned = np.zeros((size, 2), np.int64)
        call(comm, form, "Alltoall", numbers(me, 2 * size), turned)
        total = np.zeros(9, np.int64)
        call(comm, form, "Allreduce", numbers(me, 9), total)
        block = np.zeros(2, np.int64)
        call(comm, form, "Reduce_scatter_block", numbers(me, 2 * size), block)
        part = np.zeros(counts[me], np.int64)
        call(comm, form, "Reduce_scatter", numbers(me, sum(counts)), part, counts)
        same = np.zeros(counts[me], np.int64)
        call(comm, form, "Reduce_scatter", numbers(me, sum(counts)), same)
        upto, before = np.zeros(3, np.int64), np.full(3, -1)
        call(comm, form, "Scan", numbers(me, 3), upto)
        call(comm, form, "Exscan", numbers(me, 3), before)
        return everything, ragged, turned, total, block, part, same, upto, before

    counts, starts = counts_of(size), starts_of(size)
    for rank, (everything, ragged, turned, total, block, part, same, upto, before) in enumerate(
        values_of(program, ranks=size)
    ):
        np.testing.assert_array_equal(everything, all_numbers(size, 4))
        np.testing.assert_array_equal(ragged, np.concatenate([numbers(r, counts[r]) for r in range(size)]))
        np.testing.assert_array_equal(turned, all_numbers(size, 2 * size)[:, 2 * rank : 2 * rank + 2])
        np.testing.assert_array_equal(total, all_numbers(size, 9).sum(0))
        np.testing.assert_array_equal(block, all_numbers(size, 2 * size).sum(0)[2 * rank : 2 * rank + 2])
        mine = all_numbers(size, sum(counts)).sum(0)[starts[rank] : starts[rank] + counts[rank]]
        np.testing.assert_array_equal(part, mine)
        np.testing.assert_array_equal(same, mine)
        np.testing.assert_array_equal(upto, all_numbers(size, 3)[: rank + 1].sum(0))
        np.testing.assert_array_equal(before, all_numbers(size, 3)[:rank].sum(0) if rank else [-1] * 3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 4, 5])
def test_blocks_of_any_size_place_and_type_change_hands(size, form):
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        me = comm.rank
        to = [(me + other) % 3 for other in range(size)]  # what I send to `other`, and get from it
        source = np.arange(4 * size) + 1000 * me
        target = np.full(4 * size, -1)
        call(comm, form, "Alltoallv", [source, (to, 4)], [target, (to, 4)])
        spread = MPI.INT64_T.Create_vector(2, 1, 2).Commit()  # two numbers with a gap
        places = [32 * other for other in range(size)]
        picked = np.full(4 * size, -1)
        sends = [source, ([1] * size, places), [spread] * size]
        call(comm, form, "Alltoallw", sends, [picked, ([2] * size, places), [MPI.INT64_T] * size])
        return target, picked

    for rank, (target, picked) in enumerate(values_of(program, ranks=size)):
        for other in range(size):
            block = 1000 * other + 4 * rank + np.arange(4)
            count = (rank + other) % 3
            assert target[4 * other :][:4].tolist() == [*block[:count], *[-1] * (4 - count)]
            assert picked[4 * other :][:4].tolist() == [block[0], block[2], -1, -1]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", SIZES)
def test_in_place(size, form):
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        me, root, here = comm.rank, size - 1, MPI.IN_PLACE
        counts, starts = counts_of(size), starts_of(size)
        total = numbers(me, 5)
        call(comm, form, "Allreduce", here, total)
        at_root = numbers(me, 5)
        if me == root:
            call(comm, form, "Reduce", here, at_root, root=root)
        else:
            call(comm, form, "Reduce", at_root, None, root=root)
        table = np.zeros((size, 2), np.int64)
        table[me] = numbers(me, 2)
        everything, turned = table.copy(), numbers(me, size)
        call(comm, form, "Allgather", here, everything)
        ragged = np.zeros(sum(counts), np.int64)
        ragged[starts[me] : starts[me] + counts[me]] = numbers(me, counts[me])
        call(comm, form, "Allgatherv", here, [ragged, counts])
        call(comm, form, "Alltoall", here, turned)
        if me == root:
            call(comm, form, "Gather", here, table, root=root)
            call(comm, form, "Scatter", numbers(root, size), here, root=root)
        else:
            call(comm, form, "Gather", table[me], None, root=root)
            call(comm, form, "Scatter", None, np.zeros(1, np.int64), root=root)
        upto, before = numbers(me, 3), numbers(me, 3)
        call(comm, form, "Scan", here, upto)
        call(comm, form, "Exscan", here, before)
        block, part = numbers(me, 2 * size), numbers(me, sum(counts))
        call(comm, form, "Reduce_scatter_block", here, block)
        call(comm, form, "Reduce_scatter", here, part, counts)
        return total, at_root, everything, ragged, turned, table, upto, before, block[:2], part[: counts[me]]

    counts, starts = counts_of(size), starts_of(size)
    for rank, got in enumerate(values_of(program, ranks=size)):
        total, at_root, everything, ragged, turned, table, upto, before, block, part = got
        np.testing.assert_array_equal(total, all_numbers(size, 5).sum(0))
        np.testing.assert_array_equal(everything, all_numbers(size, 2))
        np.testing.assert_array_equal(ragged, np.concatenate([numbers(r, counts[r]) for r in range(size)]))
        np.testing.assert_array_equal(turned, all_numbers(size, size)[:, rank])
        if rank == size - 1:
            np.testing.assert_array_equal(at_root, total)
            np.testing.assert_array_equal(table, everything)
        np.testing.assert_array_equal(upto, all_numbers(size, 3)[: rank + 1].sum(0))
        np.testing.assert_array_equal(before, all_numbers(size, 3)[:rank].sum(0) if rank else numbers(0, 3))
        np.testing.assert_array_equal(block, all_numbers(size, 2 * size).sum(0)[2 * rank : 2 * rank + 2])
        np.testing.assert_array_equal(part, all_numbers(size, sum(counts)).sum(0)[starts[rank] :][: counts[rank]])


OPERATIONS = {
    "SUM": np.add,
    "PROD": np.multiply,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "LAND": lambda a, b: (a.astype(bool) & b.astype(bool)).astype(a.dtype),
    "LOR": lambda a, b: (a.astype(bool) | b.astype(bool)).astype(a.dtype),
    "LXOR": lambda a, b: (a.astype(bool) ^ b.astype(bool)).astype(a.dtype),
    "BAND": np.bitwise_and,
    "BOR": np.bitwise_or,
    "BXOR": np.bitwise_xor,
}
REALS = ["f4", "f8"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_on_every_kind_of_number(name):
    size = 5
    dtypes = ["i1", "u2", "i4", "i8", "u8"]
    dtypes += [] if name[0] in "LB" else REALS
    dtypes += ["c16"] if name in ("SUM", "PROD") else []

    def program():
        from mpi4py import MPI

        comm, got = MPI.COMM_WORLD, []
        for dtype in dtypes:
            for count in (1, 6):
                total = np.zeros(count, dtype)
                comm.Allreduce(numbers(comm.rank, count, dtype), total, op=getattr(MPI, name))
                got.append(total)
        return got

    expected = [reduce(OPERATIONS[name], all_numbers(size, count, dtype)) for dtype in dtypes for count in (1, 6)]
    for got in values_of(program, ranks=size):
        for mine, wanted in zip(got, expected, strict=True):
            np.testing.assert_array_equal(mine, wanted)


def test_extreme_values_with_their_places():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        mine = np.array([(value, comm.rank) for value in numbers(comm.rank, 6)], np.dtype("f8,i4", align=True))
        low, high = np.zeros_like(mine), np.zeros_like(mine)
        comm.Allreduce([mine, 6, MPI.DOUBLE_INT], [low, 6, MPI.DOUBLE_INT], op=MPI.MINLOC)
        comm.Reduce([mine, 6, MPI.DOUBLE_INT], [high, 6, MPI.DOUBLE_INT], op=MPI.MAXLOC)
        return low, high

    table = all_numbers(7, 6)
    values = values_of(program, ranks=7)
    assert values[3][0].tolist() == list(zip(table.min(0), table.argmin(0), strict=True))
    assert values[0][1].tolist() == list(zip(table.max(0), table.argmax(0), strict=True))


@pytest.mark.parametrize("size", SIZES)
def test_an_operation_that_does_not_commute_sees_the_ranks_in_order(size):
    def matrix(rank):
        return numbers(rank, 4).reshape(2, 2)

    def program():
        from mpi4py import MPI

        def product(left, right, datatype):
            a, b = (np.frombuffer(side, np.int64).reshape(-1, 2, 2) for side in (left, right))
            b[:] = a @ b % 1009

        comm, got = MPI.COMM_WORLD, []
        whole = MPI.INT64_T.Create_contiguous(4).Commit()
        op = MPI.Op.Create(product, commute=False)
        for root in range(size):
            total = np.zeros((2, 2), np.int64)
            comm.Reduce([matrix(comm.rank), 1, whole], [total, 1, whole], op=op, root=root)
            got.append(comm.bcast(total, root=root))
        comm.Allreduce([matrix(comm.rank), 1, whole], [total, 1, whole], op=op)
        got.append(total)
        blocks, block = np.array([matrix(comm.rank)] * size), np.zeros((2, 2), np.int64)
        comm.Reduce_scatter_block([blocks, 1, whole], [block, 1, whole], op=op)
        got.append(block)
        upto = np.zeros((2, 2), np.int64)
        comm.Scan([matrix(comm.rank), 1, whole], [upto, 1, whole], op=op)
        return got, upto

    def product_of(count):
        return reduce(lambda a, b: a @ b % 1009, [matrix(rank) for rank in range(count)])

    for rank, (got, upto) in enumerate(values_of(program, ranks=size)):
        for each in got:
            np.testing.assert_array_equal(each, product_of(size))
        np.testing.assert_array_equal(upto, product_of(rank + 1))


def test_between_two_groups():
    """Of 5 ranks, the first 2 and the last 3 face each other."""

    def program():
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        low = world.rank < 2
        comm = world.Split(0 if low else 1).Create_intercomm(0, world, 2 if low else 0)
        me, there = world.rank, comm.remote_size
        role = (MPI.ROOT if comm.rank == 1 else MPI.PROC_NULL) if low else 1  # the root is rank 1 of the first group
        got = {}
        buf = numbers(me, 3)
        comm.Ibcast(buf, root=role).Wait()
        got["bcast"] = buf
        total = np.zeros(3, np.int64)
        comm.Reduce(numbers(me, 3), total, root=role)
        got["reduce"] = total
        gathered = np.zeros((there, 2), np.int64)
        comm.Gather(numbers(me, 2), gathered, root=role)
        got["gather"] = gathered
        block = np.zeros(2, np.int64)
        comm.Scatter(numbers(me, 2 * there), block, root=role)
        got["scatter"] = block
        everything = np.zeros((there, 2), np.int64)
        comm.Allgather(numbers(me, 2), everything)
        got["allgather"] = everything
        turned = np.zeros(there, np.int64)
        comm.Alltoall(numbers(me, there), turned)
        got["alltoall"] = turned
        comm.Allreduce(numbers(me, 3), total := np.zeros(3, np.int64))
        got["allreduce"] = total
        counts = [4, 2] if low else [1, 2, 3]
        part = np.zeros(counts[comm.rank], np.int64)
        comm.Reduce_scatter(numbers(me, 6), part, counts)
        got["reduce_scatter"] = part
        comm.Barrier()
        return got

    values = values_of(program, ranks=5)
    groups = [range(2), range(2, 5)]
    for rank, got in enumerate(values):
        mine, theirs = groups if rank < 2 else groups[::-1]
        place = rank - mine[0]
        table = np.array([numbers(other, 6) for other in theirs])
        np.testing.assert_array_equal(got["bcast"], numbers(rank if rank < 2 else 1, 3))
        np.testing.assert_array_equal(got["scatter"], numbers(1, 6)[2 * place :][:2] if rank >= 2 else [0, 0])
        np.testing.assert_array_equal(got["allgather"], [numbers(other, 2) for other in theirs])
        np.testing.assert_array_equal(got["alltoall"], [numbers(other, len(mine))[place] for other in theirs])
        np.testing.assert_array_equal(got["allreduce"], sum(numbers(other, 3) for other in theirs))
        counts = [4, 2] if rank < 2 else [1, 2, 3]
        expected = table.sum(0)[sum(counts[:place]) :][: counts[place]]
        np.testing.assert_array_equal(got["reduce_scatter"], expected)
        at_root = rank == 1
        np.testing.assert_array_equal(got["reduce"], sum(numbers(r, 3) for r in theirs) if at_root else [0] * 3)
        gathered = [numbers(other, 2) for other in theirs] if at_root else np.zeros((len(theirs), 2))
        np.testing.assert_array_equal(got["gather"], gathered)
