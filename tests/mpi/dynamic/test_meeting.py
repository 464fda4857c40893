"""Ports, published names, sockets: how processes meet that have not started each other."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from xsim_py import simulate

US = 10**6
SHARDS = pytest.mark.parametrize("shards", [1, 2, 3, 7])


def values(program: Callable[..., Any], *args: Any, ranks: int, **options: Any) -> list[Any]:
    result = simulate(program, ranks=ranks, args=args, **options)
    assert (result.ended, result.exit_status, result.warnings) == ("finished", 0, []), result.report
    return result.values  # type: ignore[no-any-return]


def meet(late_us: int) -> list[Any]:
    """The even ranks accept alone, the odd ones connect to their left neighbours."""
    import time

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.rank % 2 == 0:
        port = MPI.Open_port()
        comm.send(port, comm.rank + 1)
        time.sleep(late_us * 1e-6)
        inter = MPI.COMM_SELF.Accept(port)
    else:
        port = comm.recv(source=comm.rank - 1)
        inter = MPI.COMM_SELF.Connect(port)
    met = MPI.Wtime()
    other = inter.sendrecv(comm.rank, 0, source=0)
    inter.Disconnect()
    return [other, round(met * 10**12), port]


@SHARDS
def test_a_connection_takes_a_notice_there_and_back_from_the_later_call(shards: int) -> None:
    """GigE: a notice takes 20 us."""
    seen = values(meet, 5000, ranks=6, shards=shards)
    assert [other for other, _, _ in seen] == [1, 0, 3, 2, 5, 4]
    assert {met for _, met, _ in seen} == {5040 * US}
    assert len({port for _, _, port in seen}) == 3


def meet_the_living() -> list[int]:
    """Rank 0 dies while it accepts, then rank 1 accepts at the same port, and rank 2 connects to it."""
    import time

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    port = comm.bcast(MPI.Open_port() if comm.rank == 0 else None)
    time.sleep(comm.rank)
    inter = MPI.COMM_SELF.Connect(port) if comm.rank == 2 else MPI.COMM_SELF.Accept(port)
    return inter.Get_remote_group().Translate_ranks([0], comm.Get_group())


@SHARDS
def test_the_dead_accept_nobody(shards: int) -> None:
    result = simulate(meet_the_living, ranks=3, shards=shards, fail=["rank=0@0.5s"], ft=True)
    assert result.ended == "finished", result.report
    assert list(result.values) == [None, [2], [1]]


def unmet(port: str) -> None:
    from mpi4py import MPI

    MPI.COMM_WORLD.Accept(MPI.Open_port() + port)


def test_who_is_never_met_is_in_the_deadlock_report() -> None:
    result = simulate(unmet, ranks=2, args=[":9"])
    assert result.ended == "stalled"
    assert "Intracomm.Accept: a Connect at xsim-port:0:0:9" in result.report


def names() -> list[Any]:
    from mpi4py import MPI

    seen: list[Any] = []

    def attempt(call: Callable[..., Any], *args: str) -> None:
        try:
            seen.append(call(*args))
        except MPI.Exception as error:
            seen.append(error.Get_error_class())

    comm = MPI.COMM_WORLD
    if comm.rank == 0:
        attempt(MPI.Publish_name, "service", "port")
        attempt(MPI.Publish_name, "service", "port")
        seen.append(round(MPI.Wtime() * 10**12))
    comm.Barrier()
    attempt(MPI.Lookup_name, "service")
    comm.Barrier()
    if comm.rank == 0:
        attempt(MPI.Unpublish_name, "service", "port")
        attempt(MPI.Unpublish_name, "service", "port")
    comm.Barrier()
    attempt(MPI.Lookup_name, "service")
    return seen


@SHARDS
def test_names_are_known_to_all_and_cost_a_question_each(shards: int) -> None:
    from xsim_py.mpi import constants as c

    first, other = values(names, ranks=2, shards=shards)
    assert first == [None, c.ERR_NAME, 80 * US, "port", None, c.ERR_SERVICE, c.ERR_NAME]
    assert other == ["port", c.ERR_NAME]


def wrong_ports() -> list[int]:
    from mpi4py import MPI

    seen = []
    for call in (MPI.Close_port, MPI.COMM_SELF.Connect, MPI.COMM_SELF.Accept):
        try:
            call("nonsense")
        except MPI.Exception as error:
            seen.append(error.Get_error_class())
    MPI.Close_port(MPI.Open_port())
    return seen


def test_what_is_no_port_is_refused() -> None:
    from xsim_py.mpi import constants as c

    assert values(wrong_ports, ranks=1) == [[c.ERR_PORT] * 3]


def over_a_socket(late_us: int) -> list[Any]:
    import time

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.rank == 0:
        with socket.create_server(("127.0.0.1", 0)) as server:
            comm.send(server.getsockname(), 1)
            link = server.accept()[0]
    else:
        link = socket.create_connection(comm.recv(source=0))
    with link:
        start = MPI.Wtime()
        if comm.rank == 0:
            time.sleep(late_us * 1e-6)
        inter = MPI.Comm.Join(link.fileno())
        met = MPI.Wtime() - start
        other = inter.sendrecv(comm.rank, 0, source=0)
        inter.Disconnect()
        again = MPI.Comm.Join(link.fileno())
        link.sendall(b"x" * (1 << 22) if comm.rank else b"short")
        wanted = 5 if comm.rank else 1 << 22
        got = 0
        while got < wanted:
            got += len(link.recv(1 << 16))
        return [other, again.remote_size, met >= late_us * 1e-6, got]


@SHARDS
def test_two_ranks_with_a_socket_join_and_neither_stops_the_other(shards: int) -> None:
    seen = values(over_a_socket, 700, ranks=2, shards=shards)
    assert seen == [[1, 1, True, 1 << 22], [0, 1, True, 5]]


def with_nobody() -> list[Any]:
    from mpi4py import MPI

    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"this is not how a process of a run begins")
        nobody = MPI.Comm.Join(ours.fileno())
    try:
        MPI.Comm.Join(ours.fileno())
    except MPI.Exception as error:
        return [nobody == MPI.COMM_NULL, error.Get_error_class()]
    return []


def test_what_is_no_process_of_the_run_is_not_joined() -> None:
    from xsim_py.mpi import constants as c

    assert values(with_nobody, ranks=1) == [[True, c.ERR_ARG]]


def lonely() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.accept()


def test_a_socket_on_which_nothing_comes_stalls_with_a_deadlock_report() -> None:
    result = simulate(lonely, ranks=1)
    assert result.ended == "stalled"
    assert "socket.accept: another rank to do its part" in result.report
