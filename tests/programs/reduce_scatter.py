# ranks: 1 2 3 5
"""Reduce_scatter with its block and non-blocking forms."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

whole = np.arange(2 * size) * (rank + 1)
part = np.zeros(2, dtype=int)
comm.Reduce_scatter_block(whole, part, op=MPI.SUM)
print(f"rank {rank}: block {part.tolist()}")

counts = [(peer + 1) % 3 for peer in range(size)]
whole = np.arange(sum(counts), dtype="f8") + rank
part = np.full(counts[rank], -1.0)
comm.Reduce_scatter(whole, part, recvcounts=counts, op=MPI.MAX)
print(f"rank {rank}: counts {part.tolist()}")

whole = np.arange(2 * size) + 10 * rank
comm.Reduce_scatter(whole, part := np.zeros(2, dtype=int))
print(f"rank {rank}: equal counts {part.tolist()}")

whole = np.ones(size, dtype=int) * (rank + 1)
comm.Reduce_scatter_block(MPI.IN_PLACE, whole, op=MPI.PROD)
print(f"rank {rank}: in place {whole[0]}")

whole = np.arange(3 * size, dtype="i4")
request = comm.Ireduce_scatter_block(whole, part := np.zeros(3, dtype="i4"), op=MPI.SUM)
request.Wait()
print(f"rank {rank}: Ireduce_scatter_block {part.tolist()}")
counts = list(range(size))
whole = np.arange(sum(counts), dtype="i4") * (rank + 1)
request = comm.Ireduce_scatter(whole, part := np.zeros(rank, dtype="i4"), counts, op=MPI.MIN)
request.Wait()
print(f"rank {rank}: Ireduce_scatter {part.tolist()}")
large = np.arange(20_000 * size) % 13
comm.Reduce_scatter_block(large, part := np.zeros(20_000, dtype=int))
print(f"rank {rank}: large {part.sum()}")
