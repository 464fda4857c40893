# ranks: 1 2 3 5
"""Odd-even transposition sort of blocks: neighbours merge and split until all is in order."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
COUNT = 6

keys = np.sort(np.random.default_rng(50 + rank).integers(0, 100, COUNT))
before = comm.allgather(keys.tolist())
for phase in range(size):
    partner = rank + 1 if (rank + phase) % 2 == 0 else rank - 1
    if not 0 <= partner < size:
        continue
    other = np.empty_like(keys)
    comm.Sendrecv(keys, dest=partner, recvbuf=other, source=partner)
    both = np.sort(np.concatenate([keys, other]))
    keys = both[:COUNT] if rank < partner else both[COUNT:]
print(f"rank {rank}: {keys.tolist()}")
expected = sorted(key for block in before for key in block)
print(f"rank {rank}: right {expected[rank * COUNT : (rank + 1) * COUNT] == keys.tolist()}")
