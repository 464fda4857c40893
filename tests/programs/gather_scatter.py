# ranks: 1 2 3 4
"""Gather and Scatter, with every root and with IN_PLACE."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

for root in range(size):
    everything = np.zeros((size, 2), dtype="i8") if rank == root else None
    comm.Gather(np.array([rank, rank**2], dtype="i8"), everything, root=root)
    if rank == root:
        print(f"rank {rank}: gathered {everything.tolist()}")
    source = np.arange(size * 3, dtype="f8").reshape(size, 3) + 100 * root if rank == root else None
    part = np.zeros(3)
    comm.Scatter(source, part, root=root)
    print(f"rank {rank}: from {root} {part.tolist()}")

# In place: the root's own part is where it belongs already.
if rank == 0:
    table = np.zeros(size, dtype="i4")
    table[0] = 77
    comm.Gather(MPI.IN_PLACE, table, root=0)
    print(f"rank {rank}: in place {table.tolist()}")
    source = np.arange(size, dtype="i4") + 5
    comm.Scatter(source, MPI.IN_PLACE, root=0)
    print(f"rank {rank}: own part {source[0]}")
else:
    comm.Gather(np.array([rank], dtype="i4"), None, root=0)
    part = np.zeros(1, dtype="i4")
    comm.Scatter(None, part, root=0)
    print(f"rank {rank}: part {part[0]}")

# Objects.
print(f"rank {rank}: gather {comm.gather({'rank': rank}, root=size - 1)}")
print(f"rank {rank}: scatter {comm.scatter([f'for {peer}' for peer in range(size)] if rank == 0 else None)}")
print(f"rank {rank}: gather of None {comm.gather(None)}")

# Counts that are spelled out; large parts.
box = np.zeros(2 * size) if rank == 0 else None
comm.Gather([np.array([rank, 0.5, 9.0]), 2, MPI.DOUBLE], [box, 2, MPI.DOUBLE] if rank == 0 else None)
if rank == 0:
    print(f"rank {rank}: counted {box.tolist()}")
large = np.zeros((size, 30_000)) if rank == 0 else None
comm.Gather(np.full(30_000, float(rank)), large)
if rank == 0:
    print(f"rank {rank}: large {large.sum(axis=1).tolist()}")
