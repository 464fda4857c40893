# ranks: 2 3
"""What the calls of windows refuse, by error class; attributes, names, hints and error handlers."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right = (rank + 1) % size
CLASSES = {getattr(MPI, name): name for name in dir(MPI) if name.startswith("ERR_") and name != "ERR_LASTCODE"}
one, number = np.ones(1), np.ones(1, "i4")


def refused(what, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except MPI.Exception as error:
        print(f"rank {rank}: {what}: {CLASSES[error.Get_error_class()]}")
    except (TypeError, ValueError, BufferError) as error:
        print(f"rank {rank}: {what}: {type(error).__name__}")
    else:
        print(f"rank {rank}: {what}: accepted")


memory = np.zeros(16)
win = MPI.Win.Create(memory, 8, comm=comm)
for name in ("Put", "Get", "Accumulate", "Rput", "Rget"):
    refused(f"{name} in no epoch", getattr(win, name), one, right)
for name in ("Flush", "Flush_local", "Unlock"):
    refused(f"{name} in no epoch", getattr(win, name), right)
for name in ("Flush_all", "Flush_local_all", "Unlock_all", "Complete", "Wait", "Test"):
    refused(f"{name} in no epoch", getattr(win, name))
refused("Lock of nobody", win.Lock, size, MPI.LOCK_SHARED)

win.Fence()
refused("Put to nobody", win.Put, one, size)
refused("Put before the memory", win.Put, one, right, -1)
refused("Put of minus one", win.Put, one, right, [0, -1])
refused("Put of no type", win.Put, one, right, [0, 1, MPI.DATATYPE_NULL])
refused("Put of too many arguments", win.Put, one, right, [0, 1, MPI.DOUBLE, 1])
refused("Put to a string", win.Put, one, right, "0")
operation = MPI.Op.Create(lambda a, b, t: None, commute=True)
refused("Accumulate with a function", win.Accumulate, one, right, op=operation)
refused("Accumulate with NO_OP", win.Accumulate, one, right, op=MPI.NO_OP)
refused("Fetch_and_op with a function", win.Fetch_and_op, one, np.zeros(1), right, op=operation)
refused("Compare_and_swap of doubles", win.Compare_and_swap, one, one, np.zeros(1), right)
refused("Fetch_and_op of two types", win.Fetch_and_op, one, number, right)
refused("Fetch_and_op of two elements", win.Fetch_and_op, np.ones(2), np.zeros(2), right)
operation.Free()

win.Put(one, right)
refused("Lock between fences", win.Lock, right, MPI.LOCK_SHARED)
refused("Lock_all between fences", win.Lock_all)
refused("Start between fences", win.Start, MPI.GROUP_EMPTY)
refused("Flush between fences", win.Flush, right)
win.Fence(MPI.MODE_NOSUCCEED)
refused("Put after the last fence", win.Put, one, right)

win.Lock(right, MPI.LOCK_SHARED)
refused("Lock twice", win.Lock, right, MPI.LOCK_SHARED)
refused("Lock_all while one is locked", win.Lock_all)
refused("Start while one is locked", win.Start, MPI.GROUP_EMPTY)
refused("Unlock_all while one is locked", win.Unlock_all)
win.Unlock(right)
refused("Unlock twice", win.Unlock, right)
win.Lock_all()
refused("Lock in an epoch of all", win.Lock, right, MPI.LOCK_SHARED)
refused("Unlock in an epoch of all", win.Unlock, right)
win.Unlock_all()

group = win.group
win.Post(group.Incl([(rank - 1) % size]))
refused("Post twice", win.Post, MPI.GROUP_EMPTY)
win.Start(group.Incl([right]))
refused("Start twice", win.Start, MPI.GROUP_EMPTY)
refused("Put to who was not started", win.Put, one, rank)
refused("Lock while started", win.Lock, right, MPI.LOCK_SHARED)
win.Complete()
win.Wait()
refused("Wait twice", win.Wait)

win.Lock(rank)
refused("Free while locked", win.Free)
win.Unlock(rank)
comm.Barrier()

refused("Create with a unit of 0", MPI.Win.Create, memory, 0, comm=comm)
refused("Create on bytes", MPI.Win.Create, b"abc", comm=comm)
refused("Allocate less than nothing", MPI.Win.Allocate, -1, comm=comm)
refused("Attach to what has its memory", win.Attach, bytearray(8))

key = MPI.Win.Create_keyval(delete_fn=lambda found, keyval, value: print(f"rank {rank}: deleted {value}"))
win.Set_attr(key, "attribute")
print(f"rank {rank}: attribute {win.Get_attr(key)} size {win.Get_attr(MPI.WIN_SIZE)} unit {win.attrs[2]}")
win.name = "a name"
print(f"rank {rank}: name {win.name} members {win.group_size} {win.group_rank} null {MPI.WIN_NULL.name}")
win.Set_errhandler(MPI.ERRORS_ARE_FATAL)
print(f"rank {rank}: fatal {win.Get_errhandler() == MPI.ERRORS_ARE_FATAL}")
handler = MPI.Win.Create_errhandler(
    lambda found, code: print(f"rank {rank}: handler {found == win} {CLASSES[MPI.Get_error_class(code)]}")
)
win.Set_errhandler(handler)
win.Put(one, right)
win.Call_errhandler(MPI.ERR_OTHER)
win.Set_errhandler(MPI.ERRORS_RETURN)
handler.Free()
win.Free()
MPI.Win.Free_keyval(key)
refused("Fence on nothing", win.Fence)
refused("Free of nothing", win.Free)
