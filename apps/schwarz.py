"""Asynchronous optimised Schwarz: a replacement rank restarts, and no other rank rolls back.

-u'' = 1 on (0, 1) is solved on overlapping subdomains, one per rank. A rank solves alone, sends boundary data to its
neighbours, takes the data that have arrived, and continues without waiting: each has its own iteration counter. The
iteration ends when a non-blocking reduction has found twice that no rank's data have changed since the last one. A
reduction does not count if some rank received nothing from a neighbour since then. When a process fails, a new one
takes over its subdomain and starts from the initial solution. The others keep theirs and continue, because the
iteration converges from any state.

The CRESTA project did this with the asynchronous Schwarz methods of Magoules, Szyld and Venet (Asynchronous optimized
Schwarz methods with and without overlap, Numerische Mathematik 2017). Transmission conditions are Robin's, du/dn + p u,
with p optimal for this equation (--p is a multiple of it), or Dirichlet's.

    xsim run -n 8 --fail "rank=2@30ms" schwarz.py
    xsim run -n 8 schwarz.py --subdomains 2 --synchronous
    mpirun --with-ft ulfm -n 8 python schwarz.py --die 2@5

The iteration, its messages, the termination and the recovery are real. The equation is reduced to one dimension, where
finite differences are exact: the whole error is that of the iteration. --work declares the seconds per iteration, up to
a half more on some ranks. No data are lost permanently. --recovery restart is for comparison: there all ranks start
from the initial solution again.

Validation: an error is a straight line on each subdomain, so its evolution is known without solving anything. In step,
the error must be the predicted one. Otherwise data have a generation, one more than their oldest input, and the error
is at most that of the same number of iterations in step, whichever ranks fail. The same bound holds for the first
iteration after a failure on survivors, which have forgotten nothing. If errors fall by a constant factor before and
after a failure, the factor is the same.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from typing import NamedTuple

import numpy as np
import recovery
from mpi4py import MPI

LEFT, RIGHT = 0, 1
STRAIGHT, PARALLEL = 0.01, 0.05  # tolerance for the slopes of one line, and of parallel ones
SHORTEST, SMALLEST = 20, 1e-10  # a line has at least this number of points, all above this error
ROUND_OFF = 1e-15  # of an error, times the condition number of the system
SUMS = 100_000


def parse_arguments(ranks: int) -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--subdomains", type=recovery.positive, help="number of subdomains (default: number of ranks)")
    add("--cells", type=recovery.number(int, 2), default=16, help="cells of a subdomain without its overlap")
    add("--overlap", type=recovery.positive, default=2, help="cells of the overlap at each end")
    add(
        "--transmission",
        choices=["robin", "dirichlet"],
        help="condition between neighbours (default: dirichlet with --synchronous, else robin)",
    )
    add("--p", type=recovery.above_0, default=1.0, help="p of Robin's condition, as a multiple of the optimal one")
    add("--synchronous", action="store_true", help="wait for the neighbours in each iteration")
    add(
        "--recovery",
        choices=["substitute", "restart"],
        default="substitute",
        help="ranks that restart: the replacements or all",
    )
    add("--tolerance", type=recovery.above_0, default=1e-10, help="end when data change by less than this")
    add("--iterations", type=recovery.positive, help="number of iterations of all ranks after which to end")
    add("--work", type=recovery.seconds, default=1e-3, help="duration of an iteration in seconds")
    arguments = parser.parse_args()
    arguments.transmission = arguments.transmission or ("dirichlet" if arguments.synchronous else "robin")
    arguments.subdomains = ranks if arguments.subdomains is None else arguments.subdomains
    if arguments.subdomains > ranks:
        parser.error(f"--subdomains {arguments.subdomains}: more than {ranks}, the number of ranks")
    if arguments.overlap > arguments.cells // 2:
        parser.error(f"--overlap {arguments.overlap}: more than {arguments.cells // 2}, half of the cells")
    return arguments


# --------------------------------------------------------------------------------------------------------- a subdomain


def thomas(below: list[float], diagonal: list[float], above: list[float], right: list[float]) -> np.ndarray:
    """Solve a tridiagonal system."""
    diagonal, right = [*diagonal], [*right]
    for i in range(1, len(right)):
        factor = below[i] / diagonal[i - 1]
        diagonal[i] -= factor * above[i - 1]
        right[i] -= factor * right[i - 1]
    right[-1] /= diagonal[-1]
    for i in reversed(range(len(right) - 1)):
        right[i] = (right[i] - above[i] * right[i + 1]) / diagonal[i]
    return np.array(right)


def exact(x: np.ndarray) -> np.ndarray:
    """Return the solution of -u'' = 1 that is 0 at both ends."""
    return x * (1 - x) / 2


class Subdomain:
    """The nodes of one subdomain, its solution, and the data from its neighbours."""

    def __init__(self, arguments: argparse.Namespace, number: int) -> None:
        self.arguments, self.number = arguments, number
        last, cells, overlap = arguments.subdomains - 1, arguments.cells, arguments.overlap
        self.all = arguments.subdomains * cells
        self.h = 1 / self.all
        self.first = number * cells - overlap if number else 0
        self.last = (number + 1) * cells + overlap if number < last else self.all
        self.sides = [side for side, there in ((LEFT, number > 0), (RIGHT, number < last)) if there]
        # The neighbours' ends, where they need values of this solution.
        self.there = {LEFT: number * cells + overlap, RIGHT: (number + 1) * cells - overlap}
        self.x = np.arange(self.first, self.last + 1) * self.h
        self.iterations = self.started = 0
        self.histories: list[list[float]] = []  # the errors of each attempt
        self.start()

    def start(self) -> None:
        """Start from the initial solution, which is 0."""
        self.u, self.data = np.zeros(len(self.x)), {LEFT: 0.0, RIGHT: 0.0}
        self.generations = dict.fromkeys(self.sides, 0)
        self.started += 1
        self.expect()

    def expect(self) -> None:
        """Reset the records of changes and errors."""
        self.changes: dict[int, float] = {}  # the largest change on each side, since the last reduction that counts
        self.history: list[float] = []
        self.histories.append(self.history)
        self.at_first: tuple[float, int] | None = None

    def p(self, node: int, side: int) -> float:
        """Return Robin's p at an end of a subdomain: optimal is 1 / distance to the boundary."""
        return self.arguments.p / (node * self.h if side == LEFT else 1 - node * self.h)

    def solve(self) -> None:
        """Solve with the current data."""
        size, h = len(self.x), self.h
        below, diagonal, above, right = [-1.0] * size, [2.0] * size, [-1.0] * size, [h * h] * size
        for side, at, coupling, node in ((LEFT, 0, above, self.first), (RIGHT, -1, below, self.last)):
            if side in self.sides and self.arguments.transmission == "robin":
                diagonal[at], right[at] = 1 + h * self.p(node, side), h * h / 2 + h * self.data[side]
            else:
                diagonal[at], coupling[at], right[at] = 1.0, 0.0, self.data[side]
        self.u = thomas(below, diagonal, above, right)
        self.solved = self.error(), min(self.generations.values(), default=0)
        self.at_first = self.at_first or self.solved
        self.history.append(self.solved[0])
        self.iterations += 1

    def message(self, side: int) -> np.ndarray:
        """Return the data for the neighbour on one side, with their generation."""
        node = self.there[side]
        u, at = self.u, node - self.first
        if self.arguments.transmission == "dirichlet":
            return np.array([u[at], self.solved[1] + 1])
        slope = (u[at + 1] - u[at - 1]) / (2 * self.h)
        other = RIGHT if side == LEFT else LEFT  # the end on this rank's side
        needed = (slope if other == RIGHT else -slope) + self.p(node, other) * u[at]
        return np.array([needed, self.solved[1] + 1])

    def take(self, side: int, value: float, generation: float) -> None:
        """Use a neighbour's data from now on."""
        self.generations[side] = int(generation)
        self.changes[side] = max(self.changes.get(side, 0.0), abs(value - self.data[side]))
        self.data[side] = value

    def error(self) -> float:
        """Return the largest error."""
        return float(np.abs(self.u - exact(self.x)).max())


# ----------------------------------------------------------------------------------------------------------- iteration


class Solver:
    """One rank, with its subdomain if it has one; ranks without one wait as spares."""

    def __init__(self, arguments: argparse.Namespace, comm: MPI.Intracomm) -> None:
        self.arguments = arguments
        self.part = Subdomain(arguments, comm.rank) if comm.rank < arguments.subdomains else None
        self.seconds = arguments.work * (1 + comm.rank * 3 % 5 / 8)

    def iterate(self, comm: MPI.Intracomm) -> None:
        """Do one iteration, and send the data to the neighbours."""
        part = self.part
        recovery.die_at(self.arguments.die, part.iterations)
        part.solve()
        time.sleep(self.seconds)
        near = {LEFT: comm.rank - 1, RIGHT: comm.rank + 1}
        if self.arguments.synchronous:
            for side in part.sides if comm.rank % 2 else part.sides[::-1]:  # an even rank and the next one start
                come = np.empty(2)
                comm.Sendrecv(part.message(side), near[side], 0, come, near[side], 0)
                part.take(side, *come)
            return
        for side in part.sides:
            comm.Bsend(part.message(side), near[side])  # waiting for the receive would not be asynchronous
        self.take(comm)

    def take(self, comm: MPI.Intracomm) -> None:
        """Receive the available data of the neighbours."""
        come = np.empty(2)
        for side in self.part.sides:
            near = comm.rank - 1 if side == LEFT else comm.rank + 1
            while comm.Iprobe(near):
                comm.Recv(come, near)
                self.part.take(side, *come)

    def converge(self, comm: MPI.Intracomm) -> None:
        """Iterate until two reductions in a row find no change, or all have done enough."""
        part, small, found, enough = self.part, 0, np.empty(3), self.arguments.iterations
        while small < 2:
            seen, count = (part.changes, part.iterations) if part else ({}, math.inf)
            waiting = part is not None and len(seen) < len(part.sides)
            mine = np.array([max(seen.values(), default=0.0), waiting, -count], dtype=float)
            if part:
                part.changes = {}
            request = comm.Iallreduce(mine, found, op=MPI.MAX)
            done = False
            while not done:
                if part:
                    self.iterate(comm)
                else:
                    time.sleep(self.seconds)
                done = self.arguments.synchronous or request.Test()
            if self.arguments.synchronous:
                request.Wait()
            change, waiting, count = found.tolist()
            if enough is not None:
                small = 2 * int(-count >= enough)
            elif waiting and part:  # later changes count in the next one
                later, part.changes = part.changes, seen
                for side, change in later.items():
                    seen[side] = max(change, seen.get(side, 0.0))
            elif not waiting:
                small = small + 1 if change < self.arguments.tolerance else 0

    def compute(self, comm: MPI.Intracomm) -> tuple[list[str], bool]:
        """Iterate to the end; return the lines to print, and True if right."""
        self.begin(comm)
        self.converge(comm)
        mine = np.array(self.seen(), dtype=float)
        all_seen = np.empty((comm.size, len(mine))) if comm.rank == 0 else None
        comm.Gather(mine, all_seen)
        result = Judge(self.arguments).judged(comm.size, all_seen) if comm.rank == 0 else None
        result = comm.bcast(result)
        if self.part:
            self.take(comm)  # messages no longer needed
        return result

    def seen(self) -> Seen:
        """Return the validated data of this rank's subdomain."""
        part = self.part
        if part is None:
            return Seen(*[math.nan] * len(Seen._fields))
        begun = part.started, len(part.histories) - part.started
        return Seen(*part.solved, *part.at_first, part.iterations, *begun, *slopes(part.histories), self.deviation())

    def deviation(self) -> float:
        """Return the deviation of this rank's factors from the formula, above round-off; or -1."""
        errors, formula = self.part.history, factor(self.arguments)
        pairs = zip(errors, errors[2:], strict=False)
        return max((abs(later / error - formula) for error, later in pairs if error > 1e-2), default=-1.0)


# ---------------------------------------------------------------------------------------------------------- validation


class Seen(NamedTuple):
    """A rank's record of its subdomain; NaN without one."""

    error: float
    generation: float
    first_error: float
    """The error of the first iteration after a failure, or of all."""
    first_generation: float
    iterations: float
    started: float
    """Number of its starts from the initial solution."""
    attempts: float
    """Number of starts of all ranks known to this process."""
    before: float
    """The slope of the error before the last failure, and after it, or NaN."""
    after: float
    deviation: float


def slopes(histories: list[list[float]]) -> tuple[float, float]:
    """Return the change of the logarithm of the error per iteration before and after a failure."""
    earlier = [each for each in histories[:-1] if each]
    return (straight(earlier[-1]), straight(histories[-1])) if earlier else (math.nan, math.nan)


def straight(errors: list[float]) -> float:
    """Return the slope of the second half of a history, or NaN if that is too short or bent."""
    logarithms = np.log(list(itertools.takewhile(lambda error: error > SMALLEST, errors)))
    quarter = len(logarithms) // 8
    if 4 * quarter < SHORTEST:
        return math.nan
    pairs = logarithms[-4 * quarter :].reshape(2, quarter, 2).mean(axis=2)  # in step every second iteration is alike
    early, late = (np.polyfit(np.arange(quarter), pairs.T, 1)[0] / 2).tolist()
    return (early + late) / 2 if abs(early - late) <= STRAIGHT * abs(late) else math.nan


def factor(a: argparse.Namespace) -> float:
    """Return the factor of two iterations of two subdomains (0, b) and (a, 1) on the error."""
    left, right = (0.5 + sign * a.overlap / a.cells / 2 for sign in (-1, 1))
    return left * (1 - right) / (right * (1 - left))


class Judge:
    """Predictions of the errors without solving: they are straight lines on each subdomain."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = a = arguments
        width, number = 1 / a.subdomains, np.arange(a.subdomains)
        lap = width * a.overlap / a.cells
        places = np.stack((number * width - lap, (number + 1) * width + lap), axis=1).clip(0, 1)
        self.lengths = np.diff(places, axis=1)[:, 0]
        # Data on a side are multiples of the value and of the slope at that point.
        values, slopes = np.ones_like(places), np.zeros_like(places)
        if a.transmission == "robin":
            values[1:, LEFT], values[:-1, RIGHT] = a.p / places[1:, LEFT], a.p / (1 - places[:-1, RIGHT])
            slopes[1:, LEFT], slopes[:-1, RIGHT] = -1, 1
        self.initial = -(values * exact(places) + slopes * (0.5 - places))
        self.initial[0, LEFT] = self.initial[-1, RIGHT] = 0
        rows = self.rows(np.array([[0, 1]] * a.subdomains), values, slopes)
        self.ends = np.linalg.inv(rows)  # the values at both ends of a line, from the data on both sides
        self.sent = np.zeros_like(rows)  # new data on each side, from the data on both sides of the neighbour
        for side, mine, near in ((LEFT, slice(1, None), slice(-1)), (RIGHT, slice(-1), slice(1, None))):
            at = (places[mine, side] - places[near, LEFT]) / self.lengths[near]
            row = self.rows(at[:, None], values[mine, side : side + 1], slopes[mine, side : side + 1], near)
            self.sent[mine, side] = (row @ self.ends[near])[:, 0]

    def rows(self, at: np.ndarray, values: np.ndarray, slopes: np.ndarray, which: slice = slice(None)) -> np.ndarray:
        """Return the data at points of lines from 0 to 1, from the values at both ends."""
        slopes = slopes / self.lengths[which][:, None]
        return np.stack((values * (1 - at) - slopes, values * at + slopes), axis=-1)

    @staticmethod
    def iterated(data: np.ndarray, sent: np.ndarray) -> np.ndarray:
        """Return the data after an iteration in step."""
        nothing = np.zeros((1, 2))
        from_left, from_right = np.concatenate((nothing, data[:-1])), np.concatenate((data[1:], nothing))
        return np.stack(((sent[:, LEFT] * from_left).sum(axis=1), (sent[:, RIGHT] * from_right).sum(axis=1)), axis=1)

    def judged(self, ranks: int, all_seen: np.ndarray) -> tuple[list[str], bool]:
        """Return the size of the error, and True if it is within its bound."""
        a, seen = self.arguments, Seen(*all_seen[: self.arguments.subdomains].T)
        rounded = ROUND_OFF * (a.cells * a.subdomains) ** 2
        good, worst, after = {}, float(seen.error.max()), seen.iterations
        if not a.iterations:
            bound = a.tolerance * 10 * a.subdomains**2
            good[f"error at most {bound:.2e}"] = worst <= bound
        pairs = ((seen.error, seen.generation), (seen.first_error, seen.first_generation))
        good["error at most that of its generation"] = all(
            (error <= self.bound(generation) + rounded).all() for error, generation in pairs
        )
        if a.recovery == "substitute":
            good["no rank restarted"] = (seen.started == 1).all()
        if a.synchronous and seen.attempts.max() == 1:
            good["synchronous error as predicted"] = np.abs(seen.error - self.forecast(after - 1)).max() <= rounded
        if a.subdomains == 2 and a.synchronous and a.transmission == "dirichlet" and seen.deviation.max() >= 0:
            good[f"error factor of two iterations {factor(a):.12f}, to 1e-12"] = seen.deviation.max() <= 1e-12
        ratios = (seen.after / seen.before)[~np.isnan(seen.after / seen.before)]
        if len(ratios):
            good[f"slopes before and after a failure equal to {PARALLEL}"] = np.abs(ratios - 1).max() <= PARALLEL
        how = "synchronous" if a.synchronous else "asynchronous"
        lines = [
            f"schwarz: {a.transmission}, {how}, {a.subdomains} subdomains, {ranks} ranks",
            *(f"{what}: {bool(well)}" for what, well in good.items()),
            f"# error {worst:.6e}, {after.min():.0f} to {after.max():.0f} iterations, after {MPI.Wtime():.6f} s",
        ]
        return lines, bool(all(good.values()))

    def forecast(self, generations: np.ndarray) -> np.ndarray:
        """Return the error of each subdomain from data of a generation, all in step."""
        return self.errors(generations, self.initial, self.sent, self.ends)

    def bound(self, generations: np.ndarray) -> np.ndarray:
        """Return the bound on each subdomain's error from data of a generation or a later one.

        The bound uses iterations with absolute values, of data that do not grow in any of them.
        """
        data, sent = np.abs(self.initial), np.abs(self.sent)
        term = data
        for _ in range(SUMS):
            if (self.iterated(data, sent) <= data * (1 + 1e-12)).all():
                return self.errors(generations, data, sent, np.abs(self.ends))
            term = self.iterated(term, sent)
            data = data + term  # the sum of all iterations does not grow
        return np.full(len(generations), math.inf)

    @staticmethod
    def errors(generations: np.ndarray, data: np.ndarray, sent: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the errors at the generation of each subdomain."""
        found = np.zeros(len(generations))
        for generation in range(int(generations.max()) + 1 if data.any() else 0):
            at = generations == generation
            found[at] = np.abs(ends[at] @ data[at][:, :, None]).max(axis=(1, 2), initial=0)
            data = Judge.iterated(data, sent)
        return found


# ------------------------------------------------------------------------------------------------------------ recovery


class Recovering(Solver):
    """The solver with recovery: a new process replaces a failed one, and the others continue."""

    known = False  # whether this process has begun before

    def begin(self, comm: MPI.Intracomm) -> None:
        """Set the counter of a new process to the others'; no other rank goes back."""
        counts = np.array([self.part.iterations if self.part and not self.fresh() else 2**30])
        comm.Allreduce(MPI.IN_PLACE, counts, op=MPI.MIN)
        if self.part:
            if self.known and self.arguments.recovery == "restart":
                self.part.start()
            self.part.expect()
            if self.fresh() and counts[0] < 2**30:
                self.part.iterations = int(counts[0])
        self.known = True

    def fresh(self) -> bool:
        """Return True if this process has just replaced a failed one."""
        return recovery.is_new() and not self.known


def main() -> None:
    """Iterate, and recover from failures."""
    comm = recovery.joined()
    arguments = parse_arguments(comm.size)
    MPI.Attach_buffer(np.empty(2**20, np.uint8))  # for some ten thousand unreceived messages
    solver = Recovering(arguments, comm)
    (lines, right), comm = recovery.until_agreed(comm, solver.compute)
    recovery.conclude(comm, lines, right)


if __name__ == "__main__":
    main()
