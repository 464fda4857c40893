"""Sessions: what belongs to them, and what serves the communicators that are made of them."""

from __future__ import annotations

from typing import Any

from xsim_py import simulate
from xsim_py.mpi import constants as c


def values(program: Any, *, ranks: int = 2, shards: int = 1) -> list[Any]:
    result = simulate(program, ranks=ranks, shards=shards)
    assert (result.ended, result.exit_status, result.warnings) == ("finished", 0, []), result.report
    return result.values  # type: ignore[no-any-return]


def buffered() -> list[Any]:
    from mpi4py import MPI

    session = MPI.Session.Init()
    comm = MPI.Intracomm.Create_from_group(session.Create_group("mpi://WORLD"))
    seen: list[Any] = []

    def send(where: MPI.Intracomm, size: int) -> None:
        try:
            where.Bsend(bytearray(size), comm.rank)
        except MPI.Exception as error:
            seen.append(error.Get_error_class())
        else:
            where.Recv(bytearray(size), comm.rank)
            seen.append(None)

    send(comm, 10)
    session.Attach_buffer(bytearray(100 + MPI.BSEND_OVERHEAD))
    send(comm, 100)
    send(comm, 101)
    send(MPI.COMM_WORLD, 10)
    session.Flush_buffer()
    session.Iflush_buffer().Wait()
    seen.append(len(session.Detach_buffer()) == 100 + MPI.BSEND_OVERHEAD)
    send(comm, 10)
    return seen


def test_a_buffer_of_a_session_serves_its_communicators_and_no_others() -> None:
    assert values(buffered) == [[c.ERR_BUFFER, None, c.ERR_BUFFER, c.ERR_BUFFER, True, c.ERR_BUFFER]] * 2


def handled() -> list[Any]:
    from mpi4py import MPI

    seen: list[Any] = []
    session = MPI.Session.Init(MPI.Info.Create({"thread_level": "MPI_THREAD_SINGLE"}))
    handler = MPI.Session.Create_errhandler(lambda which, code: seen.append((which == session, code == MPI.ERR_ARG)))
    session.Set_errhandler(handler)
    try:
        session.Create_group("mpi://nobody")
    except MPI.Exception as error:
        seen.append(error.Get_error_class())
    session.Call_errhandler(MPI.ERR_ARG)
    seen.append(session.Get_errhandler() == handler)
    seen.append(session.Get_info().Get("thread_level"))
    try:
        session.Set_errhandler(MPI.Comm.Create_errhandler(lambda *_: None))
    except MPI.Exception as error:
        seen.append(error.Get_error_class())
    session.Finalize()
    return seen


def test_an_error_handler_of_a_session_sees_its_errors() -> None:
    expected = [(True, True), c.ERR_ARG, (True, True), True, "MPI_THREAD_SINGLE", (True, False), c.ERR_ERRHANDLER]
    assert values(handled, ranks=1) == [expected]


def in_a_new_world() -> list[Any]:
    import sys

    from mpi4py import MPI

    code = (
        "from mpi4py import MPI; s = MPI.Session.Init(); g = s.Create_group('mpi://WORLD');"
        "comm = MPI.Intracomm.Create_from_group(g); parent = MPI.Comm.Get_parent();"
        "parent.gather((comm.size, comm.allreduce(comm.rank), g.rank), root=0); parent.Disconnect()"
    )
    inter = MPI.COMM_WORLD.Spawn(sys.executable, ["-c", code], 3)
    told = inter.gather(None, root=MPI.ROOT if MPI.COMM_WORLD.rank == 0 else MPI.PROC_NULL)
    inter.Disconnect()
    return told or []


def test_the_world_of_a_session_is_that_of_the_process() -> None:
    for shards in (1, 3):
        assert values(in_a_new_world, shards=shards) == [[(3, 3, 0), (3, 3, 1), (3, 3, 2)], []]


def from_an_empty_group() -> list[Any]:
    from mpi4py import MPI

    if MPI.COMM_WORLD.rank:
        return [MPI.Intracomm.Create_from_group(MPI.COMM_WORLD.group.Excl([0])).size]
    return [bool(MPI.Intracomm.Create_from_group(MPI.GROUP_EMPTY))]


def test_an_empty_group_gives_no_communicator() -> None:
    assert values(from_an_empty_group, ranks=3) == [[False], [2], [2]]
