# ranks: 1 2 4
"""Contiguous, vector and hvector types: columns of a matrix."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size

matrix = np.arange(20, dtype="f8").reshape(4, 5) + 100 * rank
column = MPI.DOUBLE.Create_vector(4, 1, 5).Commit()
target = np.zeros((4, 5))
comm.Sendrecv([matrix, 1, column], dest=right, recvbuf=[target, 1, column], source=left)
print(f"rank {rank}: column to column {target[:, 0].tolist()}, rest {target[:, 1:].sum()}")

flat = np.zeros(4)
comm.Sendrecv([matrix.ravel()[2:], 1, column], dest=right, recvbuf=flat, source=left)
print(f"rank {rank}: column to array {flat.tolist()}")

target[:] = 0
comm.Sendrecv(flat, dest=right, recvbuf=[target.ravel()[4:], 1, column], source=left)
print(f"rank {rank}: array to column {target[:, 4].tolist()}")

# Two columns wide, with a stride in bytes.
pair = MPI.DOUBLE.Create_hvector(4, 2, 5 * 8).Commit()
wide = np.zeros(8)
comm.Sendrecv([matrix.ravel()[1:], 1, pair], dest=right, recvbuf=wide, source=left)
print(f"rank {rank}: hvector {wide.tolist()}")

row = MPI.DOUBLE.Create_contiguous(5).Commit()
rows = np.zeros((2, 5))
comm.Sendrecv([matrix, 2, row], dest=right, recvbuf=[rows, 2, row], source=left)
print(f"rank {rank}: contiguous {rows.tolist()}")

# A transpose in flight: rows leave, columns arrive.
one = MPI.DOUBLE.Create_vector(4, 1, 4)
columns = one.Create_resized(0, 8).Commit()
square = np.arange(16.0).reshape(4, 4) + rank
turned = np.zeros((4, 4))
comm.Sendrecv([square, 16, MPI.DOUBLE], dest=right, recvbuf=[turned, 4, columns], source=left)
print(f"rank {rank}: transposed {np.array_equal(turned, (np.arange(16.0).reshape(4, 4) + left).T)}")

# The same for a broadcast.
target[:] = matrix if rank == 0 else -1
comm.Bcast([target, 1, column], root=0)
print(f"rank {rank}: broadcast {target.sum()}")
for datatype in (column, pair, row, one, columns):
    datatype.Free()
