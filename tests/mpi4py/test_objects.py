"""The lower-case collectives move pickled objects, and combine them in mpi4py's order."""

import pytest

from tests.mpi4py.ranks import values_of

SIZES = [1, 2, 3, 5, 8]


@pytest.mark.parametrize("size", SIZES)
def test_objects_move_with_every_root(size):
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        me, got = comm.rank, []
        for root in range(size):
            here = me == root
            sent = comm.bcast({"root": root, "long": "x" * root} if here else None, root=root)
            gathered = comm.gather((me, "y" * me), root=root)
            part = comm.scatter([f"{root} to {to}" for to in range(size)] if here else None, root=root)
            got.append((sent, gathered, part))
        return got, comm.allgather("z" * me), comm.alltoall([(me, to) for to in range(size)]), comm.barrier()

    for rank, (got, everything, turned, nothing) in enumerate(values_of(program, ranks=size)):
        for root, (sent, gathered, part) in enumerate(got):
            assert sent == {"root": root, "long": "x" * root}
            assert gathered == ([(r, "y" * r) for r in range(size)] if rank == root else None)
            assert part == f"{root} to {rank}"
        assert everything == ["z" * r for r in range(size)]
        assert turned == [(r, rank) for r in range(size)]
        assert nothing is None


def test_none_moves_too():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        return comm.bcast(None), comm.scatter(None), comm.alltoall(None), comm.allgather(None)

    assert values_of(program, ranks=3) == [(None, None, [None] * 3, [None] * 3)] * 3


def test_what_arrives_is_a_copy_also_at_the_root():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        mine = [comm.rank]
        copies = [comm.bcast(mine, root=comm.rank if comm.size == 1 else 0), comm.allgather(mine)[comm.rank]]
        copies.append(comm.alltoall([mine] * comm.size)[comm.rank])
        copies += [comm.allreduce(mine, op=lambda a, b: a), comm.scan(mine, op=lambda a, b: b)]
        return any(copy is mine for copy in copies)

    assert values_of(program, ranks=1) == [False]
    assert values_of(program, ranks=2) == [False] * 2


# What mpi4py 4.1.2 with MPICH gives for op = lambda a, b: f"({a}{b})" on 5 and 6 ranks.
REDUCED = {5: "(((01)(23))4)", 6: "(((01)(23))(45))"}
SCANNED = ["0", "(01)", "((01)2)", "((01)(23))", "(((01)(23))4)", "(((01)(23))(45))"]
EXSCANNED = [None, "0", "(01)", "((01)2)", "((01)(23))", "(((01)(23))4)"]


@pytest.mark.parametrize("size", REDUCED)
def test_operands_meet_in_the_order_of_mpi4py(size):
    def program():
        from mpi4py import MPI

        def join(a, b):
            return f"({a}{b})"

        comm = MPI.COMM_WORLD
        mine = str(comm.rank)
        reduced = [comm.reduce(mine, op=join, root=root) for root in range(size)]
        return reduced, comm.allreduce(mine, op=join), comm.scan(mine, op=join), comm.exscan(mine, op=join)

    for rank, (reduced, everywhere, upto, before) in enumerate(values_of(program, ranks=size)):
        assert reduced == [REDUCED[size] if root == rank else None for root in range(size)]
        assert everywhere == REDUCED[size]
        assert upto == SCANNED[rank]
        assert before == EXSCANNED[rank]


def test_operations_of_mpi_work_on_objects():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        me = comm.rank
        return (
            comm.allreduce(me + 0.5),
            comm.allreduce("ab"[me % 2]),
            comm.allreduce([me], op=MPI.SUM),
            comm.allreduce((-abs(me - 1), me), op=MPI.MAXLOC),
            comm.allreduce(me > 0, op=MPI.LAND),
            comm.reduce({me}, op=lambda a, b: a | b),
        )

    values = values_of(program, ranks=4)
    assert values[0] == (8.0, "abab", [0, 1, 2, 3], (0, 1), False, {0, 1, 2, 3})
    assert [value[-1] for value in values[1:]] == [None] * 3


def test_objects_between_two_groups():
    """Of 5 ranks, the first 2 and the last 3 face each other."""

    def program():
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        low = world.rank < 2
        comm = world.Split(0 if low else 1).Create_intercomm(0, world, 2 if low else 0)
        me, there = world.rank, comm.remote_size
        role = (MPI.ROOT if comm.rank == 1 else MPI.PROC_NULL) if low else 1
        comm.barrier()
        return (
            comm.bcast(f"from {me}", root=role),
            comm.gather(me, root=role),
            comm.scatter([10 * me + i for i in range(there)], root=role),
            comm.allgather(me),
            comm.alltoall([10 * me + i for i in range(there)]),
            comm.reduce(str(me), root=role),
            comm.allreduce(str(me)),
        )

    low = [(None, None, None, [2, 3, 4], [20 + i, 30 + i, 40 + i], None, "234") for i in range(2)]
    low[1] = (None, [2, 3, 4], None, [2, 3, 4], [21, 31, 41], "234", "234")
    high = [("from 1", None, 10 + i, [0, 1], [i, 10 + i], None, "01") for i in range(3)]
    assert values_of(program, ranks=5) == [*low, *high]
