"""Steps that are wrong, in ways whose error a real MPI tells by itself at once."""

import numpy as np

from tests.fuzz.interpreter import step

CALLS = ["Send", "Ssend", "Bsend", "Isend", "Recv", "Irecv", "Probe", "Iprobe", "Mprobe", "Send_init", "Recv_init",
         "Sendrecv", "send", "recv", "isend", "irecv"]  # fmt: skip


@step(comm=4, call=CALLS, what=["rank", "negative rank", "negative tag", "type", "uncommitted", "freed", "null",
                                "freed type", "truncated"])  # fmt: skip
def wrong_message(run, comm, call, what):
    """A message with one argument that cannot be."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    mpi = run.mpi
    rank, tag, datatype = comm.rank, 3, mpi.INT
    if what == "rank":
        rank = comm.size
    elif what == "negative rank":
        rank = -77
    elif what == "negative tag":
        tag = -88
    elif what == "type":
        datatype = mpi.DATATYPE_NULL
    elif what == "uncommitted":
        datatype = mpi.INT.Create_contiguous(1)
    elif what == "freed type":
        datatype = mpi.INT.Create_contiguous(1).Commit()
        datatype.Free()
    elif what == "null":
        comm = mpi.COMM_NULL
    elif what == "freed":
        comm = mpi.COMM_SELF.Dup()
        comm.Free()
    else:
        _truncated(run, comm)
        return
    if ("type" in what or what == "uncommitted") and ("robe" in call or call[0].islower()):
        return  # these take no type
    buffer = [np.zeros(1, "i4"), 1, datatype]
    if "robe" in call:
        arguments = [rank, tag]
    elif call == "Sendrecv":
        arguments = [buffer, rank, tag, [np.zeros(1, "i4"), 1, mpi.INT], comm.rank if comm else 0, 3]
    elif call in ("send", "isend"):
        arguments = [1, rank, tag]
    elif call in ("recv", "irecv"):
        arguments = [None, rank, tag]
    else:
        arguments = [buffer, rank, tag]
    run.attempt(getattr(comm, call), *arguments)
    run.note("on")


def _truncated(run, comm):
    """Two numbers into the room of one, to oneself."""
    data, place, status = np.arange(2, dtype="i4"), np.zeros(1, "i4"), run.mpi.Status()
    request = comm.Irecv(place, comm.rank, 4)
    comm.Send(data, comm.rank, 4)
    run.attempt(request.Wait, status)


COLLECTIVES = ["Bcast", "Gather", "Scatter", "Reduce", "Ibcast", "Igather", "Iscatter", "Ireduce", "Bcast_init",
               "bcast", "gather", "scatter", "reduce"]  # fmt: skip


@step(comm=4, call=COLLECTIVES, what=["root", "negative root", "freed", "null"])
def wrong_root(run, comm, call, what):
    """A root that is not there, or no communicator."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    root = {"root": comm.size, "negative root": -7}.get(what, 0)
    if what == "freed":
        comm = run.mpi.COMM_SELF.Dup()
        comm.Free()
    elif what == "null":
        comm = run.mpi.COMM_NULL
    data, place = np.zeros(1, "i4"), np.zeros(run.world.size, "i4")
    name = call.lower().removeprefix("i").removesuffix("_init")
    if call.islower():
        arguments = {"scatter": [None]}.get(name, [1])
    else:
        arguments = {"bcast": [data], "gather": [data, place], "scatter": [place, data], "reduce": [data, data.copy()]}[
            name
        ]
    if name == "reduce":
        arguments.append(run.mpi.SUM)
    run.attempt(getattr(comm, call), *arguments, root)
    run.note("on")


@step(comm=4, call=["Reduce", "Allreduce", "Scan", "Exscan", "Reduce_scatter_block", "Iallreduce", "Allreduce_init",
                    "Alltoall", "Allgather"],
      what=["null op", "freed op", "null type", "uncommitted", "replace", "no_op", "text"])  # fmt: skip
def wrong_reduction(run, comm, call, what):
    """An operation or a type that cannot be reduced with."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    mpi, op, datatype = run.mpi, run.mpi.SUM, run.mpi.INT
    data, place = np.zeros(comm.size, "i4"), np.zeros(comm.size, "i4")
    count = 1
    if what == "null op":
        op = mpi.OP_NULL
    elif what == "freed op":
        op = mpi.Op.Create(lambda a, b, t: None)
        op.Free()
    elif what == "null type":
        datatype = mpi.DATATYPE_NULL
    elif what == "uncommitted":
        datatype = mpi.INT.Create_contiguous(1)
    elif what == "text":
        datatype = mpi.CHAR.Create_contiguous(4).Commit()
    else:
        op = getattr(mpi, what.upper())
    if what in ("uncommitted", "null type") and call not in ("Alltoall", "Allgather"):
        return  # the operation does not fit either, and MPICH crashes over a reduction of nothing
    arguments = [
        [data, count, datatype],
        [place, count, datatype],
        *([op] if call[:2] != "Al" or "red" in call else []),
    ]
    run.attempt(getattr(comm, call), *arguments)
    run.note("on")


@step(what=["vector", "contiguous", "indexed", "struct", "subarray", "start", "resized null", "darray", "free",
            "commit null", "dup null", "contents", "order", "group rank", "op free", "keyval",
            "errhandler", "dims", "free world", "group excl", "request free", "start twice", "cart", "status count",
            "get attr", "create", "translate", "error string", "range"])  # fmt: skip
def wrong_object(run, what):
    """A mistake of one rank with an object of its own."""
    run.attempt(_MISTAKES[what], run.mpi, run.world)
    run.note("on")


def _freed_twice(mpi, world):
    request = mpi.COMM_SELF.Recv_init(np.zeros(1), 0, 0)
    request.Free()
    request.Start()


def _started_twice(mpi, world):
    request = mpi.COMM_SELF.Recv_init(np.zeros(1), mpi.PROC_NULL, 0)
    request.Wait()
    request.Start()
    request.Wait()
    request.Free()


def _attribute(mpi, world):
    keyval = mpi.Comm.Create_keyval()
    mpi.Comm.Free_keyval(keyval)
    mpi.COMM_SELF.Set_attr(mpi.KEYVAL_INVALID, 1)


_MISTAKES = {
    "vector": lambda mpi, world: mpi.INT.Create_vector(-1, 1, 1),
    "contiguous": lambda mpi, world: mpi.INT.Create_contiguous(-1),
    "indexed": lambda mpi, world: mpi.INT.Create_indexed([1, -1], [0, 4]),
    "struct": lambda mpi, world: mpi.Datatype.Create_struct([1], [0], [mpi.DATATYPE_NULL]),
    "subarray": lambda mpi, world: mpi.INT.Create_subarray([4], [5], [0]),
    "start": lambda mpi, world: mpi.INT.Create_subarray([4], [2], [3]),
    "resized null": lambda mpi, world: mpi.DATATYPE_NULL.Create_resized(0, 4),
    "darray": lambda mpi, world: mpi.INT.Create_darray(2, 2, [4], [mpi.DISTRIBUTE_BLOCK], [2], [2]),
    "free": lambda mpi, world: mpi.INT.Free(),
    "commit null": lambda mpi, world: mpi.DATATYPE_NULL.Commit(),
    "dup null": lambda mpi, world: mpi.DATATYPE_NULL.Dup(),
    "contents": lambda mpi, world: mpi.INT.Get_contents(),
    "order": lambda mpi, world: mpi.INT.Create_subarray([4], [2], [0], 12345),
    "group rank": lambda mpi, world: world.group.Incl([world.size]),
    "group excl": lambda mpi, world: world.group.Excl([-1]),
    "range": lambda mpi, world: world.group.Range_incl([(0, world.size, 1)]),
    "op free": lambda mpi, world: mpi.SUM.Free(),
    "keyval": _attribute,
    "errhandler": lambda mpi, world: mpi.COMM_SELF.Set_errhandler(mpi.ERRHANDLER_NULL),
    "dims": lambda mpi, world: mpi.Compute_dims(5, [2, 0]),
    "free world": lambda mpi, world: mpi.COMM_WORLD.Free(),
    "request free": _freed_twice,
    "start twice": _started_twice,
    "cart": lambda mpi, world: mpi.COMM_SELF.Create_cart([2]),
    "status count": lambda mpi, world: mpi.Status().Get_count(mpi.DATATYPE_NULL),
    "get attr": lambda mpi, world: mpi.COMM_SELF.Get_attr(mpi.KEYVAL_INVALID),
    "create": lambda mpi, world: mpi.COMM_SELF.Create(mpi.GROUP_NULL),
    "translate": lambda mpi, world: world.group.Translate_ranks([world.size], mpi.GROUP_EMPTY),
    "error string": lambda mpi, world: mpi.Get_error_string(-1),
}
