"""FT-CG: iterative solvers that interpolate lost parts from the neighbours' data.

Each rank has some rows of a grid, on which the 5-point Laplacian A is the matrix, as in cg.py. When processes fail, new
ones replace them, and recompute the static data (A and b, which are formulas here). For the dynamic data there are four
schemes, --recovery:

    lossy      the lost part of x is A_ii^-1 (b_i - sum of A_ij x_j over all others), for each failed rank alone, and
               the method restarts from this x (Langou, Chen, Bosilca, Dongarra: Recovery patterns for iterative
               methods in a parallel unstable environment, SIAM J. Sci. Comput. 30, 2007)
    li         adjacent parts that failed together come from one system (linear interpolation of Agullo, Giraud,
               Guermouche, Roman, Zounon: Numerical recovery strategies for parallel resilient Krylov linear solvers,
               Numer. Linear Algebra Appl. 23, 2016)
    rollback   all ranks go back to the last checkpoint, of which each right neighbour has a copy
    restart    all ranks restart from zero

--solver cg solves A x = b. --solver power and lanczos (restarted) find the largest eigenvalue of A plus 8 at one point;
there the lost part is (A_ii - lambda)^-1 (- sum of A_ij x_j), as in Agullo, Giraud, Salas, Zounon:
Interpolation-restart strategies for resilient eigensolvers, SIAM J. Sci. Comput. 38, 2016.

The program checks itself: the solution of A x = b is known beforehand, and an eigenvalue is a zero of a sum over the
eigenvectors of A. One process also repeats the computation with its recoveries, bit for bit. It verifies that
interpolation of the whole loss does not increase the A-norm of the error.

    xsim run -n 8 ft_cg.py
    xsim run -n 8 --fail rank=3@2ms ft_cg.py --recovery lossy --solver lanczos
    mpirun --with-ft ulfm -n 8 python ft_cg.py --die 3@20 --die 4@20
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import recovery
from cg import laplacian
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Callable

UP, DOWN, PART = 1, 2, 3
PEAK = 8.0  # added to the eigenvalue problem at one point: enough to separate the largest eigenvalue
OTHERS = 8.0  # all other eigenvalues are below
CYCLE = 4  # steps of Lanczos between restarts
ROUND_OFF = 1e-13


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--recovery", choices=("lossy", "li", "rollback", "restart"), default="li")
    add("--solver", choices=("cg", "power", "lanczos"), default="cg")
    add("--rows", type=recovery.positive, default=4, help="grid rows per rank")
    add("--columns", type=recovery.positive, default=16, help="length of a row")
    add("--tolerance", type=recovery.fraction, default=1e-10, help="of the residual, or of the eigenvalue")
    add("--max-iterations", type=recovery.positive, default=10_000, help="maximum number of iterations")
    add("--every", type=recovery.positive, default=10, help="iterations between the checkpoints of rollback")
    add("--work", type=recovery.seconds, default=0.0, help="seconds that an iteration sleeps, as its work")
    return parser.parse_args()


# ----------------------------------------------------------------------------------------------------------- the matrix


class Grid(NamedTuple):
    """The grid, cut into one part per rank."""

    ranks: int
    rows: int
    columns: int
    peak: float

    @property
    def place(self) -> tuple[int, int]:
        """The point with the added peak."""
        return self.ranks * self.rows // 2, self.columns // 2

    def rows_of(self, rank: int, count: int = 1) -> range:
        """Return the rows of a rank, or of several consecutive ranks."""
        return range(rank * self.rows, (rank + count) * self.rows)

    def with_peak(self, product: np.ndarray, field: np.ndarray, first_row: int) -> np.ndarray:
        """Add the peak of the matrix at one point."""
        row, column = self.place
        if first_row <= row < first_row + len(field):
            product[row - first_row, column] += self.peak * field[row - first_row, column]
        return product

    def solution(self, rows: range) -> np.ndarray:
        """Return the solution of A x = b: smooth, but not trivial."""
        return np.sin(0.3 + np.array(rows)[:, None]) + (np.arange(self.columns) % 5)

    def right_side(self, rows: range) -> np.ndarray:
        """Return b, from the neighbours' rows of the solution."""
        wide = self.solution(range(rows.start - 1, rows.stop + 1))
        wide[[row not in range(self.ranks * self.rows) for row in range(rows.start - 1, rows.stop + 1)]] = 0
        return _alone(wide)[1:-1]

    def modes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the eigenvalues of the Laplacian, and the squares of its eigenvectors at the point."""
        lines = []
        for size, at in zip((self.ranks * self.rows, self.columns), self.place, strict=True):
            angles = np.pi * np.arange(1, size + 1) / (size + 1)
            lines.append((2 - 2 * np.cos(angles), 2 / (size + 1) * np.sin(angles * (at + 1)) ** 2))
        (down, down_squares), (across, across_squares) = lines
        return np.add.outer(down, across), np.multiply.outer(down_squares, across_squares)

    def largest_eigenvalue(self) -> float:
        """Return the zero of 1 - peak * (sum of squares / (lambda - eigenvalues)) beyond all eigenvalues."""
        values, squares = self.modes()
        low, high = float(values.max()), 8 + self.peak
        for _ in range(200):
            middle = (low + high) / 2
            if self.peak * (squares / (middle - values)).sum() > 1:
                low = middle
            else:
                high = middle
        return high


def _alone(field: np.ndarray) -> np.ndarray:
    return laplacian(MPI.COMM_SELF, field)


@cache
def block(grid: Grid, first_row: int, count: int) -> np.ndarray:
    """Return the part of the matrix for some rows, as a dense matrix."""
    lines = [2 * np.eye(size) - np.eye(size, k=1) - np.eye(size, k=-1) for size in (count, grid.columns)]
    matrix = np.kron(lines[0], np.eye(grid.columns)) + np.kron(np.eye(count), lines[1])
    row, column = grid.place
    if first_row <= row < first_row + count:
        matrix[((row - first_row) * grid.columns + column,) * 2] += grid.peak
    return matrix


class Space(Protocol):
    """Operations on fields, on all ranks or in one process."""

    def product(self, field: np.ndarray) -> np.ndarray:
        """Return the matrix times a field."""

    def dot(self, a: np.ndarray, b: np.ndarray) -> float:
        """Return the dot product of two fields."""


class Distributed(NamedTuple):
    """Fields distributed over the ranks by rows."""

    comm: MPI.Intracomm
    grid: Grid

    def product(self, field: np.ndarray) -> np.ndarray:
        """Return this rank's rows of the matrix times a field."""
        return self.grid.with_peak(laplacian(self.comm, field), field, self.comm.rank * self.grid.rows)

    def dot(self, a: np.ndarray, b: np.ndarray) -> float:
        """Return a dot product with the same bits on all ranks, for any order of additions in MPI."""
        parts = np.empty(self.comm.size)
        self.comm.Allgather(np.array([np.sum(a * b)]), parts)
        return float(np.sum(parts))


class Whole(NamedTuple):
    """Fields in one process, which adds in the order of the ranks."""

    grid: Grid

    def product(self, field: np.ndarray) -> np.ndarray:
        """Return the matrix times a field."""
        return self.grid.with_peak(_alone(field), field, 0)

    def dot(self, a: np.ndarray, b: np.ndarray) -> float:
        """Return a dot product, part by part."""
        return float(np.sum([np.sum(part) for part in np.split(a * b, self.grid.ranks)]))


# ---------------------------------------------------------------------------------------------------------- the solvers


class State(NamedTuple):
    """A solver between two iterations."""

    x: np.ndarray
    error: float
    """The squared norm of the residual, or a bound on the eigenvalue's relative error."""
    value: float = 0.0
    """The eigenvalue."""
    residual: np.ndarray | None = None
    direction: np.ndarray | None = None


class Method(NamedTuple):
    """A solver: its start from some x, and its iteration."""

    begin: Callable[[Space, np.ndarray, np.ndarray], State]
    step: Callable[[Space, State], State]


def cg_begun(space: Space, x: np.ndarray, b: np.ndarray) -> State:
    """Begin conjugate gradients."""
    residual = b - space.product(x)
    return State(x, space.dot(residual, residual), residual=residual, direction=residual)


def cg_step(space: Space, state: State) -> State:
    """Do an iteration of conjugate gradients."""
    product = space.product(state.direction)
    alpha = state.error / space.dot(state.direction, product)
    residual = state.residual - alpha * product
    square = space.dot(residual, residual)
    direction = residual + (square / state.error) * state.direction
    return State(state.x + alpha * state.direction, square, residual=residual, direction=direction)


def power_begun(space: Space, x: np.ndarray, b: np.ndarray) -> State:
    """Begin the power method."""
    return State(x / math.sqrt(space.dot(x, x)), math.inf)


def power_step(space: Space, state: State) -> State:
    """Do an iteration of the power method."""
    product = space.product(state.x)
    value = space.dot(state.x, product)
    residual = product - value * state.x
    x = product / math.sqrt(space.dot(product, product))
    return State(x, eigenvalue_error(value, space.dot(residual, residual)), value)


def eigenvalue_error(value: float, square: float) -> float:
    """Return the bound of Kato and Temple on the relative error, from the squared residual norm."""
    return square / (value * (value - OTHERS)) if value > OTHERS else math.inf


def lanczos_step(space: Space, state: State) -> State:
    """Do a cycle of Lanczos, and return the best vector of its space."""
    vectors, diagonal, beside = [state.x], [], [0.0]
    for _ in range(CYCLE):
        product = space.product(vectors[-1])
        diagonal.append(space.dot(vectors[-1], product))
        product = product - diagonal[-1] * vectors[-1]
        if len(vectors) > 1:
            product = product - beside[-1] * vectors[-2]
        beside.append(math.sqrt(space.dot(product, product)))
        if beside[-1] <= ROUND_OFF * diagonal[0]:
            break
        vectors.append(product / beside[-1])
    inner = np.diag(beside[1 : len(diagonal)], 1)
    values, best = np.linalg.eigh(np.diag(diagonal) + inner + inner.T)
    x = sum(weight * vector for weight, vector in zip(best[:, -1], vectors, strict=False))
    value = float(values[-1])
    return State(x / math.sqrt(space.dot(x, x)), eigenvalue_error(value, (beside[-1] * best[-1, -1]) ** 2), value)


METHODS = {
    "cg": Method(cg_begun, cg_step),
    "power": Method(power_begun, power_step),
    "lanczos": Method(power_begun, lanczos_step),
}


class Problem:
    """The problem and its method."""

    def __init__(self, arguments: argparse.Namespace, ranks: int) -> None:
        self.arguments = arguments
        self.linear = arguments.solver == "cg"
        self.method = METHODS[arguments.solver]
        self.grid = Grid(ranks, arguments.rows, arguments.columns, 0.0 if self.linear else PEAK)
        b = self.grid.right_side(self.grid.rows_of(0, ranks))
        square = Whole(self.grid).dot(b, b)
        self.limit = arguments.tolerance**2 * square if self.linear else arguments.tolerance

    def first(self, rows: range) -> np.ndarray:
        """Return the initial x."""
        return np.full((len(rows), self.grid.columns), 0.0 if self.linear else 1.0)

    def begun(self, space: Space, x: np.ndarray, rows: range) -> State:
        """Start from some x."""
        return self.method.begin(space, x, self.grid.right_side(rows))

    def ended(self, iteration: int, state: State) -> bool:
        """Return True if there is a result, or the limit of iterations is reached."""
        return state.error <= self.limit or iteration >= self.arguments.max_iterations


# ------------------------------------------------------------------------------------------------------------- recovery


class Loss(NamedTuple):
    """A recovery by interpolation: its iteration, lost parts, and eigenvalue."""

    iteration: int
    ranks: tuple[int, ...]
    value: float

    def groups(self, together: bool) -> list[tuple[int, int]]:
        """Return the jointly solved groups: first rank and number of ranks."""
        found: list[tuple[int, int]] = []
        for rank in self.ranks:
            if together and found and sum(found[-1]) == rank:
                found[-1] = (found[-1][0], found[-1][1] + 1)
            else:
                found.append((rank, 1))
        return found


def interpolated(problem: Problem, first: int, count: int, value: float, edges: dict[int, np.ndarray]) -> np.ndarray:
    """Return the lost parts of neighbours, from the nearest surviving rows around them."""
    rows = problem.grid.rows_of(first, count)
    known = problem.grid.right_side(rows) if problem.linear else problem.first(rows) * 0
    known[0] += edges.get(first - 1, 0)
    known[-1] += edges.get(first + count, 0)
    matrix = block(problem.grid, rows.start, len(rows))
    return np.linalg.solve(matrix - value * np.eye(len(matrix)), known.ravel()).reshape(known.shape)


class Part:
    """The rows of one rank, with its data for recovery."""

    def __init__(self, problem: Problem, comm: MPI.Intracomm) -> None:
        self.problem, self.how = problem, problem.arguments.recovery
        self.rows = problem.grid.rows_of(comm.rank)
        self.buddies = recovery.Buddies()
        self.losses: list[Loss] = []
        self.restored: tuple[int, State | np.ndarray, list[Loss]] = (0, problem.first(self.rows), [])
        # x and the eigenvalue after each of the last two iterations: ranks are at most one iteration apart.
        self.kept: dict[int, tuple[np.ndarray, float]] = {}
        if not recovery.is_new():
            self.kept[0] = (problem.first(self.rows), 0.0)

    def begin(self, space: Space) -> tuple[int, State]:
        """Start from the restored data; all ranks have agreed that the restore is complete."""
        iteration, state, self.losses = self.restored
        if isinstance(state, State):
            return iteration, state
        value = self.losses[-1].value if self.losses else 0.0
        self.kept = {iteration: (state, value)}
        return iteration, self.problem.begun(space, state, self.rows)

    def keep(self, comm: MPI.Intracomm, iteration: int, state: State) -> None:
        """Keep the data for a recovery."""
        if self.how == "rollback":
            if iteration % self.problem.arguments.every == 0:
                self.buddies.save(comm, iteration, state)
        elif self.how != "restart":
            self.kept.setdefault(iteration, (state.x, state.value))  # its initial data are stored already
            self.kept.pop(iteration - 2, None)

    def restore(self, comm: MPI.Intracomm) -> None:
        """Determine the new starting point and its data."""
        self.restored = (0, self.problem.first(self.rows), [])
        if self.how == "rollback":
            saved = self.buddies.restore(comm)
            if saved is not None:
                self.restored = (*saved, [])
        elif self.how != "restart":
            self.restored = self.interpolate(comm)

    def interpolate(self, comm: MPI.Intracomm) -> tuple[int, np.ndarray, list[Loss]]:
        """Return the last x available on all ranks that have one, with the lost parts interpolated."""
        mine, of_all = np.array([max(self.kept, default=-1), len(self.losses)]), np.empty((comm.size, 2), int)
        comm.Allgather(mine, of_all)
        there = of_all[:, 0] >= 0
        iteration = int(of_all[there, 0].min())
        known = (self.losses, self.kept[iteration][1]) if self.kept else None
        losses, value = comm.bcast(known, root=int(np.argmax(np.where(there, of_all[:, 1], -1))))
        loss = Loss(iteration, tuple(np.flatnonzero(~there).tolist()), value)
        x = self.kept[iteration][0] if self.kept else None
        for first, count in loss.groups(self.how == "li"):
            x = self.exchanged(comm, loss, first, count, x)
        return iteration, x, [*losses, loss]

    def exchanged(
        self, comm: MPI.Intracomm, loss: Loss, first: int, count: int, x: np.ndarray | None
    ) -> np.ndarray | None:
        """Interpolate some lost parts on the first of their ranks; return this rank's x."""
        beside = [rank for rank in (first - 1, first + count) if 0 <= rank < comm.size and rank not in loss.ranks]
        if comm.rank in beside:
            comm.send(x[-1 if comm.rank < first else 0], first, PART)
        elif comm.rank == first:
            edges = {rank: comm.recv(None, rank, PART) for rank in beside}
            parts = np.split(interpolated(self.problem, first, count, loss.value, edges), count)
            for other in range(1, count):
                comm.send(parts[other], first + other, PART)
            return parts[0]
        elif first < comm.rank < first + count:
            return comm.recv(None, first, PART)
        return x


# ----------------------------------------------------------------------------------------------------------- validation


def repeated(problem: Problem, losses: list[Loss]) -> tuple[int, State, list[str], bool]:
    """Repeat the run in one process; return the result, and True if no recovery was a step back."""
    grid, space = problem.grid, Whole(problem.grid)
    every = grid.rows_of(0, grid.ranks)
    solution = grid.solution(every)
    iteration, x, lines, well = 0, problem.first(every), [], True
    state = problem.begun(space, x, every)

    def norm(x: np.ndarray) -> float:
        return math.sqrt(space.dot(x, space.product(x)))

    for loss in losses:
        while iteration < loss.iteration:
            iteration, state = iteration + 1, problem.method.step(space, state)
            x = state.x
        before, x = x, x.copy()
        parts = np.split(before, grid.ranks)
        edges = {rank: part[[0, -1]] for rank, part in enumerate(parts) if rank not in loss.ranks}
        together = problem.arguments.recovery == "li"
        holes = np.concatenate([part * (rank not in loss.ranks) for rank, part in enumerate(parts)])
        for first, count in loss.groups(together):
            around = {
                rank: edges[rank][-1 if rank < first else 0] for rank in (first - 1, first + count) if rank in edges
            }
            rows = grid.rows_of(first, count)
            x[rows] = interpolated(problem, first, count, loss.value, around)
            holes[rows] = x[rows]
            well = well and solved(problem, space, holes, rows, loss.value)
            holes[rows] = 0
        if problem.linear and loss.groups(True) == loss.groups(together):
            was, now = norm(before - solution), norm(x - solution)
            well = well and now <= was * (1 + 1e-12) + ROUND_OFF * norm(solution)
            lines.append(f"# error in the A-norm at iteration {iteration}: {was:.6e}, then {now:.6e}")
        state = problem.begun(space, x, every)
    while not problem.ended(iteration, state):
        iteration, state = iteration + 1, problem.method.step(space, state)
    return iteration, state, lines, well


def solved(problem: Problem, space: Whole, x: np.ndarray, rows: range, value: float) -> bool:
    """Return True if some rows of x solve their equations to round-off, with the whole matrix."""
    known = problem.grid.right_side(rows) if problem.linear else problem.first(rows) * 0
    left = (space.product(x) - value * x)[rows]
    return bool(
        np.abs(left - known).max()
        <= ROUND_OFF * (np.abs(known).max() + (8 + problem.grid.peak + abs(value)) * np.abs(x).max())
    )


def judged(part: Part, space: Distributed, iteration: int, state: State) -> tuple[list[str], bool]:
    """Compare with formulas and one process; return the lines to print, and True if right."""
    problem, grid = part.problem, part.problem.grid
    if problem.linear:
        residual = grid.right_side(part.rows) - space.product(state.x)
        error = state.x - grid.solution(part.rows)
        least = 2 * sum(1 - math.cos(math.pi / (size + 1)) for size in (grid.ranks * grid.rows, grid.columns))
        bound = math.sqrt(problem.limit) * (1 + 1e-3)  # the residual computed during the iteration is slightly off
        right = (
            math.sqrt(space.dot(residual, residual)) <= bound and math.sqrt(space.dot(error, error)) <= bound / least
        )
        result = f"solution of {grid.ranks * grid.rows * grid.columns} unknowns"
    else:
        right = abs(state.value - grid.largest_eigenvalue()) <= problem.limit * state.value
        result = f"eigenvalue {state.value:.5f}"
    right = right and state.error <= problem.limit
    verdict = None
    slabs = space.comm.gather(state.x)
    if slabs is not None:
        number, alone, lines, well = repeated(problem, part.losses)
        equal = number == iteration and np.array_equal(np.concatenate(slabs), alone.x)
        verdict = lines, well and equal
    lines, well = space.comm.bcast(verdict, root=0)
    same = f", {iteration} iterations" if part.how in {"rollback", "restart"} else ""
    lines = [*lines, f"ft_cg: {problem.arguments.solver}, {part.how}, state: {result}{same}"]
    return [*lines, f"# {iteration} iterations, {MPI.Wtime():.6f} s"], right and well


# ----------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    """Solve, and recover from failures."""
    arguments = parse_arguments()
    comm = recovery.joined()
    problem = Problem(arguments, comm.size)
    part = Part(problem, comm)

    def compute(comm: MPI.Intracomm) -> tuple[list[str], bool]:
        space = Distributed(comm, problem.grid)
        iteration, state = part.begin(space)
        while not problem.ended(iteration, state):
            part.keep(comm, iteration, state)
            recovery.die_at(arguments.die, iteration)
            time.sleep(arguments.work)
            iteration, state = iteration + 1, problem.method.step(space, state)
        part.keep(comm, iteration, state)
        return judged(part, space, iteration, state)

    (lines, right), comm = recovery.roll_back_until_agreed(comm, compute, part.restore)
    recovery.conclude(comm, lines, right)


if __name__ == "__main__":
    sys.exit(main())
