# ranks: 1 2 3 4
"""Passive target communication: locks, flushes, a counter that all change, requests."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right = (rank + 1) % size

win = MPI.Win.Allocate(8 * 8, 8, comm=comm)
memory = np.frombuffer(win.tomemory(), "i8")
memory[:] = 0
comm.Barrier()

# Read, add, write back: only an exclusive lock makes that right.
value = np.zeros(1, "i8")
for _ in range(5):
    win.Lock(0, MPI.LOCK_EXCLUSIVE)
    win.Get(value, 0)
    win.Flush(0)
    value += 1
    win.Put(value, 0)
    win.Unlock(0)
comm.Barrier()
win.Lock(0, MPI.LOCK_SHARED)
win.Get(value, 0)
win.Unlock(0)
print(f"rank {rank}: counted {value.tolist()}")

# All together, with requests.
comm.Barrier()
win.Lock_all()
request = win.Rput(np.array([rank, rank * rank], "i8"), right, 2)
request.Wait()
win.Flush(right)
comm.Barrier()
back = np.zeros(2, "i8")
win.Rget(back, right, 2).Wait()
print(f"rank {rank}: at the right {back.tolist()}")
requests = [win.Raccumulate(np.array([1], "i8"), other, 5) for other in range(size)]
MPI.Request.Waitall(requests)
win.Flush_local_all()
win.Flush_all()
comm.Barrier()
before = np.zeros(1, "i8")
win.Rget_accumulate(np.array([0], "i8"), before, right, 5, MPI.NO_OP).Wait()
print(f"rank {rank}: added by all {before.tolist()}")
win.Sync()
win.Unlock_all()
print(f"rank {rank}: own memory {memory[2:4].tolist()}")

# Large data, that are not copied when the call is made.
comm.Barrier()
win.Free()
big = MPI.Win.Allocate(1_000_000, 1, comm=comm)
big.Lock(right, MPI.LOCK_SHARED)
data = np.full(1_000_000, rank + 1, "u1")
big.Rput(data, right).Wait()
data[:] = 99
big.Flush_local(right)
big.Unlock(right)
comm.Barrier()
big.Lock(rank)
print(f"rank {rank}: large {set(bytes(big.tomemory()))} {len(big.tomemory())}")
big.Unlock(rank)
big.Free()
