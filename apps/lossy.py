"""Accuracy lost to missing contributions: three solvers over fault-tolerant collectives.

Under FTCO a collective operation omits failed ranks, and the program continues. The data of a failed rank are lost
permanently. This program measures the effect on the survivors, for two solvers on a square of n x n points, of which
each rank owns some rows, and for a mean of samples. In each step an Allgather gives all ranks the outermost rows, or
the samples' sums, of every rank.

heat  explicit Euler steps of the heat equation from sin(pi x) sin(pi y), whose exact discrete solution is known.
      After a loss --fill selects the replacement for the lost rows: zero (a cold hole), last (their last values) or
      linear (a straight line in time through the last two, one more step on; see xsim_py.ftco.replace); with only one
      known, linear is last, and with none all are zero
cg    conjugate gradients for the Poisson equation, with Allreduces for the dot products. After a loss it restarts from
      its current state; the values of the failed ranks stay as they were, and the others solve for the rest

    xsim run -n 8 --ft --collectives ftco --set mpi.ftco.missing=zero lossy.py --die 3@50 --fill linear
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import recovery
from ft_mlmc import MU, SIGMA, mean_after, variance_of
from mpi4py import MPI

FILLS = {"heat": ("zero", "last", "linear"), "cg": ("zero",), "mlmc": ("zero", "default", "last", "linear", "weight")}
LEVELS = 4
SAMPLES = (8, 4, 2, 1)  # of each level, per step of a rank


def parse_arguments(ranks: int) -> argparse.Namespace:
    """Read the command line; --die with the number of --steps is after the last step."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--solver", choices=FILLS, default="heat", help="problem to solve (default: heat)")
    add("--fill", choices=FILLS["mlmc"], default="zero", help="replacement of lost data (default: zero)")
    add("--n", type=recovery.positive, default=32, help="points along one side (default: 32)")
    add(
        "--steps",
        type=recovery.natural,
        default=200,
        help="number of steps, or maximum number of iterations (default: 200)",
    )
    add(
        "--estimates",
        type=recovery.positive,
        default=200,
        help="with mlmc, the number of simultaneous estimates (default: 200)",
    )
    add("--seed", type=recovery.natural, default=0, help="with mlmc, the seed of the samples (default: 0)")
    args = parser.parse_args()
    if args.fill not in FILLS[args.solver]:
        parser.error(f"--fill {args.fill} is not for --solver {args.solver}, but {', '.join(FILLS[args.solver])}")
    if args.solver == "mlmc" and args.steps == 0:
        parser.error("--steps 0: the mean needs at least one step")
    if args.solver != "mlmc" and args.n < ranks:
        parser.error(f"--n {args.n}: fewer than one row for each of {ranks} ranks")
    for rank, step in args.die:
        if step > args.steps:
            parser.error(f"--die {rank}@{step}: there are {args.steps} steps, from 0 on")
    return args


class Contributions:
    """The contributions of ranks in each step, and the replacements for failed ranks.

    Attributes
    ----------
    lost : tuple of int
        The ranks whose contributions were missing the last time.
    """

    def __init__(self, comm: MPI.Comm, arguments: argparse.Namespace) -> None:
        self.comm, self.fill, self.deaths = comm, arguments.fill, arguments.die
        self.lost: tuple[int, ...] = ()
        self._last: np.ndarray | None = None
        self._there = np.zeros((comm.size, 1), bool)  # the last one is their contribution
        self._slope = 0.0  # of each rank's last two values, once there are two

    def begin(self, step: int) -> None:
        """Fail, if it is time."""
        recovery.die_at(self.deaths, step)

    def gathered(self, mine: np.ndarray, *, default: np.ndarray | None = None, filled: bool = True) -> np.ndarray:
        """Return all contributions, shape (ranks, numbers); `default` replaces those of failed ranks."""
        said = np.append(mine, 1.0)  # the one marks a present rank
        everything = np.zeros((self.comm.size, len(said)))
        guess = self._guess(default) if filled else None
        if guess is not None:
            from xsim_py import ftco  # replacements other than zero need a simulated run

            ftco.replace(self.comm, lambda who: np.append(guess[who], 0.0))
            self.comm.Allgather(said, everything)
            ftco.replace(self.comm, None)  # sums are over the survivors
        else:
            self.comm.Allgather(said, everything)
        there = everything[:, -1:] == 1.0  # whatever stands for a missing block: NaN, zeros, or a guess
        given = everything[:, :-1] if guess is not None else np.where(there, everything[:, :-1], 0.0)
        self.lost = tuple(np.flatnonzero(~there).tolist())
        if self._last is not None:
            self._slope = np.where(there & self._there, given - self._last, self._slope)
        self._last, self._there = given, there
        return given

    def _guess(self, default: np.ndarray | None) -> np.ndarray | None:
        """Return the replacement for each rank, shape (ranks, numbers); None: zeros."""
        if self.fill == "default":
            return np.tile(default, (self.comm.size, 1))
        if self.fill in ("last", "linear") and self._last is not None:
            return self._last if self.fill == "last" else self._last + self._slope
        return None

    def total(self, value: float, operation: MPI.Op = MPI.SUM) -> float:
        """Return the sum over all survivors."""
        found = np.zeros(1)
        self.comm.Allreduce(np.array([float(value)]), found, op=operation)
        return float(found[0])


class Rows(Contributions):
    """The rows [first, end) of a rank, which sends the outermost ones to all."""

    def __init__(self, comm: MPI.Comm, arguments: argparse.Namespace) -> None:
        super().__init__(comm, arguments)
        self.n = arguments.n
        self.first, self.end = (self.n * place // comm.size for place in (comm.rank, comm.rank + 1))

    def laplacian(self, field: np.ndarray, *, filled: bool = False) -> np.ndarray:
        """Return 4 u - (its four neighbours), with u zero outside; `field` has shape (rows, n)."""
        n, size, rank = self.n, self.comm.size, self.comm.rank
        edges = self.gathered(np.concatenate([field[0], field[-1]]), filled=filled)
        halo = np.zeros((len(field) + 2, n + 2))
        halo[1:-1, 1:-1] = field
        halo[0, 1:-1] = edges[rank - 1, n:] if rank else 0.0
        halo[-1, 1:-1] = edges[rank + 1, :n] if rank + 1 < size else 0.0
        return 4 * field - halo[:-2, 1:-1] - halo[2:, 1:-1] - halo[1:-1, :-2] - halo[1:-1, 2:]


def heat(rows: Rows, steps: int) -> tuple[float, float]:
    """Return the largest error of survivors, and the largest value of the exact solution."""
    points = np.arange(1, rows.n + 1) / (rows.n + 1)
    mode = np.outer(np.sin(math.pi * points), np.sin(math.pi * points))[rows.first : rows.end]
    field, ratio = mode, 0.1
    for step in range(steps):
        rows.begin(step)
        field = field - ratio * rows.laplacian(field, filled=True)
    decay = (1 - 8 * ratio * math.sin(math.pi / (2 * (rows.n + 1))) ** 2) ** steps
    return rows.total(float(np.abs(field - decay * mode).max()), MPI.MAX), decay


def conjugate_gradient(rows: Rows, most: int) -> tuple[float, float]:
    """Return the largest error of the survivors, and the largest exact value."""
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
        if rows.lost != known:  # directions are no longer conjugate
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


def sums(args: argparse.Namespace, rank: int, step: int) -> np.ndarray:
    """Return the sums of a rank's samples of X_l - X_(l-1) in a step, shape (levels, estimates)."""
    drawn = np.random.default_rng([args.seed, rank, step])
    found = np.empty((LEVELS, args.estimates))
    for level, count in enumerate(SAMPLES):
        h = 0.5**level
        moves = SIGMA * math.sqrt(h) * drawn.normal(size=(args.estimates, count, 2**level))
        values = np.prod(1 + MU * h + moves, axis=-1)
        if level:
            values -= np.prod(1 + 2 * MU * h + moves[..., ::2] + moves[..., 1::2], axis=-1)
        found[level] = values.sum(axis=1)
    return found


def multilevel(given: Contributions, args: argparse.Namespace) -> tuple[float, float]:
    """Return the root mean square of the errors of all estimates, and its expectation."""
    comm, ranks = given.comm, given.comm.size
    shape = (ranks, LEVELS, args.estimates)
    default = np.zeros(shape[1:])
    default[0] = SAMPLES[0]
    whole, there = np.zeros(shape[1:]), 0
    lost_at: dict[int, int] = {}
    for step in range(args.steps):
        given.begin(step)
        found = given.gathered(sums(args, comm.rank, step).ravel(), default=default.ravel())
        whole += found.reshape(shape).sum(axis=0)
        there += ranks - len(given.lost)
        lost_at |= {rank: step for rank in given.lost if rank not in lost_at}
    parts = there if args.fill == "weight" else ranks * args.steps
    estimates = (whole / (parts * np.array(SAMPLES)[:, None])).sum(axis=0)
    exact = mean_after(LEVELS - 1, 2 ** (LEVELS - 1))
    return float(np.sqrt(np.mean((estimates - exact) ** 2))), expected(args, ranks, lost_at, exact)


def expected(args: argparse.Namespace, ranks: int, lost_at: dict[int, int], exact: float) -> float:
    """Return the expected root mean square error of an estimate with missing ranks.

    An estimate is a weighted sum of each rank's values in each step, all independent and of one variance, `of_one`. The
    last sums of a lost rank replace those of all missing steps. On a straight line, the k-th of these adds k times the
    difference of the last two, if it has contributed two. A rank without contributions is not replaced.
    """
    whole = ranks * args.steps
    of_one = sum(variance_of(level) / SAMPLES[level] for level in range(LEVELS))
    squares, missing = float((ranks - len(lost_at)) * args.steps), 0
    for step in lost_at.values():
        weights, more = np.ones(step), args.steps - step
        if args.fill in ("last", "linear") and step:
            weights[-1] += more
            if args.fill == "linear" and step >= 2:
                weights[-2:] += more * (more + 1) / 2 * np.array([-1, 1])
        else:
            missing += more
        squares += float(weights @ weights)
    if args.fill == "weight":
        whole, missing = whole - missing, 0
    bias = missing / whole * (exact - (args.fill == "default"))
    return math.sqrt(bias**2 + squares * of_one / whole**2)


def main() -> None:
    """Solve, and print the errors on the first survivor."""
    comm = MPI.COMM_WORLD
    args = parse_arguments(comm.size)
    if args.solver == "mlmc":
        given = Contributions(comm, args)
        error, wanted = multilevel(given, args)
        said = f"error {error:.3e}, expected {wanted:.3e}"
    else:
        given = Rows(comm, args)
        error, largest = (heat if args.solver == "heat" else conjugate_gradient)(given, args.steps)
        said = f"error {error / largest:.3e} of the largest value"
    if comm.rank == int(given.total(comm.rank, MPI.MIN)):
        print(f"{args.solver}: {said}, lost: {list(given.lost)}")


if __name__ == "__main__":
    main()
