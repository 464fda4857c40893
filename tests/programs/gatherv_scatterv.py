# ranks: 1 2 3 5
"""Gatherv and Scatterv: parts of different lengths, with gaps, and in place."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
counts = [peer % 3 for peer in range(size)]  # some ranks have nothing
total = sum(counts)

mine = np.full(counts[rank], rank, dtype="i4")
box = np.full(total, -1, dtype="i4") if rank == 0 else None
comm.Gatherv(mine, [box, counts] if rank == 0 else None, root=0)
if rank == 0:
    print(f"rank {rank}: counts only {box.tolist()}")

# Displacements that turn the order round and leave gaps.
displacements = [3 * (size - 1 - peer) for peer in range(size)]
last = size - 1
box = np.full(3 * size, -1, dtype="i4") if rank == last else None
comm.Gatherv(mine, [box, counts, displacements, MPI.INT] if rank == last else None, root=last)
if rank == last:
    print(f"rank {rank}: with gaps {box.tolist()}")
box = np.full(3 * size, -1, dtype="i4") if rank == last else None
target = [box, (counts, displacements), MPI.INT] if rank == last else None
comm.Gatherv([mine, counts[rank], MPI.INT], target, root=last)
if rank == last:
    print(f"rank {rank}: same with a pair {box.tolist()}")

source = np.arange(total, dtype="f8") + 0.5 if rank == 0 else None
part = np.full(3, -1.0)
comm.Scatterv([source, counts, MPI.DOUBLE] if rank == 0 else None, [part, counts[rank], MPI.DOUBLE], root=0)
print(f"rank {rank}: scattered {part.tolist()}")
source = np.arange(3 * size, dtype="f8") if rank == last else None
part[:] = -1
comm.Scatterv([source, counts, displacements, MPI.DOUBLE] if rank == last else None, part[: counts[rank]], root=last)
print(f"rank {rank}: with gaps {part.tolist()}")

# In place at the root.
if rank == 0:
    box = np.full(total + 2, 9, dtype="i4")
    comm.Gatherv(MPI.IN_PLACE, [box, counts, None, MPI.INT], root=0)
    print(f"rank {rank}: in place {box.tolist()}")
    comm.Scatterv([np.arange(total, dtype="i4"), counts], MPI.IN_PLACE, root=0)
else:
    comm.Gatherv(mine, None, root=0)
    comm.Scatterv(None, mine, root=0)
print(f"rank {rank}: mine {mine.tolist()}")
