# ranks: 1 2 3 5
"""Allgather and Allgatherv."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

table = np.zeros((size, 2))
comm.Allgather(np.array([rank, rank / 2]), table)
print(f"rank {rank}: {table.tolist()}")
table[:] = 0
table[rank] = (rank, -rank)
comm.Allgather(MPI.IN_PLACE, table)
print(f"rank {rank}: in place {table.tolist()}")
print(f"rank {rank}: objects {comm.allgather(chr(65 + rank) * rank)}")

counts = [(peer + 1) % 3 for peer in range(size)]
box = np.full(sum(counts), -1, dtype="i4")
comm.Allgatherv(np.full(counts[rank], rank, dtype="i4"), [box, counts])
print(f"rank {rank}: v {box.tolist()}")
displacements = [2 * peer for peer in range(size)]
box = np.full(2 * size, -1, dtype="i4")
box[displacements[rank] : displacements[rank] + counts[rank]] = 10 * rank
comm.Allgatherv(MPI.IN_PLACE, [box, counts, displacements, MPI.INT])
print(f"rank {rank}: v in place {box.tolist()}")

for length in (1, 100, 10_000, 50_001):
    large = np.zeros((size, length))
    comm.Allgather(np.full(length, rank + 1.0), large)
    print(f"rank {rank}: length {length}, sums {large.sum(axis=1).tolist()}")

# Three elements sent, received as a type of three.
triple = MPI.INT.Create_contiguous(3).Commit()
box = np.zeros(3 * size, dtype="i4")
comm.Allgather([np.arange(3, dtype="i4") + rank, 3, MPI.INT], [box, 1, triple])
print(f"rank {rank}: triples {box.tolist()}")
triple.Free()
