# ranks: 1 2 4
"""Matrix multiplication, by rows and by Cannon's algorithm, checked against numpy."""

import math

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
N = 8

generator = np.random.default_rng(3)
a, b = generator.integers(-5, 6, (N, N)), generator.integers(-5, 6, (N, N))
expected = a @ b

# By rows: scatter the rows of a, broadcast b, gather the rows of the product.
rows = np.zeros((N // size, N), dtype=a.dtype)
comm.Scatter(a if rank == 0 else None, rows)
whole_b = b.copy() if rank == 0 else np.zeros_like(b)
comm.Bcast(whole_b)
product = np.zeros_like(expected) if rank == 0 else None
comm.Gather(rows @ whole_b, product)
if rank == 0:
    print(f"rank {rank}: by rows {np.array_equal(product, expected)}, trace {np.trace(product)}")

# Cannon: blocks travel round a torus of p x p ranks.
p = math.isqrt(size)
if p * p == size:
    grid = comm.Create_cart([p, p], periods=[True, True])
    row, column = grid.coords
    n = N // p
    block_a = a[row * n : (row + 1) * n, column * n : (column + 1) * n].copy()
    block_b = b[row * n : (row + 1) * n, column * n : (column + 1) * n].copy()
    source, dest = grid.Shift(1, -row)
    grid.Sendrecv_replace(block_a, dest=dest, source=source)
    source, dest = grid.Shift(0, -column)
    grid.Sendrecv_replace(block_b, dest=dest, source=source)
    block_c = np.zeros((n, n), dtype=a.dtype)
    for _ in range(p):
        block_c += block_a @ block_b
        source, dest = grid.Shift(1, -1)
        grid.Sendrecv_replace(block_a, dest=dest, source=source)
        source, dest = grid.Shift(0, -1)
        grid.Sendrecv_replace(block_b, dest=dest, source=source)
    right = np.array_equal(block_c, expected[row * n : (row + 1) * n, column * n : (column + 1) * n])
    print(f"rank {rank}: Cannon {right}, sum {block_c.sum()}")
    grid.Free()
else:
    print(f"rank {rank}: no square of {size} ranks")
