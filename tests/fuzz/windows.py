"""Steps of one-sided communication, free of races: every location is written by one origin, or by one operation."""

import numpy as np

from tests.fuzz.interpreter import step
from tests.fuzz.types import build, elements, noise, short, span

FORMATS = {"INT": "i4", "UNSIGNED_SHORT": "u2", "LONG": "i8", "DOUBLE": "f8", "SIGNED_CHAR": "i1"}
EPOCHS = ["fence", "lock", "lock_shared", "lock_all", "post"]


def access_epoch(run, comm, window, kind, target, inside):
    """Do something in an epoch of one of the kinds; all ranks have met when it is over."""
    mpi = run.mpi
    if kind == "fence":
        window.Fence(0)
        inside()
        window.Fence(0)
    elif kind == "post":
        group = comm.group
        window.Post(group)
        window.Start(group)
        inside()
        window.Complete()
        window.Wait()
    elif kind == "lock_all":
        window.Lock_all()
        inside()
        window.Unlock_all()
    else:
        window.Lock(target, mpi.LOCK_EXCLUSIVE if kind == "lock" else mpi.LOCK_SHARED)
        inside()
        window.Unlock(target)
    comm.Barrier()


@step(comm=4, how=["Allocate", "Create"], epoch=EPOCHS, calls=["Put", "Get", "Rput", "Rget"], shift=4, base="base",
      here="shape", there="shape", count=[0, 1, 3])  # fmt: skip
def transfer(run, comm, how, epoch, calls, shift, base, here, there, count):
    """Each rank puts into, or gets from, one other rank's window, through two layouts of one signature."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    ours, theirs = build(run.mpi, base, here), build(run.mpi, base, there)
    n, m = count * elements(there), count * elements(here)
    target = (comm.rank + shift) % comm.size
    nbytes = span(theirs, m) + 8
    win, memory = own_window(run, comm, how, nbytes)
    memory[:] = noise(nbytes, run.rank, run.number)
    comm.Barrier()
    data = noise(span(ours, n), run.rank, "origin")
    requested = calls[0] == "R" and epoch not in ("fence", "post")
    call = getattr(win, calls if requested else calls.removeprefix("R").capitalize())

    def inside():
        request = call([data, n, ours], target, [8, m, theirs])
        if request is not None:
            request.Wait()

    access_epoch(run, comm, win, epoch, target, inside)
    together(win, comm, lambda: run.note(short(memory), short(data)))
    win.Free()


def own_window(run, comm, how, nbytes):
    if how == "Allocate":
        win = run.mpi.Win.Allocate(nbytes, 1, comm=comm)
        return win, np.frombuffer(win, np.uint8)
    memory = np.zeros(nbytes, np.uint8)
    return run.mpi.Win.Create(memory, 1, comm=comm), memory


def together(win, comm, look):
    """Look at one's own window when all that was done to it is there."""
    win.Lock(comm.rank)
    look()
    win.Unlock(comm.rank)
    comm.Barrier()


OPS = ["SUM", "PROD", "MIN", "MAX", "BAND", "BOR", "BXOR", "LAND", "LOR", "LXOR", "REPLACE", "NO_OP"]


@step(comm=4, how=["Allocate", "Create"], epoch=EPOCHS, op=OPS, base=sorted(FORMATS), shift=4,
      call=["Accumulate", "Get_accumulate", "Raccumulate", "Rget_accumulate", "Fetch_and_op", "Compare_and_swap"],
      shared=2, count=[1, 3])  # fmt: skip
def accumulation(run, comm, how, epoch, op, base, shift, call, shared, count):
    """Operations on a target's memory: on a place of one's own, or on one that all work at."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    if "ccumulate" not in call:
        count = 1
    shared = shared and op not in ("REPLACE", "NO_OP") and call in ("Accumulate", "Raccumulate")
    if call[0] == "R" and epoch in ("fence", "post"):
        call = call[1:].capitalize()
    if base == "DOUBLE" and op[0] in "BL":
        op = "SUM"  # a target that cannot apply an operation has nobody to tell
    datatype = getattr(run.mpi, base)
    code = FORMATS[base]
    win, memory = own_window(run, comm, how, (comm.size + 1) * count * datatype.size)
    numbers = memory.view(code)
    numbers[:] = (np.arange(len(numbers)) + comm.rank) % 5
    comm.Barrier()
    target = 0 if shared else (comm.rank + shift) % comm.size
    place = (comm.size if shared else comm.rank) * count * datatype.size
    data = ((np.arange(count) + comm.rank) % 3 + 1).astype(code)
    result = np.full(count, 99, code)
    arguments = _arguments(call, (data, result, datatype), target, place, count, getattr(run.mpi, op))

    def inside():
        try:
            request = getattr(win, call)(*arguments)
        except Exception as error:
            run.note(run.described(error))
            return
        if request is not None:
            request.Wait()

    access_epoch(run, comm, win, epoch, target, inside)
    together(win, comm, lambda: run.note(numbers.tolist(), result.tolist()))
    win.Free()


def _arguments(call, buffers, target, place, count, op):
    data, result, datatype = buffers
    if call == "Fetch_and_op":
        return [data, datatype], [result, datatype], target, place, op
    if call == "Compare_and_swap":
        same = result * 0 + (place // datatype.size + target) % 5
        return [data, datatype], [same, datatype], [result, datatype], target, place
    there = [place, count, datatype]
    if call in ("Accumulate", "Raccumulate"):
        return [data, count, datatype], target, there, op
    return [data, count, datatype], [result, count, datatype], target, there, op


@step(comm=4, times=[1, 3], sync=["Flush", "Flush_local", "Flush_all", "Sync"])
def counter(run, comm, times, sync):
    """All ranks take numbers from one counter; what they have in the end is every number once."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    win, memory = own_window(run, comm, "Allocate", 8)
    memory[:] = 0
    comm.Barrier()
    one, old, taken = np.ones(1, "i8"), np.zeros(1, "i8"), []
    win.Lock_all()
    for _ in range(times):
        win.Fetch_and_op(one, old, 0, 0, run.mpi.SUM)
        win.Flush(0)
        getattr(win, sync)(*([0] if sync in ("Flush", "Flush_local") else []))
        taken.append(int(old[0]))
    win.Unlock_all()
    run.note(sorted(number for part in comm.allgather(taken) for number in part), taken == sorted(taken))
    win.Free()


WRONG = ["rank", "displacement", "count", "op", "no epoch", "type", "locked twice", "unlock", "complete", "wait",
         "flush", "size", "fetch type"]  # fmt: skip


@step(comm=4, what=WRONG, call=["Put", "Get", "Accumulate"])
def wrong_window(run, comm, what, call):
    """Mistakes with a window."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    mpi = run.mpi
    win, _ = own_window(run, comm, "Allocate", 16)
    data = np.zeros(2, "i4")

    def access(target, place, buffer=data):
        arguments = [buffer, target, place, *([mpi.SUM] if call == "Accumulate" else [])]
        run.attempt(getattr(win, call), *arguments)

    if what in ("rank", "displacement", "type", "op", "fetch type"):
        win.Fence(0)
        if what == "rank":
            access(comm.size + 2, 0)
        elif what == "displacement":
            access(0, [-4, 1, mpi.INT])
        elif what == "type":
            access(0, 0, [data, 1, mpi.DATATYPE_NULL])
        elif what == "op":
            run.attempt(win.Accumulate, data, 0, 0, mpi.OP_NULL)
        else:
            run.attempt(win.Fetch_and_op, [data, mpi.INT], [data.copy(), mpi.INT], comm.size, 0, mpi.SUM)
        win.Fence(0)
    elif what == "no epoch":
        access(0, 0)
    elif what == "unlock":
        run.attempt(win.Unlock, 0)
    elif what == "complete":
        run.attempt(win.Complete)
    elif what == "wait":
        run.attempt(win.Wait)
    elif what == "flush":
        run.attempt(win.Flush, 0)
    elif what == "size":
        run.attempt(mpi.Win.Allocate, -1, 1, mpi.INFO_NULL, comm)
    elif what == "locked twice":
        win.Lock(comm.rank)
        run.attempt(win.Lock, comm.rank)
        win.Unlock(comm.rank)
    comm.Barrier()
    win.Free()
