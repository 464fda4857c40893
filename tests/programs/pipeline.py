# ranks: 1 2 4 5
"""A pipeline: each rank does one step on every item and hands it on."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
before = rank - 1 if rank > 0 else MPI.PROC_NULL
after = rank + 1 if rank < size - 1 else MPI.PROC_NULL

ITEMS = 8
finished = []
pending: list[MPI.Request] = []
for number in range(ITEMS):
    item = np.array([number, 0, 1], dtype="i8")
    comm.Recv(item, source=before, tag=number)  # leaves the item alone on rank 0
    item[1] += rank + 1
    item[2] *= 2
    pending.append(comm.Isend(item, dest=after, tag=number))
    if after == MPI.PROC_NULL:
        finished.append(item.tolist())
MPI.Request.Waitall(pending)
if finished:
    print(f"rank {rank}: finished {finished}")

# The sieve of Eratosthenes as a pipeline: each rank keeps one prime and drops its multiples.
prime = None
if rank == 0:
    prime = 2
    for number in range(3, 40, 2):
        comm.send(number, dest=after) if size > 1 else None
    comm.send(None, dest=after)
else:
    while (number := comm.recv(source=before)) is not None:
        if prime is None:
            prime = number
        elif number % prime:
            comm.send(number, dest=after)
    comm.send(None, dest=after)
print(f"rank {rank}: prime {prime}")
