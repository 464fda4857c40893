# ranks: 1 2 3
"""Every predefined operation in accumulate, get-accumulate and fetch-and-op; compare and swap."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right = (rank + 1) % size

OPERATIONS = [
    "SUM", "PROD", "MAX", "MIN", "LAND", "LOR", "LXOR", "BAND", "BOR", "BXOR", "REPLACE",
]  # fmt: skip
memory = np.zeros(4, "i4")
win = MPI.Win.Create(memory, 4, comm=comm)
for name in OPERATIONS:
    memory[:] = [6, 0, -3, 12]
    win.Fence()
    win.Accumulate(np.array([3, 5, 0, rank], "i4"), right, op=getattr(MPI, name))
    win.Fence()
    print(f"rank {rank}: {name} {memory.tolist()}")
    comm.Barrier()

for name in [*OPERATIONS, "NO_OP"]:
    memory[:] = [6, 0, -3, 12]
    before, one = np.zeros(4, "i4"), np.zeros(1, "i4")
    comm.Barrier()
    win.Lock(right)
    win.Get_accumulate(np.array([3, 5, 0, rank], "i4"), before, right, op=getattr(MPI, name))
    win.Unlock(right)
    comm.Barrier()
    win.Lock(right, MPI.LOCK_SHARED)
    win.Fetch_and_op(np.array([7], "i4"), one, right, 3, getattr(MPI, name))
    win.Unlock(right)
    comm.Barrier()
    win.Lock(rank)
    print(f"rank {rank}: fetched {name} {before.tolist()} {one.tolist()} {memory.tolist()}")
    win.Unlock(rank)

# A ticket counter: every rank gets another number.
comm.Barrier()
win.Lock(rank)
memory[:] = 0
win.Unlock(rank)
comm.Barrier()
tickets = []
for _ in range(3):
    ticket = np.zeros(1, "i4")
    win.Lock(0, MPI.LOCK_SHARED)
    win.Fetch_and_op(np.ones(1, "i4"), ticket, 0)
    win.Unlock(0)
    tickets.append(int(ticket[0]))
everything = sorted(ticket for some in comm.allgather(tickets) for ticket in some)
print(f"rank {rank}: all tickets {everything}, mine in order {tickets == sorted(tickets)}")

# One of all wins.
comm.Barrier()
found = np.full(1, -1, "i4")
win.Lock(0)
win.Compare_and_swap(np.array([rank + 1], "i4"), np.array([0], "i4"), found, 0, 1)
win.Unlock(0)
winners = comm.allgather(int(found[0]) == 0)
print(f"rank {rank}: winners {sum(winners)}")
win.Free()

pairs = np.zeros(2, np.dtype([("value", "f8"), ("index", "i4")], align=True))
win = MPI.Win.Create(memoryview(pairs.view("u1")), pairs.itemsize, comm=comm)
win.Fence()
mine = np.array([(rank * 2.5, rank)], pairs.dtype)
win.Accumulate([memoryview(mine.view("u1")), 1, MPI.DOUBLE_INT], 0, [1, 1, MPI.DOUBLE_INT], MPI.MAXLOC)
win.Fence()
print(f"rank {rank}: largest {pairs['value'].tolist()} {pairs['index'].tolist()}")
win.Free()
