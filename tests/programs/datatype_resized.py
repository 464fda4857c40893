# ranks: 1 2 4
"""Resized types: columns that lie next to each other, so that Scatter and Gather can deal them out."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

rows = 3
vector = MPI.INT.Create_vector(rows, 1, size)
column = vector.Create_resized(0, 4).Commit()
print(f"rank {rank}: vector extent {vector.Get_extent()}, resized {column.Get_extent()}, size {column.Get_size()}")

matrix = np.arange(rows * size, dtype="i4").reshape(rows, size) if rank == 0 else None
own = np.zeros(rows, dtype="i4")
comm.Scatter([matrix, 1, column] if rank == 0 else None, own, root=0)
print(f"rank {rank}: column {own.tolist()}")
own *= 2
comm.Gather(own, [matrix, 1, column] if rank == 0 else None, root=0)
if rank == 0:
    print(f"rank {rank}: matrix {matrix.tolist()}")

# Every other element, by an extent that is larger than the type.
sparse = MPI.DOUBLE.Create_resized(0, 16).Commit()
data = np.arange(8.0) + 10 * rank
packed = np.zeros(4)
comm.Sendrecv([data, 4, sparse], dest=(rank + 1) % size, recvbuf=packed, source=(rank - 1) % size)
print(f"rank {rank}: every other {packed.tolist()}")

# A lower bound below zero moves nothing but the extent.
shifted = MPI.INT.Create_resized(-4, 12).Commit()
print(f"rank {rank}: lower bound {shifted.Get_extent()}, true {shifted.Get_true_extent()}")
print(f"rank {rank}: bounds {shifted.lb} {shifted.ub}")

# Everyone's columns to everyone: a transpose of blocks.
blocks = np.arange(rows * size, dtype="i4").reshape(rows, size) + 100 * rank
result = np.zeros((size, rows), dtype="i4")
comm.Alltoall([blocks, 1, column], [result, rows, MPI.INT])
print(f"rank {rank}: alltoall {result.tolist()}")
for datatype in (vector, column, sparse, shifted):
    datatype.Free()
