# ranks: 1 2 4 5
"""Sub-grids of a Cartesian communicator: rows, columns and planes."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
dims = MPI.Compute_dims(size, 3)
grid = comm.Create_cart(dims, periods=[False, True, False])
print(f"rank {rank}: dims {dims} coords {grid.coords}")

for remain in ([True, False, False], [False, True, False], [True, True, False], [False, False, False], [True] * 3):
    part = grid.Sub(remain)
    print(f"rank {rank}: {remain} size {part.size} rank {part.rank} members {part.allgather(rank)}")
    if part.Get_dim():
        print(f"rank {rank}: {remain} dims {part.dims} periods {part.periods} coords {part.coords}")
    part.Free()

# A matrix-vector product on a 2D grid: broadcast down the columns, add up along the rows.
dims = MPI.Compute_dims(size, 2)
plane = comm.Create_cart(dims)
row, column = plane.Sub([False, True]), plane.Sub([True, False])
block = np.full((2, 2), rank + 1.0)
vector = np.array([1.0, 2.0]) * (plane.coords[1] + 1) if plane.coords[0] == 0 else np.zeros(2)
column.Bcast(vector, root=0)
result = np.zeros(2)
row.Reduce(block @ vector, result, op=MPI.SUM, root=0)
if row.rank == 0:
    print(f"rank {rank}: product {result.tolist()}")
print(f"rank {rank}: vector {vector.tolist()}")
for one in (row, column, plane, grid):
    one.Free()
