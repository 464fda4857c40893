# ranks: 1 2 4
"""Subarrays: blocks of a matrix, scattered and gathered with Alltoallw and with plain messages."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

# Rank 0 hands out vertical strips of a matrix, and takes them back.
rows, width = 3, 2
columns = width * size
whole = np.arange(rows * columns, dtype="i4").reshape(rows, columns) if rank == 0 else None
strip = np.zeros((rows, width), dtype="i4")
strips = [MPI.INT.Create_subarray([rows, columns], [rows, width], [0, width * peer]).Commit() for peer in range(size)]
if rank == 0:
    requests = [comm.Isend([whole, 1, strips[peer]], dest=peer) for peer in range(size)]
    comm.Recv(strip, source=0)
    MPI.Request.Waitall(requests)
else:
    comm.Recv(strip, source=0)
print(f"rank {rank}: strip {strip.tolist()}")
strip += 100 * (rank + 1)
request = comm.Isend(strip, dest=0)
if rank == 0:
    for peer in range(size):
        comm.Recv([whole, 1, strips[peer]], source=peer)
    print(f"rank {rank}: whole {whole.tolist()}")
request.Wait()

# The inner part of a three-dimensional array, in both orders.
cube = np.arange(4 * 4 * 4, dtype="f8").reshape(4, 4, 4) + rank
for order, name in ((MPI.ORDER_C, "C"), (MPI.ORDER_FORTRAN, "Fortran")):
    inner = MPI.DOUBLE.Create_subarray([4, 4, 4], [2, 2, 1], [1, 1, 3], order=order).Commit()
    packed = np.zeros(4)
    comm.Sendrecv([cube, 1, inner], dest=(rank + 1) % size, recvbuf=packed, source=(rank - 1) % size)
    print(f"rank {rank}: {name} {packed.tolist()}, extent {inner.Get_extent()}, true {inner.Get_true_extent()}")
    inner.Free()

# A redistribution from rows to columns: every rank sends a block of its rows to every other.
mine = np.arange(rows * columns, dtype="i4").reshape(rows, columns) + 1000 * rank
turned = np.zeros((rows * size, width), dtype="i4")
down = [MPI.INT.Create_subarray([rows * size, width], [rows, width], [rows * peer, 0]).Commit() for peer in range(size)]
ones, zeros = [1] * size, [0] * size
comm.Alltoallw([mine, (ones, zeros), strips], [turned, (ones, zeros), down])
print(f"rank {rank}: turned {turned.tolist()}")
for datatype in strips + down:
    datatype.Free()
