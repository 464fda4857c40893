"""How collectives run: progress in the background, what goes wrong and how it is said, statistics, algorithms."""

import numpy as np
import pytest

from tests.mpi4py.ranks import report_of, values_of
from xsim_py import simulate


def test_a_non_blocking_collective_goes_on_while_the_rank_sleeps():
    def program():
        import time

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        total, start_s = np.zeros(1), MPI.Wtime()
        request = comm.Iallreduce(np.ones(1), total)
        begun_s = MPI.Wtime() - start_s
        time.sleep(1)
        request.Wait()
        waited_s = MPI.Wtime() - start_s
        comm.Allreduce(np.ones(1), total)
        return begun_s, waited_s, MPI.Wtime() - start_s - waited_s, total[0]

    for begun_s, waited_s, blocking_s, total in values_of(program, ranks=8):
        assert begun_s == 0
        assert waited_s == 1  # all of it was hidden
        assert blocking_s > 1e-5
        assert total == 8


def test_several_at_once_and_in_any_order_of_completion():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        a, b, c = np.full(1, comm.rank), np.full(3, comm.rank), np.zeros(1, int)
        requests = [comm.Ibcast(a, root=1), comm.Ibcast(b, root=2), comm.Iallreduce(np.ones(1, int), c)]
        requests.append(comm.Ibarrier())
        total = comm.allreduce(1)
        MPI.Request.Waitall(requests[::-1])
        return a.tolist(), b.tolist(), c.tolist(), total

    assert values_of(program, ranks=6) == [([1], [2, 2, 2], [6], 6)] * 6


def test_a_send_buffer_is_read_when_the_call_is_made():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        source, target = np.full(1, comm.rank), np.zeros(comm.size, int)
        request = comm.Iallgather(source, target)
        source[:] = 99
        request.Wait()
        return target.tolist()

    assert values_of(program, ranks=3) == [[0, 1, 2]] * 3


def different_collectives(kind):
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    first, many = comm.rank == 0, np.zeros(1 << 17 if "large" in kind else 2)
    if kind.startswith("operation"):
        comm.Bcast(many) if first else comm.Reduce(many, np.zeros_like(many))
        comm.Barrier()
    elif kind == "barrier":
        comm.Allreduce(many, np.zeros(2)) if first else comm.Barrier()
    elif kind == "form":
        comm.Ibarrier().Wait() if first else comm.Barrier()
    elif kind.startswith("root"):
        comm.Bcast(many, root=comm.rank % 2)
    elif kind == "count":
        comm.Bcast(many[: 1 if first else 2])
    elif kind == "op":
        comm.Allreduce(many, np.zeros(2), op=MPI.MAX if first else MPI.SUM)
    elif kind == "block":
        comm.Gather(many[:1] if first else many, np.zeros(comm.size))
    elif kind == "counts":
        total, counts = np.zeros(comm.size), [1] * comm.size
        if first:
            counts[:2] = 2, 0
        comm.Reduce_scatter(total, total[: counts[comm.rank]].copy(), counts)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("operation", "Comm.Bcast(root=0, 16 bytes)", "Comm.Reduce(root=0, 16 bytes, SUM)"),
        ("operation, large", "Comm.Bcast(root=0, 1048576 bytes)", "Comm.Reduce(root=0, 1048576 bytes, SUM)"),
        ("barrier", "Comm.Allreduce(16 bytes, SUM)", "Comm.Barrier()"),
        ("form", "Comm.Ibarrier()", "Comm.Barrier()"),
        ("root", "Comm.Bcast(root=0, 16 bytes)", "Comm.Bcast(root=1, 16 bytes)"),
        ("root, large", "Comm.Bcast(root=0, 1048576 bytes)", "Comm.Bcast(root=1, 1048576 bytes)"),
        ("count", "Comm.Bcast(root=0, 8 bytes)", "Comm.Bcast(root=0, 16 bytes)"),
        ("op", "Comm.Allreduce(16 bytes, MAX)", "Comm.Allreduce(16 bytes, SUM)"),
        ("block", "Comm.Gather(root=0, 8 bytes)", "Comm.Gather(root=0, 16 bytes)"),
        ("counts", " bytes, SUM, counts 2, 0", " bytes, SUM)"),
    ],
)
@pytest.mark.parametrize("ranks", [2, 5])
def test_ranks_in_different_collectives_are_named(ranks, kind, one, other):
    report = report_of(different_collectives, kind, ranks=ranks)
    assert "collective mismatch on MPI_COMM_WORLD" in report
    assert one in report
    assert other in report


def test_a_rank_that_does_not_come_is_missed():
    def program():
        from mpi4py import MPI

        if MPI.COMM_WORLD.rank != 2:
            MPI.COMM_WORLD.Barrier()

    report = report_of(program, ranks=4)
    assert "Comm.Barrier" in report
    assert "waited for, but ended already: rank 2" in report


def wrong(name):
    """What a wrong call raises, as (kind, MPI's class or Python's text)."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    a, b = np.zeros(4, "i4"), np.zeros(4, "i4")
    derived = MPI.INT.Create_contiguous(4).Commit()
    call = {
        "root": lambda: comm.Bcast(a, root=comm.size),
        "negative root": lambda: comm.Reduce(a, b, root=-5),
        "PROC_NULL": lambda: comm.Bcast(a, root=MPI.PROC_NULL),
        "root of a gather": lambda: comm.Gather(a, None, root=9),
        "root of objects": lambda: comm.reduce(1, root=77),
        "OP_NULL": lambda: comm.Allreduce(a, b, op=MPI.OP_NULL),
        "bits of reals": lambda: comm.Allreduce(a.astype("f8"), b.astype("f8"), op=MPI.BAND),
        "derived": lambda: comm.Allreduce([a, 1, derived], [b, 1, derived]),
        "not an op": lambda: comm.Allreduce(a, b, op=max),
        "count": lambda: comm.Allreduce(a, b[:3]),
        "type": lambda: comm.Allreduce(a, b.astype("f4")),
        "nothing": lambda: comm.Bcast(None),
        "no datatype": lambda: comm.Bcast([a, 1, MPI.DATATYPE_NULL]),
        "not committed": lambda: comm.Ibcast([a, 1, MPI.INT.Create_contiguous(2)]),
        "too many objects": lambda: comm.alltoall([1] * (comm.size + 1)),
        "read-only": lambda: comm.Allreduce(a, bytes(16)),
        "does not divide": lambda: comm.Allgather(a, np.zeros(4, "i4")),
        "counts": lambda: comm.Reduce_scatter(a, b, [1, 1, 1]),
        "receives less": lambda: comm.Allgather(a, np.zeros(2 * comm.size, "i4")),
        "null": lambda: MPI.COMM_NULL.Barrier(),
    }[name]
    try:
        call()
    except MPI.Exception as error:
        names = {getattr(MPI, each): each for each in dir(MPI) if each.startswith("ERR_")}
        return names[error.Get_error_class()]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    ("name", "raised"),
    [  # as mpi4py with MPICH, but for "receives less", which MPICH does not find
        ("root", "ERR_ROOT"),
        ("negative root", "ERR_ROOT"),
        ("PROC_NULL", "ERR_ROOT"),
        ("root of a gather", "ERR_ROOT"),
        ("root of objects", "ERR_ROOT"),
        ("OP_NULL", "ERR_OP"),
        ("bits of reals", "ERR_OP"),
        ("derived", "ERR_OP"),
        ("not an op", "TypeError: Argument 'op' has incorrect type"),
        ("count", "ValueError: mismatch in send count 4 and receive count 3"),
        ("type", "ValueError: mismatch in send and receive MPI datatypes"),
        ("nothing", "TypeError: message: expecting buffer or list/tuple"),
        ("no datatype", "ERR_TYPE"),
        ("not committed", "ERR_TYPE"),
        ("too many objects", "ValueError: expecting 3 items, got 4"),
        ("read-only", "BufferError"),
        ("does not divide", "ValueError: message: cannot infer count"),
        ("counts", "ValueError: mismatch in send count 4 and sum(counts) 3"),
        ("receives less", "ERR_TRUNCATE"),
        ("null", "ERR_COMM"),
    ],
)
def test_wrong_calls_raise_what_mpi4py_raises(name, raised):
    for value in values_of(wrong, name, ranks=3):
        assert value.startswith(raised)


def test_the_error_handler_of_the_communicator_is_asked():
    def program():
        from mpi4py import MPI

        comm, seen = MPI.COMM_WORLD.Dup(), []
        comm.Set_errhandler(MPI.Comm.Create_errhandler(lambda comm, code: seen.append(MPI.Get_error_class(code))))
        comm.Bcast(np.zeros(1), root=9)
        request = comm.Ibcast(np.zeros(1), root=9)
        return seen == [MPI.ERR_ROOT] * 2, request == MPI.REQUEST_NULL

    assert values_of(program, ranks=2) == [(True, True)] * 2


def test_the_table_of_collectives_counts_calls_bytes_and_time():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        for _ in range(3):
            comm.Allreduce(np.zeros(4), np.zeros(4))
        comm.Bcast(np.zeros(2), root=1)
        comm.gather("x")

    result = simulate(program, ranks=4)
    columns = result.tables["collectives"].columns
    rows = {name: place for place, name in enumerate(columns["operation"])}
    assert list(rows) == ["Comm.Allreduce", "Comm.Bcast", "Comm.gather"]
    assert set(columns["communicator"]) == {"MPI_COMM_WORLD"}
    assert columns["calls"] == [12, 4, 4]
    assert columns["bytes"][:2] == [12 * 32, 16]
    for place in rows.values():
        assert 0 < columns["mean_s"][place] <= columns["longest_s"][place]


def test_the_table_of_collectives_names_the_algorithm_that_ran():
    """Also where calls of one operation differ in it, and where all ranks are computed at once."""

    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        for count in (1, 2000):
            comm.Allreduce(np.zeros(count), np.zeros(count))
            comm.Iallreduce(np.zeros(count), np.zeros(count)).Wait()
        comm.allgather("x" * 30)
        comm.Allgather(np.zeros(1), np.zeros(comm.size))
        comm.alltoall([1] * comm.size)
        comm.reduce(1)
        comm.Create_cart([comm.size]).neighbor_allgather(1)

    def rows(**options):
        columns = simulate(program, ranks=6, **options).tables["collectives"].columns
        return list(zip(columns["operation"], columns["algorithm"], columns["calls"], strict=True))

    expected = [
        ("Topocomm.neighbor_allgather", "linear", 6),
        ("Comm.Allgather", "bruck", 6),  # recursive doubling is for powers of two
        ("Comm.Allreduce", "rabenseifner", 6),
        ("Comm.Allreduce", "recursive_doubling", 6),
        ("Comm.Iallreduce", "rabenseifner", 6),
        ("Comm.Iallreduce", "recursive_doubling", 6),
        ("Comm.allgather", "linear (gather linear, bcast binary_tree)", 6),
        ("Comm.alltoall", "linear", 6),
        ("Comm.reduce", "binomial", 6),
    ]
    assert sorted(rows(collectives="messages")) == sorted(expected)
    assert sorted(rows(collectives="arrays")) == sorted(rows(collectives="arrays", shards=3)) == sorted(expected)
    assert {row[1] for row in rows(set={"mpi.collectives": "ftco"})} == {"ftco", "linear"}


def test_the_machine_names_the_algorithm():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        total, table = np.zeros(8), np.zeros(8)
        comm.Allreduce(np.arange(8.0), total)
        comm.Gatherv(np.ones(1), [table, 1] if comm.rank == 0 else None)
        return total.tolist()

    def run(**chosen):
        overrides = {f"mpi.collectives.{operation}": algorithm for operation, algorithm in chosen.items()}
        result = simulate(program, ranks=8, set=overrides)
        assert result.values == [[8.0 * i for i in range(8)]] * 8
        return result.messages

    tuned = run(allreduce="recursive_doubling")
    assert run(allreduce="ring") - tuned == 8 * 2 * 7 - 8 * 3
    assert run(allreduce="linear") - tuned == 2 * 7 - 8 * 3
    assert run(allreduce="recursive_doubling", gather="linear_sync") - tuned == 7  # the v-form too
    assert run(allreduce="recursive_doubling", gather="binomial") == tuned  # which has no such algorithm
