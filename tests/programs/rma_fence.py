# ranks: 1 2 3 4
"""Active target communication between fences: put, get and accumulate, with displacements and derived datatypes."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size

memory = np.full(12, -1.0)
win = MPI.Win.Create(memory, memory.itemsize, comm=comm)
win.Fence(MPI.MODE_NOPRECEDE)
win.Put(np.array([rank, rank + 0.5]), right, 2)
win.Fence(MPI.MODE_NOSTORE)
print(f"rank {rank}: put {memory.tolist()}")
win.Fence()  # others may not change what this rank reads until it has

got = np.zeros(4)
win.Get(got, left, [1, 4, MPI.DOUBLE])
win.Fence()
print(f"rank {rank}: got {got.tolist()}")

win.Accumulate(np.arange(3.0) + rank, 0, 4, MPI.SUM)
win.Fence()
win.Accumulate(np.array([10.0 * rank]), size - 1, (7, 1), MPI.MAX)
win.Fence()
print(f"rank {rank}: accumulated {memory.tolist()}")
win.Fence()  # others may not change what this rank reads until it has

# Every other element of the target, from a column at the origin.
spread = MPI.DOUBLE.Create_vector(3, 1, 2).Commit()
grid = np.arange(6.0).reshape(3, 2) + 100 * rank
column = MPI.DOUBLE.Create_vector(3, 1, 2).Commit()
win.Put([grid, 1, column], right, [6, 1, spread])
win.Fence()
print(f"rank {rank}: scattered {memory.tolist()}")
win.Fence()  # others may not change what this rank reads until it has
back = np.zeros((3, 2))
win.Get([back, 1, column], right, [6, 1, spread])
win.Fence()
print(f"rank {rank}: gathered {back.tolist()}")
win.Accumulate([grid, 1, column], right, [6, 1, spread], MPI.SUM)
win.Fence(MPI.MODE_NOSUCCEED)
print(f"rank {rank}: added {memory.tolist()}")

# Nothing happens to the dummy process.
win.Fence()
win.Put(None, MPI.PROC_NULL)
win.Get(None, MPI.PROC_NULL)
win.Accumulate([None, MPI.INT], MPI.PROC_NULL)
win.Fence(MPI.MODE_NOSUCCEED)
spread.Free()
column.Free()
win.Free()
print(f"rank {rank}: freed {win == MPI.WIN_NULL}")

# Units of displacements of each rank's own, and ranks that show no memory.
bytes_here = bytearray(8 * size if rank == 0 else 0)
win = MPI.Win.Create(bytes_here if rank == 0 else None, 8 if rank == 0 else 1, comm=comm)
win.Fence()
win.Put([np.array([rank * 11], "i8"), MPI.INT64_T], 0, rank)
win.Fence(MPI.MODE_NOSUCCEED)
win.Free()
print(f"rank {rank}: at rank 0 {np.frombuffer(bytes_here, 'i8').tolist()}")
