"""Heat equation in two dimensions on a Cartesian grid of ranks, with halo exchange.

The temperature u on the unit square obeys du/dt = u_xx + u_yy, is zero on the border, and starts as
sin(pi x) sin(pi y).  Explicit Euler steps on the 5-point grid multiply this mode by a known factor each, so
the exact discrete solution is known, and the program checks itself against it.

Each rank owns a rectangle of points with a rim one point wide (the halo) for its neighbours' values.
Rows lie side by side in memory; a column is a strided vector, for which MPI has a derived datatype.

    mpiexec -n 4 python heat2d.py --nx 64 --ny 64 --steps 100
"""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

TOLERANCE = 1e-12


class Block(NamedTuple):
    """The points [start, stop) that one rank owns along one axis, counted from 1 (0 is the border)."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """Return the number of points."""
        return self.stop - self.start


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nx", type=int, default=64, help="inner grid points in x (rows)")
    parser.add_argument("--ny", type=int, default=64, help="inner grid points in y (columns)")
    parser.add_argument("--steps", type=int, default=100, help="time steps")
    return parser.parse_args()


def own_block(points: int, parts: int, part: int) -> Block:
    """Return block number `part` of `points` points cut into `parts` nearly equal pieces."""
    return Block(1 + points * part // parts, 1 + points * (part + 1) // parts)


def sine_mode(rows: Block, columns: Block, nx: int, ny: int) -> np.ndarray:
    """Return sin(pi x) sin(pi y) on a rank's block, halo included, shape (rows + 2, columns + 2)."""
    x = np.arange(rows.start - 1, rows.stop + 1) / (nx + 1)
    y = np.arange(columns.start - 1, columns.stop + 1) / (ny + 1)
    return np.outer(np.sin(math.pi * x), np.sin(math.pi * y))


def exchange_halo(grid: MPI.Cartcomm, field: np.ndarray, column: MPI.Datatype) -> None:
    """Fill the rim of `field` with the neighbours' values; at the border it does not change."""
    up, down = grid.Shift(0, 1)
    left, right = grid.Shift(1, 1)
    grid.Sendrecv(field[1, 1:-1], dest=up, recvbuf=field[-1, 1:-1], source=down)
    grid.Sendrecv(field[-2, 1:-1], dest=down, recvbuf=field[0, 1:-1], source=up)
    # One `column` starts at the given point and takes every row of the block.
    points, width = field.reshape(-1), field.shape[1]
    grid.Sendrecv(
        [points[width + 1 :], 1, column], dest=left, recvbuf=[points[2 * width - 1 :], 1, column], source=right
    )
    grid.Sendrecv([points[2 * width - 2 :], 1, column], dest=right, recvbuf=[points[width:], 1, column], source=left)


def step(field: np.ndarray, rx: float, ry: float) -> np.ndarray:
    """Return the field after one explicit Euler step; rx = dt / dx**2, ry = dt / dy**2."""
    inner = field[1:-1, 1:-1]
    new = field.copy()
    new[1:-1, 1:-1] = (
        inner
        + rx * (field[2:, 1:-1] - 2 * inner + field[:-2, 1:-1])
        + ry * (field[1:-1, 2:] - 2 * inner + field[1:-1, :-2])
    )
    return new


def decay_per_step(nx: int, ny: int, rx: float, ry: float) -> float:
    """Return the factor by which one step multiplies the sine mode: an eigenvalue of the 5-point step."""
    sin_x = math.sin(math.pi / (2 * (nx + 1)))
    sin_y = math.sin(math.pi / (2 * (ny + 1)))
    return 1.0 - 4.0 * rx * sin_x**2 - 4.0 * ry * sin_y**2


def solve(grid: MPI.Cartcomm, nx: int, ny: int, steps: int) -> tuple[float, float]:
    """Run the steps and return the sum of all temperatures and the largest error, the same on every rank."""
    (parts_x, parts_y), _, (part_x, part_y) = grid.Get_topo()
    rows, columns = own_block(nx, parts_x, part_x), own_block(ny, parts_y, part_y)
    dt = 0.2 / ((nx + 1) ** 2 + (ny + 1) ** 2)  # stable: rx + ry = 0.2, and the limit is 0.5
    rx, ry = dt * (nx + 1) ** 2, dt * (ny + 1) ** 2

    start = sine_mode(rows, columns, nx, ny)
    field = start
    column = MPI.DOUBLE.Create_vector(rows.length, 1, columns.length + 2).Commit()
    for _ in range(steps):
        exchange_halo(grid, field, column)
        field = step(field, rx, ry)
    column.Free()

    exact = start * decay_per_step(nx, ny, rx, ry) ** steps
    error = float(np.abs(field - exact)[1:-1, 1:-1].max())
    checksum = float(field[1:-1, 1:-1].sum())
    return grid.allreduce(checksum, op=MPI.SUM), grid.allreduce(error, op=MPI.MAX)


def main() -> None:
    """Lay out the grid of ranks, solve, and print the checksum and the error on rank 0."""
    comm = MPI.COMM_WORLD
    arguments = parse_arguments()
    dims = MPI.Compute_dims(comm.size, 2)
    if arguments.nx < dims[0] or arguments.ny < dims[1] or arguments.steps < 0:
        complaint = (
            f"heat2d: a grid of {arguments.nx} x {arguments.ny} points is too small"
            f" for {dims[0]} x {dims[1]} ranks (or the number of steps is negative)"
        )
        raise SystemExit(complaint if comm.rank == 0 else 1)
    grid = comm.Create_cart(dims, periods=[False, False])
    begin = MPI.Wtime()
    checksum, error = solve(grid, arguments.nx, arguments.ny, arguments.steps)
    elapsed = comm.reduce(MPI.Wtime() - begin, op=MPI.MAX)
    if comm.rank == 0:
        print(f"heat2d: {arguments.nx} x {arguments.ny} points on {dims[0]} x {dims[1]} ranks, {arguments.steps} steps")
        print(f"checksum: {checksum:.9e}")
        print(f"agrees with the exact decay: {error < TOLERANCE}")
        print(f"time: {elapsed * 1e6:.3f} us")
    grid.Free()
    if error >= TOLERANCE:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
