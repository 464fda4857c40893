"""Collective steps: each with its blocking, non-blocking and persistent form."""

import numpy as np

from tests.fuzz.interpreter import step
from tests.fuzz.messages import blank, filled, thing
from tests.fuzz.types import COMPLEXES, INTEGERS, PAIRS, REALS, build, elements, short

FORMS = ["blocking", "nonblocking", "persistent", "left"]


def perform(run, comm, form, name, arguments, finish):
    """Call a collective in one of its forms; `finish` logs what it gave."""
    if form == "blocking":
        getattr(comm, name)(*arguments)
        finish(None, run.number)
        return
    if form == "persistent":
        request = getattr(comm, f"{name}_init")(*arguments)
        request.Start()
    else:
        request = getattr(comm, f"I{name.lower()}")(*arguments)
    if form == "left":
        run.later(request, lambda status, number, kept=arguments: finish(status, number))
        return
    request.Wait()
    finish(None, run.number)
    if form == "persistent":
        request.Free()


def same_signature(run, base, here, there, count):
    """Two types with room for the same elements: (datatype, count) twice, the second as often as the first needs."""
    return (build(run.mpi, base, here), count * elements(there)), (build(run.mpi, base, there), count * elements(here))


def vacant(datatype, count, blocks):
    """A receive buffer of some blocks, and its specification."""
    data = blank(datatype, count * blocks)
    return data, [data, count, datatype]


@step(comm=4, form=FORMS)
def barrier(run, comm, form):
    """Nothing but waiting for each other."""
    comm = run.pick(run.comms, comm)
    if comm is not None:
        perform(run, comm, form, "Barrier", [], lambda status, number: run.note("met", number=number))


@step(comm=4, form=FORMS, root=4, base="base", here="shape", there="shape", count=[0, 1, 3, 20])
def bcast(run, comm, form, root, base, here, there, count):
    """The root's type differs from the others'."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    ours, others = same_signature(run, base, here, there, count)
    if comm.rank == root % comm.size:
        data, (datatype, n) = filled(run, ours[0], ours[1]), ours
    else:
        datatype, n = others
        data = blank(datatype, n)
    perform(run, comm, form, "Bcast", [[data, n, datatype], root % comm.size],
            lambda status, number: run.note(short(data), number=number))  # fmt: skip


@step(comm=4, form=FORMS, call=["Gather", "Scatter", "Allgather", "Alltoall"], root=4, in_place=2, base="base",
      here="shape", there="shape", count=[0, 1, 3])  # fmt: skip
def blocks(run, comm, form, call, root, in_place, base, here, there, count):
    """Equal blocks from and to all."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    root %= comm.size
    (one, n), (other, m) = same_signature(run, base, here, there, count)
    sent = [filled(run, one, n * (comm.size if call in ("Scatter", "Alltoall") else 1)), n, one]
    blocks = 1 if call == "Scatter" else comm.size
    data, place = vacant(other, m, blocks)
    rooted = call in ("Gather", "Scatter")
    if in_place and (not rooted or comm.rank == root):
        if call == "Scatter":
            place = run.mpi.IN_PLACE
            data = sent[0]
        else:
            sent = run.mpi.IN_PLACE
            data[:] = filled(run, other, m * comm.size)
    elif call == "Gather" and comm.rank != root:
        data = place = None
    elif call == "Scatter" and comm.rank != root:
        sent = None
    arguments = [sent, place, *([root] if rooted else [])]
    perform(run, comm, form, call, arguments,
            lambda status, number: run.note(None if data is None else short(data), number=number))  # fmt: skip


def _counts(comm, seed, what):
    """How many elements each rank has in a v-form: the same numbers on all ranks."""
    return [(seed * (rank + what + 1) + rank) % 4 for rank in range(comm.size)]


def _places(counts, gap, backwards):
    places, at = [0] * len(counts), 0
    for index in reversed(range(len(counts))) if backwards else range(len(counts)):
        places[index] = at
        at += counts[index] + gap
    return places, at


@step(comm=4, form=FORMS, call=["Gatherv", "Scatterv", "Allgatherv", "Alltoallv", "Alltoallw"], root=4, seed=7, gap=2,
      backwards=2, base="base", in_place=2)  # fmt: skip
def uneven(run, comm, form, call, root, seed, gap, backwards, base, in_place):
    """Blocks of different lengths at different places."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    root %= comm.size
    datatype = build(run.mpi, base, ["leaf", 0])
    if call.startswith("Alltoall"):
        to = [(seed + comm.rank * rank) % 3 for rank in range(comm.size)]  # symmetric, so also what comes
        places, total = _places(to, gap, backwards)
        data, out = filled(run, datatype, total), blank(datatype, total)
        types = [datatype] * comm.size
        if call == "Alltoallw":
            places = [at * datatype.extent for at in places]
            arguments = [[data, to, places, types], [out, to, places, types]]
        else:
            arguments = [[data, to, places, datatype], [out, to, places, datatype]]
        if in_place:
            out[:] = data
            arguments[0] = run.mpi.IN_PLACE
        perform(run, comm, form, call, arguments, lambda status, number: run.note(short(out), number=number))
        return
    counts = _counts(comm, seed, 0)
    places, total = _places(counts, gap, backwards)
    if call == "Scatterv":
        data, out = filled(run, datatype, total), blank(datatype, counts[comm.rank])
        sent = [data, counts, places, datatype] if comm.rank == root else None
        arguments = [sent, [out, counts[comm.rank], datatype], root]
        if in_place and comm.rank == root:
            arguments[1], out = run.mpi.IN_PLACE, data
    else:
        data, out = filled(run, datatype, counts[comm.rank]), blank(datatype, total)
        wanted = call == "Allgatherv" or comm.rank == root
        arguments = [[data, counts[comm.rank], datatype], [out, counts, places, datatype] if wanted else None]
        if in_place and wanted:
            arguments[0] = run.mpi.IN_PLACE
            out[:] = filled(run, datatype, total)
        arguments += [root] if call == "Gatherv" else []
    perform(run, comm, form, call, arguments, lambda status, number: run.note(short(out), number=number))


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
    "matrices",
    "last",
]
REDUCED = ["SUM", "PROD", "MIN", "MAX"]
REDUCIBLE = [*INTEGERS, *REALS, *COMPLEXES, "C_BOOL", "BYTE", "CHAR", "INTEGER", "REAL", "DOUBLE_PRECISION", "COMPLEX",
             "LOGICAL", *PAIRS]  # fmt: skip
PAIR_FORMATS = {"SHORT_INT": "i2", "INT_INT": "i4", "LONG_INT": "i8", "FLOAT_INT": "f4", "DOUBLE_INT": "f8"}


def operands(run, name, count, rank):
    """Small numbers of a type, whose sums and products are exact in any order."""
    numbers = np.array([(run.number + 3 * rank + 5 * i * (rank + 1)) % 4 for i in range(count)])
    if name in PAIR_FORMATS:
        data = np.zeros(count, np.dtype([("value", PAIR_FORMATS[name]), ("index", "i4")], align=True))
        data["value"], data["index"] = numbers, (rank * 7 + np.arange(count)) % 5
        return data
    datatype = getattr(run.mpi, name)
    if name in ("C_BOOL", "LOGICAL"):
        numbers = numbers % 2
    code = {"C_BOOL": "?", "LOGICAL": "i4", "BYTE": "u1", "CHAR": "i1", "LONG_DOUBLE": "g",
            "C_LONG_DOUBLE_COMPLEX": "G"}.get(name)  # fmt: skip
    if code is None:
        kind = "c" if "COMPLEX" in name else "f" if name in (*REALS, "REAL", "DOUBLE_PRECISION") else "i"
        kind = "u" if "UNSIGNED" in name or name.startswith("UINT") else kind
        code = f"{kind}{datatype.size}"
    return numbers.astype(code) * (1 + 1j if code[0] in "cG" else 1)


def values(data):
    """What a reduction gave, without the bytes that pad long doubles and pairs."""
    if data.dtype.names:
        return [[data[name][i].item() for name in data.dtype.names] for i in range(len(data))]
    return [repr(complex(x) + 0) for x in data] if data.dtype.kind == "c" else [repr(float(x)) for x in data]


def matrices(mpi):
    """Products of 2 x 2 matrices modulo 2**8: associative, not commutative. For types of one byte."""

    def multiply(inbuf, inoutbuf, datatype):
        one = np.frombuffer(inbuf, np.uint8)
        other = np.frombuffer(inoutbuf, np.uint8)
        whole = len(one) // 4 * 4
        a, b = one[:whole].reshape(-1, 2, 2), other[:whole].reshape(-1, 2, 2)
        b[:] = np.einsum("nij,njk->nik", a, b)

    return mpi.Op.Create(multiply, commute=False)


def last(mpi):
    """The higher rank's bytes."""
    return mpi.Op.Create(lambda inbuf, inoutbuf, datatype: None, commute=False)


def operation(run, name):
    """A predefined operation, or a user's; mpi4py has room for few of those at a time."""
    if name.isupper():
        return getattr(run.mpi, name)
    run.ops.append({"matrices": matrices, "last": last}[name](run.mpi))
    return run.ops[-1]


@step(comm=4, form=FORMS, call=["Reduce", "Allreduce", "Scan", "Exscan", "Reduce_scatter_block", "Reduce_scatter"],
      op=OPS, base=REDUCIBLE, count=[0, 1, 2, 4, 100], root=4, in_place=2)  # fmt: skip
def reduction(run, comm, form, call, op, base, count, root, in_place):
    """A reduction of any operation over any type; where they do not fit together, that is an error."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    if op in ("matrices", "last"):
        base = "UINT8_T" if op == "matrices" else base
        count *= 4
    op = operation(run, op)
    root %= comm.size
    datatype = getattr(run.mpi, base)
    blocks = comm.size if call.startswith("Reduce_scatter") else 1
    counts = [count + (4 if rank == 0 else 0) for rank in range(comm.size)]
    total = sum(counts) if call == "Reduce_scatter" else count * blocks
    data = operands(run, base, total, comm.rank)
    mine = {"Reduce_scatter": counts[comm.rank], "Reduce_scatter_block": count}.get(call, total)
    out = operands(run, base, mine, 9)
    wanted = not (call == "Reduce" and comm.rank != root) and not (call == "Exscan" and comm.rank == 0)
    arguments = [[data, total, datatype], [out, mine, datatype]]
    if in_place and (call != "Reduce" or comm.rank == root):
        arguments[0] = run.mpi.IN_PLACE
        arguments[1] = [data, total, datatype] if call != "Reduce_scatter_block" else [data, count, datatype]
        out = data
    if call == "Reduce":
        arguments[1] = arguments[1] if comm.rank == root else None
    arguments += [counts] if call == "Reduce_scatter" else []
    arguments += [op, root] if call == "Reduce" else [op]
    perform(run, comm, form, call, arguments,
            lambda status, number: run.note(values(out[:mine]) if wanted else None, number=number))  # fmt: skip


@step(comm=4, call=["bcast", "gather", "scatter", "allgather", "alltoall", "reduce", "allreduce", "scan", "exscan",
                    "barrier"], root=4, op=["SUM", "MAX", "MINLOC", None, "LXOR"])  # fmt: skip
def object_collective(run, comm, call, root, op):
    """Collectives over pickled objects."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    root %= comm.size
    mine = thing(run.number, comm.rank)
    each = [[comm.rank, i] for i in range(comm.size)]
    if call in ("reduce", "allreduce", "scan", "exscan"):
        value = (comm.rank % 2, comm.rank) if op == "MINLOC" else comm.rank + 1
        how = (
            (lambda a, b: [*(a if isinstance(a, list) else [a]), *(b if isinstance(b, list) else [b])])
            if op is None
            else getattr(run.mpi, op)
        )
        if op is None and "all" in call:
            how = run.mpi.SUM  # how a function nests depends on the algorithm
        arguments = [value, how, *([root] if call == "reduce" else [])]
    elif call == "barrier":
        arguments = []
    elif call in ("scatter", "alltoall"):
        arguments = [each, *([root] if call == "scatter" else [])]
    else:
        arguments = [mine, *([] if call == "allgather" else [root])]
    run.note(repr(getattr(comm, call)(*arguments)))


BETWEEN = ["Barrier", "Bcast", "Gather", "Scatter", "Allgather", "Alltoall", "Reduce", "Allreduce", "Allgatherv",
           "Reduce_scatter_block"]  # fmt: skip


@step(which=4, form=["blocking", "nonblocking", "left"], call=BETWEEN, root=4, side=2, count=[0, 1, 3])
def between_groups(run, which, form, call, root, side, count):
    """A collective over an intercommunicator: one group, or each, gets what the other has."""
    comm, mine = run.facing(which)
    if comm is None:
        return
    here, there = comm.size, comm.remote_size
    data = np.arange(count * max(here, there), dtype="i4") + 10 * run.rank + run.number
    out = np.full(count * max(here, there, 1), -1, "i4")
    rooted = call in ("Bcast", "Gather", "Scatter", "Reduce")
    one, all_here, all_there = data[:count], data[: count * there], out[: count * there]
    if rooted:
        arguments = _rooted(run, comm, call, root, mine == side, (one, data, out), count)
    elif call == "Barrier":
        arguments = []
    elif call == "Allgatherv":
        arguments = [one, [out, [count] * there, [count * i for i in range(there)], run.mpi.INT]]
    elif call == "Reduce_scatter_block":
        arguments = [data[: count * here * there], out[:count], run.mpi.SUM]
        arguments[0] = np.arange(count * here, dtype="i4") + run.rank
    elif call == "Allreduce":
        arguments = [one, out[:count], run.mpi.SUM]
    else:
        arguments = [one if call == "Allgather" else all_here, all_there]
    perform(run, comm, form, call, arguments, lambda status, number: run.note(out.tolist(), number=number))


def _rooted(run, comm, call, root, is_root_side, buffers, count):
    """The arguments of a rooted collective on the root's side and on the other."""
    one, data, out = buffers
    here, there = comm.size, comm.remote_size
    if not is_root_side:
        root %= there
        return {
            "Bcast": [out[:count], root],
            "Gather": [one, None, root],
            "Scatter": [None, out[:count], root],
            "Reduce": [one, None, run.mpi.SUM, root],
        }[call]
    is_root = comm.rank == root % here
    root = run.mpi.ROOT if is_root else run.mpi.PROC_NULL
    place = out[: count * there] if is_root else None
    return {
        "Bcast": [one if is_root else None, root],
        "Gather": [None, place, root],
        "Scatter": [data[: count * there] if is_root else None, None, root],
        "Reduce": [None, out[:count] if is_root else None, run.mpi.SUM, root],
    }[call]


def degrees(run, comm):
    """From how many neighbours a rank hears, and to how many it speaks."""
    kind = comm.Get_topology()
    if kind == run.mpi.CART:
        return 2 * comm.Get_dim(), 2 * comm.Get_dim()
    if kind == run.mpi.GRAPH:
        return (comm.Get_neighbors_count(comm.rank),) * 2
    return comm.Get_dist_neighbors_count()[:2]


@step(which=4, form=FORMS, call=["Neighbor_allgather", "Neighbor_allgatherv", "Neighbor_alltoall", "Neighbor_alltoallv",
                                 "Neighbor_alltoallw", "neighbor_allgather", "neighbor_alltoall"], count=[0, 1, 3],
      base="base")  # fmt: skip
def neighbours(run, which, form, call, count, base):
    """A collective with the neighbours of a topology only."""
    comm = run.pick(run.topologies, which)
    if comm is None:
        return
    sources, targets = degrees(run, comm)
    if call[0] == "n":
        value = [comm.rank, run.number]
        run.note(repr(getattr(comm, call)([value] * targets if "alltoall" in call else value)))
        return
    datatype = build(run.mpi, base, ["leaf", 0])
    to = targets if "alltoall" in call else 1
    data, out = filled(run, datatype, count * to), blank(datatype, count * sources)
    sent, place = [data, count, datatype], [out, count, datatype]
    if call.endswith("v"):
        place = [out, [count] * sources, [count * i for i in range(sources)], datatype]
        if to != 1 or "alltoall" in call:
            sent = [data, [count] * to, [count * i for i in range(to)], datatype]
    elif call.endswith("w"):
        step_bytes = count * datatype.extent
        sent = [data, [count] * to, [step_bytes * i for i in range(to)], [datatype] * to]
        place = [out, [count] * sources, [step_bytes * i for i in range(sources)], [datatype] * sources]
    perform(run, comm, form, call, [sent, place], lambda status, number: run.note(short(out), number=number))
