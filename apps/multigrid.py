"""Algebraic multigrid: a setup phase that uses the matrix alone, and V-cycles.

The matrix couples each point of a grid with its four neighbours, by numbers without a pattern, and the solver uses only
the matrix. In the setup phase blocks of 2 x 2 points become one point of a coarser grid, whose couplings are the sums
of those between the blocks (Galerkin's product with piecewise constant interpolation), and so on until two rows are
left, which are solved directly. The solve phase is conjugate gradients, preconditioned by a V-cycle: a step of Jacobi
on each level on the way down, and one on the way up.

Each rank owns some rows. When ranks have one row left, every other one sends its row to the rank before, and waits for
the correction. On coarse levels messages are short and most ranks wait, so that latency dominates (AMG2013 of Lawrence
Livermore National Laboratory has the same two phases).

    mpiexec -n 8 python multigrid.py
    xsim run -n 512 multigrid.py

Validation: rank 0 solves the same system directly, by elimination of one row of the grid after the other.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from mpi4py import MPI

COLUMNS = 16
DAMPING = 2 / 3
STRETCHED = 1.5  # corrections that are constant in blocks are too small (Braess, Computing 55, 1995)
DATA, CORRECTION = 1, 2


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="rows of the grid, a power of two (default: four per rank)")
    parser.add_argument("--columns", type=int, default=COLUMNS, help=f"columns, a power of two (default: {COLUMNS})")
    parser.add_argument("--tolerance", type=float, default=1e-10, help="stop when the residual has shrunk by this")
    parser.add_argument("--max-iterations", type=int, default=200)
    return parser.parse_args()


def complaint(args: argparse.Namespace, ranks: int, rows: int) -> str:
    """Return the problem of the command line, or ""."""
    powers = all(number > 0 and number & (number - 1) == 0 for number in (ranks, rows, args.columns))
    if not powers or rows < 2 * ranks:
        needed = "ranks, rows and columns must be powers of two, with at least two rows per rank"
        return f"{needed}; there are {ranks}, {rows} and {args.columns}"
    if not 0 < args.tolerance < 1:  # NaN is invalid, too
        return f"--tolerance {args.tolerance}: not above 0 and below 1"
    return f"--max-iterations {args.max_iterations}: below 0" if args.max_iterations < 0 else ""


def couplings(row: int, rows: int, columns: int) -> np.ndarray:
    """Return a row of the matrix, shape (3, columns): couplings right, down and to the outside.

    They depend only on the arguments, so that any rank can compute any row.
    """
    drawn = np.random.default_rng([row, columns]).uniform(0.1, 1, (5, columns))
    right, below, outside = drawn[0], drawn[1], np.zeros(columns)
    outside[0] += drawn[2, 0]
    outside[-1] += right[-1]
    right[-1] = 0
    if row == 0:
        outside += drawn[3]
    if row == rows - 1:
        outside += below
        below = np.zeros(columns)
    return np.array([right, below, outside])


class Level:
    """A system on one level: this rank's rows; every `stride`-th rank has some.

    Parameters
    ----------
    comm : MPI.Comm
        All ranks.
    rows : ndarray, shape (3, rows, columns)
        Couplings right, down and to the outside, as in `couplings`.
    stride : int
        The distance to the next rank that has rows.
    """

    def __init__(self, comm: MPI.Comm, rows: np.ndarray, stride: int) -> None:
        self.comm, self.stride = comm, stride
        self.right, self.below, self.outside = rows
        self.previous = comm.rank - stride if comm.rank >= stride else MPI.PROC_NULL
        self.next = comm.rank + stride if comm.rank + stride < comm.size else MPI.PROC_NULL
        first = np.zeros(rows.shape[2])
        comm.Sendrecv(np.ascontiguousarray(self.below[-1]), dest=self.next, recvbuf=first, source=self.previous)
        self.above = np.vstack([first, self.below[:-1]])
        self.left = np.hstack([np.zeros((len(self.right), 1)), self.right[:, :-1]])
        self.diagonal = self.outside + self.right + self.left + self.below + self.above
        self.is_last = len(self.right) * comm.size == 2 * stride
        self.merges = len(self.right) == 2 and comm.size > stride
        self.is_kept = not self.merges or comm.rank // stride % 2 == 0
        self.coarser = None if self.is_last else self._coarsened()

    def _coarsened(self) -> Level | None:
        """Return the next level, or None on a rank without rows there."""
        right, below = self.right[:, self.width - 1 :: self.width], self.below[1::2]
        rows = np.array([pairs(right), wide(below, self.width), self.restricted(self.outside)])
        if not self.is_kept:
            self.comm.Send(rows, dest=self.previous, tag=DATA)
            return None
        if not self.merges:
            return Level(self.comm, rows, self.stride)
        others = np.empty_like(rows)
        self.comm.Recv(others, source=self.next, tag=DATA)
        return Level(self.comm, np.concatenate([rows, others], axis=1), 2 * self.stride)

    @property
    def width(self) -> int:
        """The number of columns merged into one."""
        return min(2, self.right.shape[1])

    def restricted(self, field: np.ndarray) -> np.ndarray:
        """Return the sums over the blocks that become one point."""
        return wide(pairs(field), self.width)

    def times(self, field: np.ndarray) -> np.ndarray:
        """Return the matrix times a field."""
        above, below = np.zeros((2, field.shape[1]))
        self.comm.Sendrecv(field[0], dest=self.previous, recvbuf=below, source=self.next)
        self.comm.Sendrecv(field[-1], dest=self.next, recvbuf=above, source=self.previous)
        product = self.diagonal * field
        product -= self.above * np.vstack([above, field[:-1]]) + self.below * np.vstack([field[1:], below])
        product[:, 1:] -= self.left[:, 1:] * field[:, :-1]
        product[:, :-1] -= self.right[:, :-1] * field[:, 1:]
        return product

    def cycle(self, right_side: np.ndarray) -> np.ndarray:
        """Return an approximate solution of the system: one V-cycle from here down and back."""
        if self.is_last:
            return self.solved(right_side)
        field = DAMPING * right_side / self.diagonal
        field += STRETCHED * self.corrected(self.restricted(right_side - self.times(field)))
        return field + DAMPING * (right_side - self.times(field)) / self.diagonal

    def corrected(self, residual: np.ndarray) -> np.ndarray:
        """Return the correction of the next level for a residual, at the points of this level."""
        comm = self.comm
        if not self.is_kept:
            comm.Send(residual, dest=self.previous, tag=DATA)
            correction = np.empty_like(residual)
            comm.Recv(correction, source=self.previous, tag=CORRECTION)
        elif self.merges:
            others = np.empty_like(residual)
            comm.Recv(others, source=self.next, tag=DATA)
            correction = self.coarser.cycle(np.concatenate([residual, others]))
            comm.Send(correction[1:], dest=self.next, tag=CORRECTION)
            correction = correction[:1]
        else:
            correction = self.coarser.cycle(residual)
        return correction.repeat(2, axis=0).repeat(self.width, axis=1)

    def solved(self, right_side: np.ndarray) -> np.ndarray:
        """Return the solution of the last level, which is on one rank."""
        unit = np.eye(right_side.size).reshape(-1, *right_side.shape)
        matrix = np.array([self.times(each).ravel() for each in unit])
        return np.linalg.solve(matrix, right_side.ravel()).reshape(right_side.shape)

    @property
    def depth(self) -> int:
        """The number of levels with rows on this rank."""
        return 1 + (self.coarser.depth if self.coarser else 0)


def pairs(field: np.ndarray) -> np.ndarray:
    """Return the sums of every two rows."""
    return field[::2] + field[1::2]


def wide(field: np.ndarray, width: int) -> np.ndarray:
    """Return the sums of every `width` columns."""
    return field.reshape(len(field), -1, width).sum(axis=2)


def dot(comm: MPI.Comm, a: np.ndarray, b: np.ndarray) -> float:
    """Return the dot product of two distributed fields, the same on every rank."""
    total = np.zeros(1)
    comm.Allreduce(np.array([np.sum(a * b)]), total, op=MPI.SUM)
    return float(total[0])


def solve(level: Level, right_side: np.ndarray, tolerance: float, most: int) -> tuple[np.ndarray, int]:
    """Return the solution by conjugate gradients with V-cycles, and the number of iterations."""
    comm, x, residual = level.comm, np.zeros_like(right_side), right_side
    norm = enough = math.sqrt(dot(comm, residual, residual))
    enough *= tolerance
    direction, product, iterations = np.zeros_like(x), 1.0, 0
    while norm > enough and iterations < most:
        cycled = level.cycle(residual)
        before, product = product, dot(comm, residual, cycled)
        direction = cycled + product / before * direction
        applied = level.times(direction)
        step = product / dot(comm, direction, applied)
        x, residual, iterations = x + step * direction, residual - step * applied, iterations + 1
        norm = math.sqrt(dot(comm, residual, residual))
    return x, iterations


def eliminated(rows: int, columns: int) -> np.ndarray:
    """Return the solution by elimination, one row of the grid after the other."""
    blocks, sides, links = [], [], []
    for row in range(rows):
        right, below, outside = couplings(row, rows, columns)
        above = links[-1] if row else np.zeros(columns)
        left = np.append(0, right[:-1])
        block = np.diag(outside + right + left + below + above) - np.diag(right[:-1], 1) - np.diag(right[:-1], -1)
        side = np.ones(columns)
        if row:
            block -= above[:, None] * np.linalg.solve(blocks[-1], np.diag(above))
            side += above * np.linalg.solve(blocks[-1], sides[-1])
        blocks.append(block)
        sides.append(side)
        links.append(below)
    solution = np.zeros((rows + 1, columns))
    for row in reversed(range(rows)):
        solution[row] = np.linalg.solve(blocks[row], sides[row] + links[row] * solution[row + 1])
    return solution[:-1]


def main() -> None:
    """Set up, solve, and compare with elimination."""
    args, comm = parse_arguments(), MPI.COMM_WORLD
    rows, columns = 4 * comm.size if args.rows is None else args.rows, args.columns
    if wrong := complaint(args, comm.size, rows):
        raise SystemExit(f"multigrid: {wrong}" if comm.rank == 0 else 1)
    each = rows // comm.size
    mine = np.stack([couplings(comm.rank * each + row, rows, columns) for row in range(each)], axis=1)
    comm.Barrier()
    begin = MPI.Wtime()
    level = Level(comm, mine, 1)
    comm.Barrier()
    ready = MPI.Wtime()
    x, iterations = solve(level, np.ones((each, columns)), args.tolerance, args.max_iterations)
    end = MPI.Wtime()
    whole = np.empty((rows, columns)) if comm.rank == 0 else None
    comm.Gather(x, whole)
    if comm.rank == 0:
        exact = eliminated(rows, columns)
        wrong = float(np.abs(whole - exact).max() / np.abs(exact).max())
        print(f"multigrid: {comm.size} ranks, {rows} x {columns}, {level.depth} levels, {iterations} iterations")
        print(f"# setup {ready - begin:.6f} s, solve {end - ready:.6f} s, off by {wrong:.1e}")
        print(f"right: {wrong < 100 * args.tolerance}", flush=True)


if __name__ == "__main__":
    main()
