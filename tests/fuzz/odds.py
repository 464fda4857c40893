"""Steps that belong nowhere else: forms of arguments, what one rank asks of its own objects, and what is rare."""

import array

import numpy as np

from tests.fuzz.collective import REDUCIBLE, operands, operation, perform, values
from tests.fuzz.interpreter import step
from tests.fuzz.messages import thing
from tests.fuzz.types import PLAIN, build, elements, noise, short, span
from tests.fuzz.windows import EPOCHS, FORMATS, access_epoch, own_window, together

BUFFERS = ["f8", "i2", "c16", "?", "bytearray", "array", "memoryview", "fortran", "0-d", "empty", "strided", "S3",
           "M8[s]", "big endian", "record", "U2"]  # fmt: skip
FORMS = ["plain", "[b]", "[b, n]", "[b, (n, d)]", "[b, t]", "(b, n, t)", "[b, n, d, t]", "[b, 'i']", "[b, None, t]",
         "[b, -1]", "[b, n, None, t]", "[]", "[b, big, t]", "[b, (n, d), 'B']", "[b, 1, 2, t, 3]",
         "[b, 'no']"]  # fmt: skip


def _buffer(run, kind, rank):
    data = noise(96, rank, run.number)
    if kind in ("bytearray", "memoryview"):
        return {"bytearray": bytearray, "memoryview": memoryview}[kind](data.tobytes() if kind[0] == "b" else data)
    if kind == "array":
        return array.array("i", data.view("i4").tolist())
    if kind == "fortran":
        return np.asfortranarray(data.view("i4").reshape(4, 6))
    if kind == "0-d":
        return np.array(rank)
    if kind == "empty":
        return np.empty(0, "i4")
    if kind == "strided":
        return data.view("i4")[::2]
    if kind == "big endian":
        return data.view(">i4")
    if kind == "record":
        return data.view([("a", "i4"), ("b", "i4")])
    return (data % 2 if kind == "?" else data).view(kind)


def _specification(run, buffer, form):
    mpi = run.mpi
    return {
        "plain": buffer,
        "[b]": [buffer],
        "[b, n]": [buffer, 1],
        "[b, (n, d)]": [buffer, (1, 1)],
        "[b, t]": [buffer, mpi.SHORT],
        "(b, n, t)": (buffer, 2, mpi.BYTE),
        "[b, n, d, t]": [buffer, 1, 1, mpi.INT],
        "[b, 'i']": [buffer, "i"],
        "[b, None, t]": [buffer, None, mpi.SHORT],
        "[b, n, None, t]": [buffer, 1, None, mpi.SHORT],
        "[b, -1]": [buffer, -1],
        "[]": [],
        "[b, big, t]": [buffer, 1, 3, mpi.DOUBLE],
        "[b, (n, d), 'B']": [buffer, (3, 2), "B"],
        "[b, 1, 2, t, 3]": [buffer, 1, 2, mpi.INT, 3],
        "[b, 'no']": [buffer, "no"],
    }[form]


@step(kind=BUFFERS, form=FORMS, receive=2)
def specification(run, kind, form, receive):
    """A buffer in any form that programs write, in a message to oneself."""
    if kind in ("0-d", "empty", "strided") and form not in ("plain", "[b]", "[b, -1]", "[]"):
        return  # there is not that much in them
    comm, buffer = run.mpi.COMM_SELF, _buffer(run, kind, run.rank)
    given, plain = _specification(run, buffer, form), np.zeros(200, "u1")
    if receive:  # 16 bytes: MPICH aborts when only a part of an element arrives
        plain[:] = 7
        request = run.attempt(comm.Irecv, given, 0, 1)
        if request is None:
            return
        status = run.mpi.Status()
        size = np.asarray(buffer).nbytes
        comm.Send([plain, min(size, 16), run.mpi.BYTE], 0, 1)
        if run.attempt(request.Wait, status):
            run.note(status.count, short(np.asarray(buffer).tobytes()))
        return
    request = run.attempt(comm.Isend, given, 0, 1)
    if request is not None:
        status = run.mpi.Status()
        comm.Recv(plain, 0, 1, status)
        request.Wait()
        run.note(status.count, short(plain.tobytes()))


OPS = [
    "SUM",
    "PROD",
    "MIN",
    "MAX",
    "LAND",
    "LOR",
    "LXOR",
    "BAND",
    "BOR",
    "BXOR",
    "MINLOC",
    "MAXLOC",
    "REPLACE",
    "NO_OP",
]


@step(op=OPS, base=REDUCIBLE, count=[0, 1, 5])
def local_reduction(run, op, base, count):
    """An operation without any message."""
    datatype = getattr(run.mpi, base)
    one, other = operands(run, base, count, 1), operands(run, base, count, 2)
    op = getattr(run.mpi, op)
    run.note(op.Is_commutative(), op.is_predefined)
    if op in (run.mpi.REPLACE, run.mpi.NO_OP):
        return
    op.Reduce_local([one, count, datatype], [other, count, datatype])
    run.note(values(other))


@step(what=["set elements", "cancelled", "null wait", "null test", "get status", "generalized", "any of none",
            "start null", "status of array", "name", "type name", "keyval", "info", "group", "class", "aint",
            "testsome", "free active"],
      base=PLAIN, count=[0, 1, 7])  # fmt: skip
def asked(run, what, base, count):
    """What one rank asks of objects of its own."""
    _ASKED[what](run, getattr(run.mpi, base), count)


def _set_elements(run, datatype, count):
    status = run.mpi.Status()
    two = datatype.Create_contiguous(2).Commit()
    status.Set_elements(datatype, count)
    run.note(status.Get_count(datatype), run.named(status.Get_count(two)), run.named(status.Get_elements(two)))
    status.Set_cancelled(count > 0)
    run.note(status.Is_cancelled(), status.cancelled)
    status.source, status.tag, status.error = 3, 4, run.mpi.ERR_TAG
    run.note(status.source, status.tag, status.error == run.mpi.ERR_TAG)


def _null_wait(run, datatype, count):
    status = run.mpi.Status()
    request = run.mpi.Request()
    run.note(request.Wait(status), run.status(status, datatype)[1:])
    run.note(request.Test(status), request.Get_status(status))
    run.attempt(request.Cancel)
    run.attempt(request.Free)


def _get_status(run, datatype, count):
    data, status = np.zeros(span(datatype, count), "u1"), run.mpi.Status()
    request = run.mpi.COMM_SELF.Irecv([data, count, datatype], 0, 3)
    run.note(request.Get_status(), run.mpi.Request.Get_status_all([request]))
    run.mpi.COMM_SELF.Send([noise(len(data)), count, datatype], 0, 3)
    while not request.Get_status(status):
        pass
    run.note(run.status(status, datatype), request != run.mpi.REQUEST_NULL)
    run.note(request.Test(status), run.status(status, datatype), request == run.mpi.REQUEST_NULL, short(data))


def _generalized(run, datatype, count):
    calls = []

    def query(status):
        calls.append("query")
        status.source, status.tag = 1, 2
        status.Set_elements(datatype, count)

    request = run.mpi.Grequest.Start(query, lambda: calls.append("free"), lambda done: calls.append(["cancel", done]))
    run.note(request.Test(), list(calls))
    request.Cancel()
    request.Complete()
    status = run.mpi.Status()
    request.Wait(status)
    run.note([status.source, status.tag, status.Get_count(datatype)], calls)


def _any_of_none(run, datatype, count):
    requests = [run.mpi.Request() for _ in range(count)]
    status = run.mpi.Status()
    run.note(run.named(run.mpi.Request.Waitany(requests, status)), run.mpi.Request.Waitsome(requests))
    found = run.mpi.Request.Testany(requests)
    run.note(run.named(found[0]), found[1], run.mpi.Request.Testall(requests), run.mpi.Request.Testsome(requests))


def _start_null(run, datatype, count):
    run.attempt(run.mpi.Prequest().Start)
    run.attempt(run.mpi.Prequest.Startall, [])
    run.attempt(run.mpi.Message().Recv, [np.zeros(1), 1, run.mpi.DOUBLE])


def _name(run, datatype, count):
    comm = run.world.Dup()
    run.note(comm.Get_name())
    comm.Set_name("x" * count * 30)
    run.note(comm.Get_name(), comm.name == comm.Get_name())
    copy = comm.Dup()
    run.note(copy.name)
    copy.Free()
    comm.Free()
    run.attempt(comm.Get_size)


def _type_name(run, datatype, count):
    made = datatype.Create_contiguous(count + 1)
    run.note(datatype.Get_name(), made.Get_name(), datatype.typechar, datatype.typestr, made.typestr, datatype.is_named)
    made.name = "mine"
    run.note(made.name, made.Dup().name, made == made.Dup(), bool(made))
    made.Free()
    run.attempt(made.Get_size)


def _type_keyval(run, datatype, count):
    calls = []
    key = run.mpi.Datatype.Create_keyval(lambda d, k, v: v + 1, lambda d, k, v: calls.append(v))
    made = datatype.Create_contiguous(1)
    made.Set_attr(key, count)
    copy = made.Dup()
    run.note(made.Get_attr(key), copy.Get_attr(key))
    copy.Free()
    made.Delete_attr(key)
    run.note(calls, made.Get_attr(key))
    made.Free()
    run.mpi.Datatype.Free_keyval(key)


def _info(run, datatype, count):
    info = run.mpi.Info.Create({"b": "1", "a": "2"})
    info.Set("c", "x" * count)
    run.note(info.Get("c"), info.Get("none"), info.nkeys, [info.Get_nthkey(i) for i in range(info.nkeys)])
    run.attempt(info.Delete, "none")
    run.attempt(info.Set, "k" * 1000, "v")
    run.attempt(info.Get_nthkey, 17)
    copy = info.Dup()
    copy.Delete("a")
    run.note(sorted(copy.items()), len(info), "a" in info, "a" in copy)
    copy.Free()
    info.Free()
    run.attempt(info.Get_nkeys)


def _group(run, datatype, count):
    group = run.world.group
    empty = group.Incl([])
    run.note(empty == run.mpi.GROUP_EMPTY, empty.size, run.named(empty.rank), bool(run.mpi.GROUP_NULL))
    run.attempt(run.mpi.GROUP_NULL.Get_size)
    run.attempt(group.Range_incl, [(0, 0, 0)])
    run.attempt(group.Excl, [group.size])
    run.note(
        group.Excl(list(range(group.size))).size, group.Translate_ranks([run.mpi.PROC_NULL])[0] == run.mpi.PROC_NULL
    )


def _class(run, datatype, count):
    number = run.mpi.Add_error_class()
    code = run.mpi.Add_error_code(number)
    run.mpi.Add_error_string(code, f"error {count}")
    run.note(run.mpi.Get_error_string(code), run.mpi.Get_error_class(code) == number)
    try:
        run.mpi.COMM_SELF.Call_errhandler(code)
    except run.mpi.Exception as error:
        run.note(error.Get_error_code() == code, error.Get_error_class() == number, error.Get_error_string())
    run.note(run.described(run.mpi.Exception(run.mpi.ERR_RANK)))


def _aint(run, datatype, count):
    run.note(run.mpi.Aint_add(3, count), run.mpi.Aint_diff(3, count))
    run.note(datatype.Get_extent(), datatype.Get_true_extent(), datatype.lb, datatype.ub)


def _testsome(run, datatype, count):
    comm, data, place = run.mpi.COMM_SELF, np.arange(3), np.zeros(3, int)
    requests = [comm.Irecv(place[i : i + 1], 0, i) for i in range(3)]
    run.note(
        run.mpi.Request.Testsome(requests), run.mpi.Request.Testall(requests), run.mpi.Request.Testany(requests)[1]
    )
    for i in (1, 0, 2):
        comm.Send(data[i : i + 1], 0, i)
    found = []
    while (some := run.mpi.Request.Waitsome(requests)) is not None:
        found += some
    run.note(sorted(found), place.tolist())


def _free_active(run, datatype, count):
    comm, place = run.mpi.COMM_SELF, np.zeros(1, "i4")
    receive = comm.Recv_init(place, 0, 5)
    receive.Start()
    run.attempt(receive.Start)
    comm.Send(np.array([count], "i4"), 0, 5)
    receive.Wait()
    run.note(place.tolist(), receive == run.mpi.REQUEST_NULL, receive.Test())
    receive.Free()
    run.note(receive == run.mpi.REQUEST_NULL)


_ASKED = {
    "set elements": _set_elements,
    "cancelled": _set_elements,
    "null wait": _null_wait,
    "null test": _null_wait,
    "get status": _get_status,
    "generalized": _generalized,
    "any of none": _any_of_none,
    "start null": _start_null,
    "status of array": _get_status,
    "name": _name,
    "type name": _type_name,
    "keyval": _type_keyval,
    "info": _info,
    "group": _group,
    "class": _class,
    "aint": _aint,
    "testsome": _testsome,
    "free active": _free_active,
}


@step(which=4, src=4, dst=4, side=2, send=["Send", "Issend", "send"], wild=["", "source", "tag"])
def across(run, which, src, dst, side, send, wild):
    """A message from one group of an intercommunicator to the other."""
    comm, mine = run.facing(which)
    if comm is None:
        return
    status, tag = run.mpi.Status(), 100 + run.number if wild == "source" else 2
    if mine == side and comm.rank == src % comm.size:
        dst %= comm.remote_size
        if send == "send":
            comm.send(thing(run.number, comm.rank), dst, tag)
        else:
            request = getattr(comm, send)(noise(9, run.rank), dst, tag)
            if request is not None:
                request.Wait()
    if mine != side and comm.rank == dst % comm.size:
        wanted = run.mpi.ANY_SOURCE if wild == "source" else src % comm.remote_size
        tag = run.mpi.ANY_TAG if wild == "tag" else tag
        if send == "send":
            run.note(repr(comm.recv(None, wanted, tag, status)))
        else:
            place = np.zeros(20, "u1")
            comm.Recv(place, wanted, tag, status)
            run.note(short(place))
        run.note(run.status(status))


@step(
    which=4,
    call=["barrier", "bcast", "gather", "scatter", "allgather", "alltoall", "reduce", "allreduce"],
    root=4,
    side=2,
)
def objects_between_groups(run, which, call, root, side):
    """A collective over pickled objects and an intercommunicator."""
    comm, mine = run.facing(which)
    if comm is None:
        return
    value = [run.rank, call]
    parts = [[run.rank, i] for i in range(comm.remote_size)]
    if call in ("barrier", "allgather", "alltoall", "allreduce"):
        arguments = {"barrier": [], "allgather": [value], "alltoall": [parts], "allreduce": [run.rank]}[call]
    elif mine == side:
        is_root = comm.rank == root % comm.size
        root = run.mpi.ROOT if is_root else run.mpi.PROC_NULL
        sent = {"bcast": value, "scatter": parts}.get(call) if is_root else None
        arguments = [sent, *([run.mpi.SUM] if call == "reduce" else []), root]
    else:
        root %= comm.remote_size
        sent = {"gather": value, "reduce": run.rank}.get(call)
        arguments = [sent, *([run.mpi.SUM] if call == "reduce" else []), root]
    run.note(repr(getattr(comm, call)(*arguments)))


@step(which=4, how=["Dup", "Split", "plain"])
def from_topology(run, which, how):
    """A communicator that knows its neighbours, or no longer, as one among the others."""
    comm = run.pick(run.topologies, which)
    if comm is None:
        run.comms.append(run.mpi.COMM_NULL)
        return
    new = comm.Dup() if how == "Dup" else comm.Split(comm.rank % 2, -comm.rank)
    run.comms.append(new)
    run.note(new.topology != run.mpi.UNDEFINED, new.is_topo, type(new).__name__, new.rank, new.size)


@step(which=4, axis=3, by=[-3, -1, 0, 1, 2], place=27)
def on_a_grid(run, which, axis, by, place):
    """Where ranks are on a grid, and who is beside whom; also off the grid."""
    comm = run.pick(run.topologies, which)
    if comm is None:
        return
    kind = comm.Get_topology()
    if kind == run.mpi.CART:
        found = run.attempt(comm.Shift, axis, by)
        run.note(found if found is None else [run.named(rank) for rank in found])
        coordinates = [place // 3**i % 3 - 1 for i in range(comm.ndim)]
        run.attempt(lambda: run.note(comm.Get_cart_rank(coordinates)))
        run.attempt(lambda: run.note(comm.Get_coords(place)))
        run.note(comm.dims, comm.periods, comm.indegree)
        run.note([[run.named(rank) for rank in edges] for edges in (comm.inedges, comm.outedges)])
    elif kind == run.mpi.GRAPH:
        run.attempt(lambda: run.note(comm.Get_neighbors(place % 5), comm.Get_neighbors_count(place % 5)))
        run.note(comm.dims, comm.nnodes, comm.nedges, comm.neighbors)
    run.attempt(lambda: run.note(comm.Get_dist_neighbors_count()[:2] if kind == run.mpi.DIST_GRAPH else None))


@step(comm=4, how=["Allocate", "Create"], epoch=EPOCHS, op=["SUM", "MAX", "PROD", "REPLACE"], base=sorted(FORMATS),
      call=["Accumulate", "Get_accumulate", "Rget_accumulate"], shift=4, here="shape", there="shape",
      count=[0, 1, 2])  # fmt: skip
def layered_accumulation(run, comm, how, epoch, op, base, call, shift, here, there, count):
    """An operation on another rank's memory through two layouts of one signature."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    if call[0] == "R" and epoch in ("fence", "post"):
        call = call[1:].capitalize()
    ours, theirs, plain = build(run.mpi, base, here), build(run.mpi, base, there), getattr(run.mpi, base)
    n, m, total = count * elements(there), count * elements(here), count * elements(here) * elements(there)
    size = plain.size
    win, memory = own_window(run, comm, how, -(-span(theirs, m) // size) * size + 8)
    memory.view(FORMATS[base])[:] = (np.arange(len(memory) // size) + run.rank) % 5
    data = np.zeros(-(-span(ours, n) // size) * size, "u1")
    data.view(FORMATS[base])[:] = (np.arange(len(data) // size) + run.rank) % 3
    result = np.zeros(total, FORMATS[base])
    comm.Barrier()
    target = (comm.rank + shift) % comm.size
    arguments = [[data, n, ours], *([[result, total, plain]] if "et_" in call else []), target, [8, m, theirs],
                 getattr(run.mpi, op)]  # fmt: skip

    def inside():
        request = getattr(win, call)(*arguments)
        if request is not None:
            request.Wait()

    access_epoch(run, comm, win, epoch, target, inside)
    together(win, comm, lambda: run.note(short(memory), short(result)))
    win.Free()


@step(comm=4, call=["Allreduce", "Bcast", "Alltoall", "Barrier"], starts=[2, 3], op=["SUM", "matrices"])
def started_again(run, comm, call, starts, op):
    """A persistent collective with other data at each start."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    data, out = np.zeros(4 * comm.size, "u1"), np.zeros(4 * comm.size, "u1")
    arguments = {
        "Allreduce": [data, out, operation(run, op)],
        "Bcast": [data, 0],
        "Alltoall": [data, out],
        "Barrier": [],
    }
    request = getattr(comm, f"{call}_init")(*arguments[call])
    for i in range(starts):
        data[:] = noise(len(data), run.rank, i)
        request.Start()
        request.Wait()
        run.note(short(data), short(out))
    request.Free()


AT_ONCE = ["Allreduce", "Bcast", "Barrier", "Allgather"]


@step(comm=4, first=AT_ONCE, second=AT_ONCE)
def together_with(run, comm, first, second):
    """Two non-blocking collectives at once, and a message beside them."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    for name in (first, second):
        data, out = noise(8, run.rank, name), np.zeros(8 * comm.size, "u1")
        arguments = {
            "Allreduce": [data, out[:8], run.mpi.BXOR],
            "Bcast": [data, 0],
            "Barrier": [],
            "Allgather": [data, out],
        }
        kept = data, out
        perform(run, comm, "left", name, arguments.get(name, []),
                lambda status, number, kept=kept: run.note([short(part) for part in kept], number=number))  # fmt: skip
    run.note(comm.sendrecv(run.rank, (comm.rank + 1) % comm.size, 0, None, (comm.rank - 1) % comm.size, 0))
