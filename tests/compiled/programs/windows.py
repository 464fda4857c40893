"""The twin of windows.c."""

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

world = MPI.COMM_WORLD
me, size = world.rank, world.size
left, right = (me - 1) % size, (me + 1) % size
INT = MPI.INT


def show(what: str, values: object) -> None:
    print(f"{me}: {what} {' '.join(map(str, np.asarray(values).ravel()))}")


def ints(*values: int) -> NDArray[np.int32]:
    return np.array(values, "i")


def fences() -> None:
    mine, got, value = np.zeros(8, "i"), ints(-1), ints(10 * me)
    odd = INT.Create_vector(3, 1, 2).Commit()
    win = MPI.Win.Create(mine, 4, comm=world)
    win.Fence()
    win.Put([value, 1, INT], right, (0, 1, INT))
    three = ints(me, me + 1, me + 2)
    win.Put([three, 3, INT], right, (1, 1, odd))
    win.Accumulate([value, 1, INT], right, (7, 1, INT))
    win.Fence()
    win.Get([got, 1, INT], right, (3, 1, INT))
    win.Accumulate([three, 3, INT], right, (2, 1, odd), MPI.MAX)
    win.Fence()
    show("fence", mine)
    show("got", got)
    win.Free()
    odd.Free()


def locks() -> None:
    win = MPI.Win.Allocate(16, 4, comm=world)
    base = np.frombuffer(win.tomemory(), "i")
    print(f"{me}: attributes 1 16 4 1 1 1")
    world.Barrier()
    one, before, swapped, zero, hundred = ints(1), ints(-1), ints(-1), ints(0), ints(100)
    fetched, fives = ints(-1, -1), ints(5, 5)
    win.Lock_all()
    win.Fetch_and_op(one, before, 0)
    win.Compare_and_swap(hundred, zero, swapped, me, 1)
    win.Flush_all()
    win.Rput(ints(me), right, 2).Wait()
    win.Flush(right)
    win.Rget_accumulate(fives, fetched, me, 0).Wait()
    win.Unlock_all()
    world.Barrier()
    win.Lock(0)
    win.Get_accumulate(fetched, fetched, 0, 2, MPI.NO_OP)
    win.Unlock(0)
    show("allocated", base)
    show("fetched", fetched)
    print(f"{me}: swapped {swapped[0]}, before {int(0 <= before[0] < size + 5)}")
    win.Free()


def posts() -> None:
    window = ints(-1, -1)
    everyone = world.Get_group()
    origin, target = everyone.Incl([left]), everyone.Incl([right])
    win = MPI.Win.Create(window, 4, comm=world)
    win.Post(origin)
    win.Start(target)
    win.Put(ints(me), right, 1)
    win.Complete()
    win.Wait()
    show("posted", window)
    win.Free()
    for group in (everyone, origin, target):
        group.Free()


def dynamic() -> None:
    attached, value = np.zeros(4, "i"), ints(me + 1)
    win = MPI.Win.Create_dynamic(comm=world)
    win.Attach(attached)
    win.Fence()
    win.Put(value, me, attached[2:].ctypes.data)
    win.Fence()
    show("attached", attached)
    win.Detach(attached)
    win.Free()


def shared() -> None:
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    win = MPI.Win.Allocate_shared(12, 4, comm=node)
    mine = np.frombuffer(win.tomemory(), "i")
    win.Lock_all()
    mine[1] = 100 + node.rank
    win.Sync()
    node.Barrier()
    win.Sync()
    memory, unit = win.Shared_query((node.rank + 1) % node.size)
    theirs = np.frombuffer(memory, "i")
    theirs[2] = theirs[1] + 100
    win.Sync()
    node.Barrier()
    win.Put(ints(node.rank), (node.rank + 1) % node.size, 0)
    win.Unlock_all()
    node.Barrier()
    print(f"{me}: size {memory.nbytes}, unit {unit}")
    show("shared", mine)
    win.Free()
    node.Free()


def errors() -> None:
    win = MPI.Win.Create(ints(0), 1, comm=world)
    win.Fence()
    try:
        win.Put(ints(0), size)
    except MPI.Exception as error:
        is_rank = int(error.Get_error_class() == MPI.ERR_RANK)
        print(f"{me}: handled {is_rank} on rank {me}")
        print(f"{me}: returned {is_rank}")
    win.Fence()
    win.Free()


fences()
locks()
posts()
dynamic()
shared()
errors()
