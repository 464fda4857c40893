# ranks: 1 2 3 5
"""Alltoall, Alltoallv and Alltoallw."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

mine = np.array([[10 * rank + peer, 0] for peer in range(size)], dtype="i4")
box = np.zeros((size, 2), dtype="i4")
comm.Alltoall(mine, box)
print(f"rank {rank}: {box[:, 0].tolist()}")
comm.Alltoall(MPI.IN_PLACE, mine)
print(f"rank {rank}: in place {mine[:, 0].tolist()}")
print(f"rank {rank}: objects {comm.alltoall([(rank, peer) for peer in range(size)])}")

# Rank r sends (r + p) % 3 numbers to rank p.
counts = [(rank + peer) % 3 for peer in range(size)]
data = np.concatenate([np.full(count, 10 * rank + peer) for peer, count in enumerate(counts)] or [np.zeros(0)])
box = np.full(sum(counts), -1)
comm.Alltoallv([data.astype(int), counts], [box, counts])
print(f"rank {rank}: v {box.tolist()}")
displacements = [3 * (size - 1 - peer) for peer in range(size)]
box = np.full(3 * size, -1)
comm.Alltoallv([data.astype(int), counts, None, MPI.LONG], [box, (counts, displacements), MPI.LONG])
print(f"rank {rank}: v with gaps {box.tolist()}")

# In place: the counts of each pair are equal, as they are here.
box = np.concatenate([np.full(count, 10 * rank + peer) for peer, count in enumerate(counts)]).astype(int)
comm.Alltoallv(MPI.IN_PLACE, [box, counts])
print(f"rank {rank}: v in place {box.tolist()}")

# w: the types differ too.  Even ranks get doubles, odd ranks get ints; displacements are bytes.
ones = [1] * size
types = [MPI.DOUBLE if peer % 2 == 0 else MPI.INT for peer in range(size)]
space = bytearray(8 * size)
for peer in range(size):
    value = np.array([rank + peer / 4]) if peer % 2 == 0 else np.array([100 * rank + peer], dtype="i4")
    space[8 * peer : 8 * peer + value.nbytes] = value.tobytes()
own = "f8" if rank % 2 == 0 else "i4"
box = np.zeros(size, dtype=own)
comm.Alltoallw(
    [space, ones, [8 * peer for peer in range(size)], types],
    [box, ones, [box.itemsize * peer for peer in range(size)], [types[rank]] * size],
)
print(f"rank {rank}: w {box.tolist()}")

for length in (64, 2000, 20_000):
    large = np.zeros((size, length), dtype="i4")
    comm.Alltoall(np.repeat(np.arange(size, dtype="i4") + 10 * rank, length), large)
    print(f"rank {rank}: {length} each, {large.sum(axis=1).tolist()}")
