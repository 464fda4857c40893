# ranks: 1 2 3 5
"""Counting words: hash them to ranks, exchange, count; and a histogram with Reduce_scatter."""

import collections
import zlib

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

text = "it was the best of times it was the worst of times it was the age of wisdom it was the age of foolishness"
words = text.split()[rank::size]
buckets: list[list[str]] = [[] for _ in range(size)]
for word in words:
    buckets[zlib.crc32(word.encode()) % size].append(word)
mine = collections.Counter(word for part in comm.alltoall(buckets) for word in part)
table = comm.gather(sorted(mine.items()), root=0)
print(f"rank {rank}: disjoint {all(zlib.crc32(word.encode()) % size == rank for word in mine)}")
if rank == 0:
    print(f"rank {rank}: {sorted(pair for part in table for pair in part)}")

# Everyone counts its own numbers; everyone ends up with its share of the sums.
numbers = np.random.default_rng(rank).integers(0, 4 * size, 200)
counts = np.bincount(numbers, minlength=4 * size)
share = np.zeros(4, dtype=counts.dtype)
comm.Reduce_scatter_block(counts, share, op=MPI.SUM)
print(f"rank {rank}: histogram {share.tolist()}")
most = comm.allreduce((int(share.max()), 4 * rank + int(share.argmax())), op=MPI.MAXLOC)
print(f"rank {rank}: most frequent {most}, in total {comm.allreduce(int(share.sum()))}")
