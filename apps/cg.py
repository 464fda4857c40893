"""Conjugate gradient for the Poisson equation on a square, distributed by rows of the grid.

The matrix is the 5-point Laplacian of an n x n grid; it is never stored. Each rank owns some rows of the grid. A
product with the matrix needs the neighbours' nearest rows (a halo exchange), and each dot product is an Allreduce: the
two costs of nearly every Krylov solver.

    mpiexec -n 4 python cg.py --n 32
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from mpi4py import MPI

CHECK_LIMIT = 32  # up to this n the answer is checked against a dense solve


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=32, help="grid points along one side")
    parser.add_argument("--tolerance", type=float, default=1e-8, help="stop when the residual has shrunk by this")
    parser.add_argument("--max-iterations", type=int, default=500)
    parser.add_argument("--every", type=int, default=10, help="iterations between printed lines")
    return parser.parse_args()


def laplacian(comm: MPI.Comm, field: np.ndarray) -> np.ndarray:
    """Return 4 u - (its four neighbours), with u zero outside; `field` is this rank's rows, shape (rows, n)."""
    above = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    below = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    halo = np.zeros((field.shape[0] + 2, field.shape[1] + 2))
    halo[1:-1, 1:-1] = field
    comm.Sendrecv(halo[1], dest=above, recvbuf=halo[-1], source=below)
    comm.Sendrecv(halo[-2], dest=below, recvbuf=halo[0], source=above)
    return 4 * field - halo[:-2, 1:-1] - halo[2:, 1:-1] - halo[1:-1, :-2] - halo[1:-1, 2:]


def dot(comm: MPI.Comm, a: np.ndarray, b: np.ndarray) -> float:
    """Return the dot product of two distributed fields, the same on every rank."""
    mine = np.array([np.sum(a * b)])
    total = np.empty_like(mine)
    comm.Allreduce(mine, total, op=MPI.SUM)
    return float(total[0])


def conjugate_gradient(
    comm: MPI.Comm, right_side: np.ndarray, tolerance: float, max_iterations: int
) -> tuple[np.ndarray, list[float]]:
    """Solve A x = right_side from x = 0 and return x and the norms of all residuals."""
    x = np.zeros_like(right_side)
    residual = right_side.copy()
    direction = residual.copy()
    square = dot(comm, residual, residual)
    norms = [math.sqrt(square)]
    while len(norms) <= max_iterations and norms[-1] > tolerance * norms[0]:
        product = laplacian(comm, direction)
        alpha = square / dot(comm, direction, product)
        x += alpha * direction
        residual -= alpha * product
        previous, square = square, dot(comm, residual, residual)
        direction = residual + (square / previous) * direction
        norms.append(math.sqrt(square))
    return x, norms


def dense_error(comm: MPI.Comm, x: np.ndarray, right_side: np.ndarray, n: int) -> float:
    """Gather the solution on every rank and return its largest difference from numpy's dense solve."""
    counts = np.array(comm.allgather(x.size))
    solution, full_side = np.empty(n * n), np.empty(n * n)
    comm.Allgatherv(x, [solution, counts])
    comm.Allgatherv(right_side, [full_side, counts])
    line = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    matrix = np.kron(line, np.eye(n)) + np.kron(np.eye(n), line)
    return float(np.abs(solution - np.linalg.solve(matrix, full_side)).max())


def main() -> None:
    """Solve with a smooth but not trivial right-hand side and print the residuals on rank 0."""
    comm = MPI.COMM_WORLD
    arguments = parse_arguments()
    n = arguments.n
    if n < comm.size or arguments.every < 1:
        complaint = f"cg: {comm.size} ranks need at least as many rows, and --n is {n} (and --every must be at least 1)"
        raise SystemExit(complaint if comm.rank == 0 else 1)
    rows = np.arange(n * comm.rank // comm.size, n * (comm.rank + 1) // comm.size)
    right_side = np.sin(0.3 + rows[:, None]) + (np.arange(n) % 5)[None, :]

    start = MPI.Wtime()
    x, norms = conjugate_gradient(comm, right_side, arguments.tolerance, arguments.max_iterations)
    elapsed = comm.reduce(MPI.Wtime() - start, op=MPI.MAX)

    converged = norms[-1] <= arguments.tolerance * norms[0]
    error = dense_error(comm, x, right_side, n) if n <= CHECK_LIMIT else None
    agrees = error is None or error < 1e3 * arguments.tolerance
    if comm.rank == 0:
        for iteration in range(0, len(norms), arguments.every):
            print(f"iteration {iteration:4d}: residual {norms[iteration]:.4e}")
        print(f"cg: {'converged' if converged else 'did not converge'} after {len(norms) - 1} iterations")
        if error is not None:
            print(f"agrees with numpy's solve: {agrees}")
        print(f"time: {elapsed * 1e6:.3f} us")
    if not (converged and agrees):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
