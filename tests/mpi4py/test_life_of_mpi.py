"""What objects of MPI are before and after their lives, as MPICH under mpi4py has it."""

import numpy as np
import pytest

from tests.mpi4py.ranks import values_of
from xsim_py import simulate
from xsim_py.mpi.constants import THREAD_FUNNELED, THREAD_MULTIPLE, THREAD_SERIALIZED, THREAD_SINGLE


def test_detach_gives_back_the_object_that_was_attached():
    def program():
        from mpi4py import MPI

        same = []
        for owner in (MPI, MPI.COMM_WORLD):
            for given in (bytearray(2000), np.zeros(2000, "B"), MPI.BUFFER_AUTOMATIC):
                owner.Attach_buffer(given)
                same.append(owner.Detach_buffer() is given)
        return same

    assert values_of(program, ranks=1) == [[True] * 6]


def test_what_has_no_bytes_can_not_be_attached():
    def program():
        from mpi4py import MPI

        classes = []
        for owner in (MPI, MPI.COMM_WORLD, MPI.Session.Init()):
            for given in (bytearray(), MPI.BOTTOM):
                with pytest.raises(MPI.Exception) as refused:
                    owner.Attach_buffer(given)
                classes.append(refused.value.Get_error_class())
        return classes == [MPI.ERR_BUFFER, MPI.ERR_ARG] * 3

    assert values_of(program, ranks=1) == [True]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", ["Waitall", "Testall", "Waitsome", "Testsome", "waitall", "waitsome"])
def test_a_request_of_a_list_that_fails_is_named_by_its_status(name, count):
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_SELF
        sent, room = np.zeros(9, "B"), [np.zeros(2 if place == 0 else 9, "B") for place in range(count)]
        sends = [comm.Isend(sent, 0, tag) for tag in range(count)]
        receives = [comm.Irecv(room[tag], 0, tag) for tag in range(count)]
        for send in sends:
            send.Wait()
        statuses = [MPI.Status() for _ in receives]
        try:
            while not getattr(MPI.Request, name)(receives, statuses):
                pass
        except MPI.Exception as error:
            return error.Get_error_class() == MPI.ERR_IN_STATUS, [
                MPI.Get_error_class(status.Get_error()) == (MPI.SUCCESS if place else MPI.ERR_TRUNCATE)
                for place, status in enumerate(statuses)
            ]

    assert values_of(program, ranks=1) == [(True, [True] * count)]


def test_lists_of_requests_hold_requests_only():
    def program():
        from mpi4py import MPI

        refused = []
        for name in ("Waitall", "Testall", "Waitany", "Testany", "Waitsome", "Testsome", "Get_status_all"):
            with pytest.raises(TypeError) as caught:
                getattr(MPI.Request, name)([MPI.Request(), None])
            refused.append(str(caught.value))
        request = MPI.COMM_SELF.Irecv(bytearray(1), 0)
        for family in (MPI.Prequest, MPI.Grequest):
            with pytest.raises(TypeError) as caught:
                family(request)
            refused.append(str(caught.value))
        request.Cancel()
        request.Wait()
        with pytest.raises(MPI.Exception) as failed:
            MPI.Prequest.Startall([MPI.Request()])
        return {*refused}, failed.value.Get_error_class() == MPI.ERR_REQUEST, MPI.Prequest(MPI.Request()) is not None

    (found,) = values_of(program, ranks=1)
    expected = {f"Cannot convert mpi4py.MPI.Request to mpi4py.MPI.{family}" for family in ("Prequest", "Grequest")}
    assert found == ({"Cannot convert NoneType to mpi4py.MPI.Request", *expected}, True, True)


def test_a_delete_callback_that_raises_does_not_stop_free(capfd):
    def program():
        from mpi4py import MPI

        def fail(*_):
            raise ValueError("a broken callback")

        called = []
        gone = []
        for comm in (MPI.COMM_WORLD.Dup(), MPI.INT.Dup()):
            kind = type(comm) if isinstance(comm, MPI.Datatype) else MPI.Comm
            comm.Set_attr(kind.Create_keyval(delete_fn=lambda *_: called.append("first")), 1)
            comm.Set_attr(kind.Create_keyval(delete_fn=fail), 2)
            comm.Free()
            gone.append(not comm)
        comm = MPI.COMM_WORLD.Dup()
        comm.Set_attr(MPI.Comm.Create_keyval(copy_fn=fail), 3)
        with pytest.raises(MPI.Exception) as failed:
            comm.Dup()
        return gone, called, failed.value.Get_error_class() == MPI.ERR_OTHER

    assert values_of(program, ranks=1) == [([True, True], ["first", "first"], True)]
    assert capfd.readouterr().err.count("\nValueError: a broken callback") == 3


def test_a_freed_communicator_is_gone_under_every_name():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD.Dup()
        other = MPI.Intracomm(comm)
        comm.Free()
        classes = []
        for call in (other.Get_size, other.Get_rank, other.Get_name, other.Barrier, other.Dup, other.Free):
            with pytest.raises(MPI.Exception) as failed:
                call()
            classes.append(failed.value.Get_error_class() == MPI.ERR_COMM)
        return classes

    assert values_of(program, ranks=2) == [[True] * 6] * 2


def test_null_handles_have_the_names_of_the_standard():
    def program():
        from mpi4py import MPI

        handles = (MPI.COMM_NULL, MPI.Intercomm(), MPI.DATATYPE_NULL)
        return [handle.name for handle in handles], [handle.Get_name() for handle in handles]

    names = ["MPI_COMM_NULL", "MPI_COMM_NULL", "MPI_DATATYPE_NULL"]
    assert values_of(program, ranks=1) == [(names, names)]


def test_an_empty_grid_has_no_members():
    def program():
        from mpi4py import MPI

        return [MPI.COMM_WORLD.Create_cart(dims) == MPI.COMM_NULL for dims in ([0], [2, 0])]

    assert values_of(program, ranks=2) == [[True, True]] * 2


def test_a_send_buffer_that_is_the_receive_buffer_is_refused():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        x = np.zeros(4 * comm.size)
        mine = x[4 * comm.rank : 4 * comm.rank + 4]
        pairs = [("Allreduce", x, x), ("Allreduce", x, x[:]), ("Allreduce", x[:4], x[:4]), ("Scan", x, x)]
        pairs += [("Exscan", x, x), ("Alltoall", x, x), ("Allgather", mine, x), ("Iallreduce", x, x)]
        if comm.rank == 0:
            pairs += [("Gather", mine, x), ("Scatter", x, mine), ("Reduce", x, x)]
        fine = [("Allreduce", x[:2], x[2:4]), ("Allreduce", x[:0], x[:0]), ("Allreduce", MPI.IN_PLACE, x)]
        fine += [("Allgather", MPI.IN_PLACE, x), ("Alltoall", MPI.IN_PLACE, x)]
        classes = []
        for name, sent, received in pairs + fine:
            classes.append(None)
            try:
                getattr(comm, name)(sent, received)
            except MPI.Exception as error:
                classes[-1] = error.Get_error_class()
        expected = [MPI.ERR_BUFFER] * len(pairs) + [None] * len(fine)
        return [pair for pair, got, wanted in zip(pairs + fine, classes, expected, strict=True) if got != wanted]

    assert values_of(program, ranks=2) == [[], []]


def test_a_program_may_initialise_mpi_itself():
    def program(required):
        import mpi4py

        mpi4py.rc.initialize = False
        from mpi4py import MPI

        before = MPI.Is_initialized()
        given = MPI.Init() if required is None else MPI.Init_thread(required)
        after = MPI.Is_initialized(), MPI.COMM_WORLD.allreduce(1), MPI.Query_thread(), MPI.Is_finalized()
        with pytest.raises(MPI.Exception):
            MPI.Init()
        MPI.Finalize()
        return before, given, *after, MPI.Is_initialized(), MPI.Is_finalized()

    for required, given, level in (
        (None, None, THREAD_SINGLE),
        (THREAD_SINGLE, THREAD_SINGLE, THREAD_SINGLE),
        (THREAD_FUNNELED, THREAD_FUNNELED, THREAD_FUNNELED),
        (THREAD_MULTIPLE, THREAD_MULTIPLE, THREAD_MULTIPLE),
    ):
        assert values_of(program, required, ranks=2) == [(False, given, True, 2, level, False, True, True)] * 2


USES = (
    *(
        "comm.rank",
        "comm.Barrier()",
        "half.Get_size()",
        "MPI.COMM_SELF.Dup()",
        "MPI.INT.Get_size()",
        "MPI.SUM.Is_commutative()",
    ),
    *("request.Test()", "group.size", "window.Fence()", "MPI.Win.Allocate(8, comm=comm)", "MPI.File.Open(comm, 'x')"),
)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("when", ["before MPI_Init", "after MPI_Finalize"])
def test_who_uses_mpi_where_it_is_not_there_ends_the_job(use, when):
    def program():
        import mpi4py

        mpi4py.rc.initialize = when.startswith("after")
        from mpi4py import MPI

        comm = half = MPI.COMM_WORLD
        if MPI.Is_initialized():
            half = comm.Split(comm.rank)
            request, group, window = comm.Ibarrier(), comm.Get_group(), MPI.Win.Allocate(8, comm=comm)
            MPI.Finalize()
        else:
            request, group, window = MPI.REQUEST_NULL, MPI.GROUP_EMPTY, MPI.WIN_NULL
        assert MPI.Get_version()
        assert MPI.Info.Create({"a": "b"}).Get("a") == "b"
        assert comm == MPI.COMM_WORLD
        assert MPI.Get_error_string(MPI.ERR_RANK)
        assert not MPI.COMM_NULL
        try:
            eval(use, {"MPI": MPI}, locals())
        except MPI.Exception:
            return "not to be caught"

    result = simulate(program, ranks=2)
    assert (result.ended, result.exit_status, result.values) == ("aborted", 1, [None, None])
    assert result.report.startswith("rank 0 ended the job at ")
    assert f"MPI is used {when}" in result.report


def test_sessions_are_there_at_any_time():
    def program(initialize):
        import mpi4py

        mpi4py.rc.initialize = initialize
        from mpi4py import MPI

        if initialize:
            MPI.Finalize()
        group = MPI.Session.Init().Create_group("mpi://WORLD")
        return MPI.Intracomm.Create_from_group(group).allreduce(1)

    assert values_of(program, True, ranks=2) == values_of(program, False, ranks=2) == [2, 2]


PROGRAM = """
import argparse, pickle, helper
from mpi4py import MPI

class Point:
    def __init__(self, x):
        self.x = x

parser = argparse.ArgumentParser()
parser.add_argument("--x", type=int)
begun = MPI.Is_initialized()
begun or MPI.Init()
point = MPI.COMM_WORLD.bcast(Point(parser.parse_args().x) if MPI.COMM_WORLD.rank == 0 else None)
mine = MPI.COMM_WORLD.rank
MPI.COMM_WORLD.Barrier()
assert isinstance(pickle.loads(pickle.dumps(point)), Point) and mine == MPI.COMM_WORLD.rank
print(__name__, helper.NAME, point.x, begun)
"""


@pytest.mark.parametrize("options", [[], ["-rc", "initialize=False"]], ids=["plain", "rc"])
@pytest.mark.parametrize("how", [["prog.py"], ["-m", "prog"], ["-c", PROGRAM]], ids=["script", "module", "code"])
def test_mpi4py_run_runs_a_program_as_main(how, options, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "helper.py").write_text("NAME = 'a helper'", encoding="utf-8")
    result = simulate("xsim_py.mpi4py", kind="module", ranks=2, args=[*options, *how, "--x", "7"])
    assert result.exit_status == 0, result.report
    assert capfd.readouterr().out == f"__main__ a helper 7 {not options}\n" * 2


def test_mpi4py_run_ends_the_job_when_a_rank_fails(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    code = "from mpi4py import MPI; MPI.COMM_WORLD.rank or 1 / 0; MPI.COMM_WORLD.recv()"
    result = simulate("xsim_py.mpi4py.run", kind="module", ranks=2, args=["-c", code])
    assert result.exit_status == 1
    assert "ZeroDivisionError" in capfd.readouterr().err


@pytest.mark.parametrize("args", [["-x"], [], ["-c"], ["-rc", "nothing", "a.py"]], ids=str)
def test_mpi4py_run_refuses_what_it_cannot_read(args, capfd):
    assert simulate("xsim_py.mpi4py", kind="module", ranks=1, args=args).exit_status == 1
    assert "usage: python -m mpi4py" in capfd.readouterr().err


def test_threads_are_what_rc_asks_for():
    def program(options):
        import threading

        import mpi4py

        mpi4py.rc(**options)
        from mpi4py import MPI

        seen = [(MPI.Query_thread(), MPI.Is_thread_main())]
        thread = threading.Thread(target=lambda: seen.append((MPI.Query_thread(), MPI.Is_thread_main())))
        thread.start()
        thread.join()
        return seen

    for options, level in (
        ({}, THREAD_MULTIPLE),
        ({"threads": False}, THREAD_SINGLE),
        ({"thread_level": "single"}, THREAD_SINGLE),
        ({"thread_level": "funneled"}, THREAD_FUNNELED),
        ({"thread_level": "serialized"}, THREAD_SERIALIZED),
        ({"thread_level": "multiple"}, THREAD_MULTIPLE),
    ):
        assert values_of(program, options, ranks=2) == [[(level, True), (level, False)]] * 2
    with pytest.warns(RuntimeWarning, match="unexpected value 'some'"):
        assert values_of(program, {"thread_level": "some"}, ranks=1) == [
            [(THREAD_MULTIPLE, True), (THREAD_MULTIPLE, False)]
        ]


def test_the_main_thread_is_the_one_that_initialises_mpi():
    def program():
        import threading

        import mpi4py

        mpi4py.rc.initialize = False
        from mpi4py import MPI

        seen = []

        def begin():
            seen.append(MPI.Init_thread(THREAD_SERIALIZED))
            seen.append(MPI.Is_thread_main())

        thread = threading.Thread(target=begin)
        thread.start()
        thread.join()
        seen += [MPI.Query_thread(), MPI.Is_thread_main()]
        MPI.Finalize()
        return seen

    assert values_of(program, ranks=2) == [[THREAD_SERIALIZED, True, THREAD_SERIALIZED, False]] * 2


def test_the_library_says_what_it_is_or_what_the_machine_has_it_say():
    def program():
        from mpi4py import MPI

        return MPI.Get_library_version(), MPI.get_vendor()[0]

    assert simulate(program, ranks=1).values[0][0].startswith("xsim_py ")
    said = simulate(program, ranks=1, set={"mpi.library_version": "MPICH (simulated)"})
    assert said.values == [("MPICH (simulated)", "xsim_py")]
