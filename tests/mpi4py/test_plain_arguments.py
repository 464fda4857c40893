"""Every kind of integer is taken where mpi4py takes it, and what MPI keeps of it and sends on is a plain one."""

import enum
import inspect
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xsim_py import simulate
from xsim_py.mpi4py import MPI, plain_arguments

KINDS = ("enum", "flag", "bool", "int8", "int64", "uint8", "bool_", "array", "float", "float64", "Fraction", "__int__")


def maker(kind: str) -> Any:
    """Makes integers of a kind, of classes that are only known here."""

    class Enum(enum.IntEnum):
        NONE = 0
        ONE = 1

    class Flag(enum.IntFlag):
        NONE = 0
        ONE = 1

    class Convertible:
        def __init__(self, value: int) -> None:
            self.value = value

        def __int__(self) -> int:
            return self.value

    known = {"enum": Enum, "flag": Flag, "bool": bool, "array": np.array, "float": float, "Fraction": Fraction}
    return known.get(kind) or (Convertible if kind == "__int__" else getattr(np, kind))


def one_way(none: Any, one: Any) -> list[Any]:
    """Messages from rank 0 to rank 1."""
    comm, status, got = MPI.COMM_WORLD, MPI.Status(), bytearray(1)
    seen: list[Any] = []
    for send in (comm.Send, comm.Bsend, comm.Ssend, comm.Isend, comm.Issend, comm.Ibsend, comm.Irsend):
        if comm.rank == 0:
            if "b" in send.__name__.lower()[:2]:
                comm.Attach_buffer(bytearray(1000))
            sent = send(b"1", one, one)
            if sent is not None:
                sent.Wait()
            if "b" in send.__name__.lower()[:2]:
                comm.Detach_buffer()
        elif comm.rank == 1:
            comm.Recv(got, none, one, status)
            seen += [status.tag, status.source]
    for send in (comm.send, comm.ssend, comm.isend, comm.issend):
        if comm.rank == 0:
            sent = send(1, dest=one, tag=one)
            if sent is not None:
                sent.wait()
        elif comm.rank == 1:
            comm.Probe(none, one, status)
            while not comm.Iprobe(none, one, status):
                pass
            seen += [status.tag, comm.recv(source=none, tag=one, status=status), status.source]
    if comm.rank == 0:
        comm.send(0, one, one)
        comm.send(0, one, one)
    elif comm.rank == 1:
        comm.mprobe(none, one).recv()
        comm.irecv(source=none, tag=one).wait(status)
        seen += [status.tag, status.source]
    return seen


def both_ways(none: Any, one: Any) -> list[Any]:
    """Messages in a ring, and persistent ones."""
    comm, status, got = MPI.COMM_WORLD, MPI.Status(), bytearray(1)
    seen: list[Any] = []
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.Sendrecv(b"1", right, one, got, left, one, status)
    comm.sendrecv(1, right, one, None, left, one, status)
    comm.Sendrecv_replace(got, right, one, left, one)
    comm.Isendrecv(b"1", right, one, got, left, one).Wait()
    seen += [status.tag]
    if comm.rank < 2:
        request = comm.Recv_init(got, none, one) if comm.rank else comm.Send_init(b"1", one, one)
        request.Start()
        request.Wait(status)
        request = comm.Precv_init(got, one, none, one) if comm.rank else comm.Psend_init(b"1", one, one, one)
        request.Start()
        if not comm.rank:
            request.Pready(none)
        request.Wait()
    return seen


def with_roots(none: Any, one: Any) -> list[Any]:
    """Collectives, where other members give the root as a plain integer."""
    comm, got, seen = MPI.COMM_WORLD, bytearray(1), []
    for root in (none, one, 1):
        comm.Bcast(got, root)
        comm.Ibcast(got, root).Wait()
        comm.bcast(1, root)
        comm.gather(1, root)
        comm.scatter([1] * comm.size, root)
        comm.reduce(1, root=root)
        comm.Gather(b"1", bytearray(comm.size), root)
        comm.Scatter(bytearray(comm.size), got, root)
        comm.Reduce(np.ones(1), np.ones(1), root=root)
        comm.Bcast_init(got, root).Free()
    return seen


def of_objects(none: Any, one: Any) -> list[Any]:
    """Communicators, groups, windows and types."""
    comm, status, got = MPI.COMM_WORLD, MPI.Status(), bytearray(1)
    seen: list[Any] = []
    for part in (comm.Split(one, none), comm.Split_type(MPI.COMM_TYPE_SHARED, one)):
        part.Barrier()
    if comm.rank < 2:
        comm.Create_group(comm.group.Incl([0, 1]), one).Barrier()
        pair = MPI.COMM_SELF.Create_intercomm(none, comm, 1 if comm.rank == 0 else none, one)
        pair.Barrier()
        pair.Merge(bool(one)).Barrier()
    grid = comm.Create_cart([comm.size], [True])
    seen += [*grid.Shift(none, one), grid.Get_coords(one)[0]]
    window = MPI.Win.Allocate(one, one, comm=comm)
    window.Fence(none)
    window.Put(b"1", one)
    window.Fence()
    window.Lock(one, MPI.LOCK_SHARED)
    window.Get(got, one)
    window.Unlock(one)
    window.Free()
    vector = MPI.INT.Create_vector(one, one, one)
    seen += [vector.Get_size(), MPI.Get_error_class(one), comm.Agree(1), comm.Ishrink()[1].Wait()]
    key = MPI.Comm.Create_keyval()
    comm.Set_attr(key, 5)
    status.Set_source(one)
    status.Set_tag(one)
    seen += [comm.Get_attr(key), status.Get_tag()]
    return seen


def use_everywhere(kind: str) -> list[str]:
    """Give integers of a kind, 0 and 1, to all that takes integers; what comes back and is no plain integer."""
    none, one = map(maker(kind), (0, 1))
    seen = [each for part in (one_way, both_ways, with_roots, of_objects) for each in part(none, one)]
    return [type(each).__name__ for each in seen if type(each) not in (int, bool)]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_integer_is_taken(kind: str, shards: int) -> None:
    result = simulate(use_everywhere, ranks=3, args=[kind], shards=shards, ft=True, wall_limit=20)
    assert result.report == ""
    assert result.values == [[]] * 3


def name_things(program: str) -> str:
    """Give texts of a class of the program's own to all whose texts go to other ranks."""

    class Text(str):
        __slots__ = ()

    comm = MPI.COMM_WORLD
    if comm.rank == 1:
        port = MPI.Open_port()
        MPI.Publish_name(Text("service"), Text(port))
        comm.Barrier()
        MPI.COMM_SELF.Accept(Text(port)).Disconnect()
    else:
        comm.Barrier()
        if comm.rank == 0:
            MPI.COMM_SELF.Connect(Text(MPI.Lookup_name(Text("service")))).Disconnect()
    info = MPI.Info.Create({Text("wdir"): Text("/")})
    comm.Dup(info).Barrier()
    comm.Spawn(Text(program), [Text("1")], True, info).Disconnect()
    return type(comm.Dup(info).info["wdir"]).__name__


@pytest.mark.parametrize("shards", [1, 3])
def test_a_text_of_the_program_s_own_class_is_taken(tmp_path: Path, shards: int) -> None:
    program = tmp_path / "child.py"
    program.write_text("from mpi4py import MPI\nMPI.Comm.Get_parent().Disconnect()\n", encoding="utf-8")
    result = simulate(name_things, ranks=3, args=[str(program)], shards=shards, wall_limit=20)
    assert (result.report, result.values) == ("", ["str"] * 3)


@pytest.mark.parametrize("value", ["1", None, [1], object()])
def test_what_is_no_integer_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        plain_arguments.integer(value)


def test_an_object_that_is_only_an_index_is_refused_as_by_mpi4py() -> None:
    class Index:
        def __index__(self) -> int:
            return 1

    with pytest.raises(TypeError, match="an integer is required"):
        plain_arguments.integer(Index())


def test_an_integer_that_c_does_not_have_is_refused() -> None:
    with pytest.raises(OverflowError):
        MPI.Get_error_string(2**64)


def test_every_parameter_that_is_an_integer_is_taken_as_one() -> None:
    by_themselves = ("p2p", "probes", "collective_calls", "errors")
    for cls in (MPI.Comm, MPI.Intracomm, MPI.Cartcomm, MPI.Win, MPI.File, MPI.Datatype, MPI.Prequest, MPI.Status):
        for name, method in inspect.getmembers(cls, inspect.isroutine):
            parameters = getattr(inspect.unwrap(method), "__annotations__", {})
            if not name.startswith("_") and "int" in [kind for key, kind in parameters.items() if key != "return"]:
                assert hasattr(method, "__wrapped__") or method.__module__.rpartition(".")[2] in by_themselves, name
