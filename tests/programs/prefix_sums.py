# ranks: 1 2 3 5
"""Prefix sums of a distributed array: by Exscan, and by hand with doubling distances."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

values = np.array([(rank * 7 + place * 3) % 11 for place in range(rank + 2)], dtype="i8")
local = np.cumsum(values)
offset = np.zeros(1, dtype="i8")
comm.Exscan(local[-1:], offset)
if rank == 0:
    offset[0] = 0  # undefined there
print(f"rank {rank}: {(local + offset).tolist()}")

# Hillis and Steele: after step k everyone has the sum over the 2^k ranks that end with itself.
total = local[-1:].copy()
distance = 1
while distance < size:
    dest = rank + distance if rank + distance < size else MPI.PROC_NULL
    source = rank - distance if rank >= distance else MPI.PROC_NULL
    incoming = np.zeros(1, dtype="i8")
    comm.Sendrecv(total, dest=dest, recvbuf=incoming, source=source)
    total += incoming
    distance *= 2
print(f"rank {rank}: by hand {total[0]}, same {total[0] == local[-1] + offset[0]}")

# Compaction: keep the even values and find out where each goes.
kept = values[values % 2 == 0]
start = comm.exscan(len(kept)) or 0
print(f"rank {rank}: {len(kept)} kept, places from {start}, of {comm.allreduce(len(kept))}")
everything = comm.gather(kept.tolist())
if rank == 0:
    print(f"rank {rank}: compact {[value for part in everything for value in part]}")
