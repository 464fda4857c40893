"""Asynchronous optimised Schwarz: a substitute starts afresh, and nobody goes back.

-u'' = 1 on (0, 1) is solved on overlapping subdomains, one a rank.  A rank solves on its own, sends what its neighbours
need of it, takes what has come, and goes on without waiting for anybody: each has an iteration counter of its own.  It
ends when a non-blocking reduction has found twice that nobody's data have changed since the one before; one in which
somebody had not heard from all neighbours since does not count.  When a process dies, a new one takes its subdomain and
begins with the initial solution.  The others keep theirs, and all goes on: the iteration converges from wherever it is.

This is what the CRESTA project did with the asynchronous Schwarz methods of Magoules, Szyld and Venet (Asynchronous
optimized Schwarz methods with and without overlap, Numerische Mathematik 2017).  Transmission conditions are Robin's,
du/dn + p u, with p optimal for this equation (of which --p takes a multiple), or Dirichlet's.

    xsim run -n 8 --fail "rank=2@30ms" schwarz.py
    xsim run -n 8 schwarz.py --subdomains 2 --synchronous
    mpirun --with-ft ulfm -n 8 python schwarz.py --die 2@5

Real are the iteration, its messages, the end and the recovery.  Reduced is the equation, to one dimension, where the
finite differences are exact: all error is that of the iteration.  What an iteration costs is --work, in seconds, up to
a half more on some ranks.  No data are ever lost for good.  --recovery restart is for comparison: there all begin
with the initial solution again.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import recovery
from mpi4py import MPI

LEFT, RIGHT = 0, 1


def parse_arguments(ranks: int) -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--subdomains", type=recovery.positive, help="how many there are; as many as ranks, if not said")
    add("--cells", type=recovery.number(int, 2), default=16, help="the cells of a subdomain without its overlap")
    add("--overlap", type=recovery.positive, default=2, help="by how many cells it goes on beyond its two ends")
    add(
        "--transmission",
        choices=["robin", "dirichlet"],
        help="what neighbours need of each other; Dirichlet's with --synchronous, and else Robin's, if not said",
    )
    add("--p", type=recovery.above_0, default=1.0, help="how many times the optimal p of Robin's condition")
    add("--synchronous", action="store_true", help="wait for the neighbours in each iteration")
    add("--recovery", choices=["substitute", "restart"], default="substitute", help="who starts afresh")
    add("--tolerance", type=recovery.above_0, default=1e-10, help="end when data change by less")
    add("--iterations", type=recovery.positive, help="end when all ranks have done so many, converged or not")
    add("--work", type=recovery.seconds, default=1e-3, help="seconds that an iteration takes")
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
    """The nodes of one subdomain, its solution, and what it has from its neighbours."""

    def __init__(self, arguments: argparse.Namespace, number: int) -> None:
        self.arguments, self.number = arguments, number
        last, cells, overlap = arguments.subdomains - 1, arguments.cells, arguments.overlap
        self.all = arguments.subdomains * cells
        self.h = 1 / self.all
        self.first = number * cells - overlap if number else 0
        self.last = (number + 1) * cells + overlap if number < last else self.all
        self.sides = [side for side, there in ((LEFT, number > 0), (RIGHT, number < last)) if there]
        # Where the neighbours end: there they need something of this solution.
        self.there = {LEFT: number * cells + overlap, RIGHT: (number + 1) * cells - overlap}
        self.x = np.arange(self.first, self.last + 1) * self.h
        self.iterations = 0
        self.start()

    def start(self) -> None:
        """Begin with the initial solution, which is 0."""
        self.u, self.data = np.zeros(len(self.x)), {LEFT: 0.0, RIGHT: 0.0}
        self.expect()

    def expect(self) -> None:
        """Begin anew to look at changes and errors."""
        self.changes: dict[int, float] = {}  # the largest change on each side, since the last reduction that counts
        self.history: list[float] = []

    def p(self, node: int, side: int) -> float:
        """Return Robin's p of a subdomain that ends at a node: optimal is one over the distance to the boundary."""
        return self.arguments.p / (node * self.h if side == LEFT else 1 - node * self.h)

    def solve(self) -> None:
        """Solve with the data that there are."""
        size, h = len(self.x), self.h
        below, diagonal, above, right = [-1.0] * size, [2.0] * size, [-1.0] * size, [h * h] * size
        for side, at, coupling, node in ((LEFT, 0, above, self.first), (RIGHT, -1, below, self.last)):
            if side in self.sides and self.arguments.transmission == "robin":
                diagonal[at], right[at] = 1 + h * self.p(node, side), h * h / 2 + h * self.data[side]
            else:
                diagonal[at], coupling[at], right[at] = 1.0, 0.0, self.data[side]
        self.u = thomas(below, diagonal, above, right)
        self.history.append(self.error())
        self.iterations += 1

    def message(self, side: int) -> np.ndarray:
        """Return what the neighbour on one side needs."""
        node = self.there[side]
        u, at = self.u, node - self.first
        if self.arguments.transmission == "dirichlet":
            return np.array([u[at]])
        slope = (u[at + 1] - u[at - 1]) / (2 * self.h)
        other = RIGHT if side == LEFT else LEFT  # on that side of its own it ends here
        return np.array([(slope if other == RIGHT else -slope) + self.p(node, other) * u[at]])

    def take(self, side: int, value: float) -> None:
        """Use what a neighbour has sent from now on."""
        self.changes[side] = max(self.changes.get(side, 0.0), abs(value - self.data[side]))
        self.data[side] = value

    def error(self) -> float:
        """Return the largest error."""
        return float(np.abs(self.u - exact(self.x)).max())


# ----------------------------------------------------------------------------------------------------------- iteration


class Solver:
    """One rank, with its subdomain if it has one; the others wait until they are needed."""

    def __init__(self, arguments: argparse.Namespace, comm: MPI.Intracomm) -> None:
        self.arguments = arguments
        self.part = Subdomain(arguments, comm.rank) if comm.rank < arguments.subdomains else None
        self.seconds = arguments.work * (1 + comm.rank * 3 % 5 / 8)

    def iterate(self, comm: MPI.Intracomm) -> None:
        """Do one iteration, and let the neighbours know."""
        part = self.part
        recovery.die_at(self.arguments.die, part.iterations)
        part.solve()
        time.sleep(self.seconds)
        near = {LEFT: comm.rank - 1, RIGHT: comm.rank + 1}
        if self.arguments.synchronous:
            for side in part.sides if comm.rank % 2 else part.sides[::-1]:  # an even rank and the next one begin
                value = np.empty(1)
                comm.Sendrecv(part.message(side), near[side], 0, value, near[side], 0)
                part.take(side, value[0])
            return
        for side in part.sides:
            comm.Isend(part.message(side), near[side]).Wait()
        self.take(comm)

    def take(self, comm: MPI.Intracomm) -> None:
        """Take what has come from the neighbours."""
        value = np.empty(1)
        for side in self.part.sides:
            near = comm.rank - 1 if side == LEFT else comm.rank + 1
            while comm.Iprobe(near):
                comm.Recv(value, near)
                self.part.take(side, value[0])

    def converge(self, comm: MPI.Intracomm) -> None:
        """Iterate until two reductions in a row have found that the data of nobody change, or all have done enough."""
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
            elif waiting and part:  # what has changed counts in the next one
                later, part.changes = part.changes, seen
                for side, change in later.items():
                    seen[side] = max(change, seen.get(side, 0.0))
            elif not waiting:
                small = small + 1 if change < self.arguments.tolerance else 0

    def compute(self, comm: MPI.Intracomm) -> tuple[list[str], bool]:
        """Iterate to the end, and return what to print, and whether it is right."""
        self.begin(comm)
        self.converge(comm)
        part, none = self.part, -math.inf
        mine = [part.error(), part.iterations, -part.iterations, self.deviation()] if part else [none] * 4
        worst = np.empty(4)
        comm.Allreduce(np.array(mine, dtype=float), worst, op=MPI.MAX)
        if part:
            self.take(comm)  # what nobody needs any more
        return self.judged(comm, *worst.tolist())

    def formula(self) -> float:
        """Return by what two iterations of two subdomains (0, b) and (a, 1) multiply the error."""
        a, b = (0.5 + sign * self.arguments.overlap / self.arguments.cells / 2 for sign in (-1, 1))
        return a * (1 - b) / (b * (1 - a))

    def deviation(self) -> float:
        """Return how far this rank's factors are from the formula, while the error is far from round-off; or -1."""
        errors = self.part.history
        pairs = zip(errors, errors[2:], strict=False)
        return max((abs(later / error - self.formula()) for error, later in pairs if error > 1e-2), default=-1.0)

    def judged(
        self, comm: MPI.Intracomm, error: float, most: float, fewest: float, deviation: float
    ) -> tuple[list[str], bool]:
        """Say how large the error is, and whether it may be so large."""
        a = self.arguments
        how = "synchronous" if a.synchronous else "asynchronous"
        bound = 0.125 if a.iterations else a.tolerance * 10 * a.subdomains**2
        lines = [
            f"schwarz: {a.transmission}, {how}, {a.subdomains} subdomains, {comm.size} ranks",
            f"error at most {bound:.2e}: {error <= bound * (1 + 1e-12)}",
            f"# error {error:.6e}, {-fewest:.0f} to {most:.0f} iterations, after {MPI.Wtime():.6f} s",
        ]
        right = error <= bound * (1 + 1e-12)
        if a.subdomains == 2 and a.synchronous and a.transmission == "dirichlet" and deviation >= 0:
            lines.append(f"error factor of two iterations {self.formula():.12f}, to 1e-12: {deviation <= 1e-12}")
            right = right and deviation <= 1e-12
        return lines, right


# ------------------------------------------------------------------------------------------------------------ recovery


class Recovering(Solver):
    """The solver that begins where it is, with a new process in the place of a dead one."""

    known = False  # whether this process has begun before

    def begin(self, comm: MPI.Intracomm) -> None:
        """Let the counter of a new process begin where the others' are; nobody else gives anything up."""
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
        """Return whether this process has just been started in place of a dead one."""
        return recovery.is_new() and not self.known


def main() -> None:
    """Iterate, and let nobody's death stop the others."""
    comm = recovery.joined()
    arguments = parse_arguments(comm.size)
    solver = Recovering(arguments, comm)
    (lines, right), comm = recovery.until_agreed(comm, solver.compute)
    recovery.conclude(comm, lines, right)


if __name__ == "__main__":
    main()
