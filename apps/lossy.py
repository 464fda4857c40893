"""The accuracy that a solver loses when contributions are missing: heat and CG over collectives that outlive failures.

Under FTCO a collective operation leaves out who has died, and the program goes on.  What a dead rank owned is lost for
good.  This program measures what that costs those who live, for two solvers on a square of n x n points, of which each
rank owns some rows.  In each step an Allgather gives everybody the outermost rows of every rank.

heat  explicit Euler steps of the heat equation from sin(pi x) sin(pi y), whose exact discrete solution is known.
      After a loss something has to stand for the rows of the dead, by --fill: zero (a cold hole), last (what they were)
      or linear (a straight line in time through the last two, one more step on; see xsim_py.ftco.replace)
cg    conjugate gradients for the Poisson equation, with Allreduces for the dot products.  After a loss it begins anew
      from where it is; what the dead had found stays as it was, and the others solve for the rest

    xsim run -n 8 --ft --collectives ftco --set mpi.ftco.missing=zero lossy.py --die 3@50 --fill linear
"""

from __future__ import annotations

import argparse
import math
import os
import signal

import numpy as np
from mpi4py import MPI

FILLS = ("zero", "last", "linear")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--solver", choices=("heat", "cg"), default="heat", help="what is solved (default: heat)")
    add("--fill", choices=FILLS, default="zero", help="under heat, what stands for lost rows (default: zero)")
    add("--n", type=int, default=32, help="points along one side (default: 32)")
    add("--steps", type=int, default=200, help="steps, or iterations at most (default: 200)")
    add("--die", type=death, metavar="RANK@STEP", action="append", default=[], help="this rank dies before this step")
    return parser.parse_args()


def death(text: str) -> tuple[int, int]:
    """Return the two numbers of RANK@STEP."""
    rank, _, step = text.partition("@")
    if not (rank.isdecimal() and step.isdecimal()):
        raise argparse.ArgumentTypeError(f"'{text}' is not RANK@STEP, as in 2@20")
    return int(rank), int(step)


class Rows:
    """The rows [first, end) of a rank, and what all know of the others' outermost ones.

    Attributes
    ----------
    lost : tuple of int
        The ranks whose rows were missing the last time.
    """

    def __init__(self, comm: MPI.Comm, arguments: argparse.Namespace) -> None:
        self.comm, self.n, self.fill = comm, arguments.n, arguments.fill
        self.first, self.end = (self.n * place // comm.size for place in (comm.rank, comm.rank + 1))
        self.deaths = dict(arguments.die)
        self.lost: tuple[int, ...] = ()
        self._before: list[np.ndarray] = []

    def begin(self, step: int) -> None:
        """Die, if it is time."""
        if self.deaths.get(self.comm.rank) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def laplacian(self, field: np.ndarray, *, filled: bool = False) -> np.ndarray:
        """Return 4 u - (its four neighbours), with u zero outside; `field` has shape (rows, n)."""
        n, size, rank = self.n, self.comm.size, self.comm.rank
        mine = np.concatenate([field[0], field[-1], [1.0]])  # the one says that somebody is there
        edges = np.zeros((size, 2 * n + 1))
        if filled and self.fill != "zero" and len(self._before) == 2:
            from xsim_py import ftco  # whoever wants something else than zeros has to be simulated

            older, last = self._before
            guess = last.copy() if self.fill == "last" else 2 * last - older
            guess[:, -1] = 0.0
            ftco.replace(self.comm, lambda who: guess[who])
            self.comm.Allgather(mine, edges)
            ftco.replace(self.comm, None)  # sums are over those who live
        else:
            self.comm.Allgather(mine, edges)
        self.lost = tuple(np.flatnonzero(edges[:, -1] == 0).tolist())
        self._before = [*self._before, edges][-2:]
        halo = np.zeros((len(field) + 2, n + 2))
        halo[1:-1, 1:-1] = field
        halo[0, 1:-1] = edges[rank - 1, n : 2 * n] if rank else 0.0
        halo[-1, 1:-1] = edges[rank + 1, :n] if rank + 1 < size else 0.0
        return 4 * field - halo[:-2, 1:-1] - halo[2:, 1:-1] - halo[1:-1, :-2] - halo[1:-1, 2:]

    def total(self, value: float, operation: MPI.Op = MPI.SUM) -> float:
        """Return what all who live have together."""
        found = np.zeros(1)
        self.comm.Allreduce(np.array([float(value)]), found, op=operation)
        return float(found[0])


def heat(rows: Rows, steps: int) -> tuple[float, float]:
    """Return the largest error of those who live, and the largest value of the exact solution."""
    points = np.arange(1, rows.n + 1) / (rows.n + 1)
    mode = np.outer(np.sin(math.pi * points), np.sin(math.pi * points))[rows.first : rows.end]
    field, ratio = mode, 0.1
    for step in range(steps):
        rows.begin(step)
        field = field - ratio * rows.laplacian(field, filled=True)
    decay = (1 - 8 * ratio * math.sin(math.pi / (2 * (rows.n + 1))) ** 2) ** steps
    return rows.total(float(np.abs(field - decay * mode).max()), MPI.MAX), decay


def conjugate_gradient(rows: Rows, most: int) -> tuple[float, float]:
    """Return the largest error of those who live, and the largest value of the exact solution."""
    points = np.arange(1, rows.n + 1) / (rows.n + 1)
    exact = np.outer(points * (1 - points) * np.exp(points), np.sin(2 * points) * (1 - points))
    padded = np.pad(exact, 1)
    right = 4 * exact - padded[:-2, 1:-1] - padded[2:, 1:-1] - padded[1:-1, :-2] - padded[1:-1, 2:]
    mine = slice(rows.first, rows.end)
    x, residual = np.zeros_like(exact[mine]), right[mine].copy()
    direction, known = residual, ()
    square = start = rows.total(float(np.sum(residual**2)))
    for iteration in range(most):
        rows.begin(iteration)
        product = rows.laplacian(direction)
        if rows.lost != known:  # directions are not conjugate any more
            known, direction = rows.lost, residual
            square = rows.total(float(np.sum(residual**2)))
            product = rows.laplacian(direction)
        if square <= 1e-24 * start:
            break
        alpha = square / rows.total(float(np.sum(direction * product)))
        x, residual = x + alpha * direction, residual - alpha * product
        before, square = square, rows.total(float(np.sum(residual**2)))
        direction = residual + square / before * direction
    return rows.total(float(np.abs(x - exact[mine]).max()), MPI.MAX), float(exact.max())


def main() -> None:
    """Solve, and let the first of those who live say how wrong it is."""
    arguments, comm = parse_arguments(), MPI.COMM_WORLD
    if not 1 <= comm.size <= arguments.n or arguments.steps < 0:
        complaint = f"lossy: {comm.size} ranks need as many rows at least (--n), and --steps is zero or more"
        raise SystemExit(complaint if comm.rank == 0 else 1)
    rows = Rows(comm, arguments)
    error, largest = (heat if arguments.solver == "heat" else conjugate_gradient)(rows, arguments.steps)
    if comm.rank == int(rows.total(comm.rank, MPI.MIN)):
        print(f"{arguments.solver}: error {error / largest:.3e} of the largest value, lost: {list(rows.lost)}")


if __name__ == "__main__":
    main()
