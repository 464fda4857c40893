"""FA-MPI: a solver that works in TryBlocks, with forward or backward recovery.

The Poisson equation on a long box of hexahedral finite elements, as in the proxy application MiniFE, is solved by
Jacobi's method. Each rank has some planes of nodes. A TryBlock (tryblock.py) contains a few sweeps and ends with an
agreement, so either all ranks complete these sweeps, or none does. This is the pattern of FA-MPI (Hassani and Skjellum,
UAB; algorithm 1 of their poster at SC'13, which ran MiniFE on 1K processes). The next action depends on the outcome:

    an error injected by a rank, or a timeout       repeat the block on the same communicator
    a failure, --recovery backward  regrow: new processes replace the failed ranks; all reload the last checkpoint,
                                    of which each rank's right neighbour has a copy
    a failure, --recovery forward   shrink: the neighbours take over the planes of the failed rank and interpolate
                                    them; no rank goes back further than to the beginning of the block

The right-hand side is a sum of eigenvectors of the matrix. So the solution after any number of sweeps from zero has a
closed form, against which the program checks itself. Backward recovery ends with that solution, bit for bit as one
process computes it. Forward recovery starts from a state that no formula gives, and ends within the bound from the
residual and the smallest eigenvalue.

    xsim run -n 8 fampi.py
    xsim run -n 8 --fail rank=3@2ms fampi.py --recovery forward
    mpirun --with-ft ulfm -n 8 python fampi.py --die 3@20 --corrupt 1@12 --stall 2@30 --timeout 0.5

The messages, the errors and the computation are real. --work declares the compute time, and the mesh is regular, so
that the stiffness matrix need not be stored.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import cache
from typing import NamedTuple

import numpy as np
import recovery
import tryblock
from mpi4py import MPI
from tryblock import TryBlock

UP, DOWN = 1, 2
CORRUPT, LOST = 3, 4  # injected: a wrong checksum; data without a copy
UNSOLVED = 0  # flagged: the residual is too large
ROUND_OFF = 1e-11
# The stiffness matrix of trilinear elements times 36, from (-1, 2, -1) and (1, 4, 1) along the axes.
STIFF, MASS = np.array([-1, 2, -1]), np.array([1, 4, 1])
STENCIL = sum(
    np.multiply.outer(np.multiply.outer(*pair), line)
    for pair, line in (((STIFF, MASS), MASS), ((MASS, STIFF), MASS), ((MASS, MASS), STIFF))
)
DIAGONAL = 96.0
WEIGHTS = [(weight, np.argwhere(weight == STENCIL).tolist()) for weight in np.unique(STENCIL[STENCIL != 0])]
MODES = ((1, 1, 1), (3, 2, 1))  # of the right-hand side: half waves along the box, and across


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--recovery", choices=("backward", "forward"), default="backward")
    add("--planes", type=recovery.positive, default=2, help="planes of nodes per rank at the start")
    add("--nodes", type=recovery.number(int, 2), default=4, help="nodes along the side of a plane")
    add("--tolerance", type=recovery.fraction, default=1e-8, help="of the residual relative to the right-hand side")
    add("--max-sweeps", type=recovery.positive, default=10_000, help="maximum number of sweeps")
    add("--block", type=recovery.positive, default=5, help="sweeps in a TryBlock")
    add("--every", type=recovery.positive, default=2, help="TryBlocks between checkpoints")
    add("--timeout", type=recovery.seconds, default=0.0, help="timeout of a TryBlock in seconds; 0: none")
    add("--tries", type=recovery.positive, default=5, help="attempts at a block on the same communicator")
    add("--work", type=recovery.seconds, default=0.0, help="seconds that a sweep sleeps, as its work")
    add("--corrupt", type=recovery.death, metavar="RANK@SWEEP", help="this rank computes one wrong value")
    add("--stall", type=recovery.death, metavar="RANK@SWEEP", help="this rank sleeps once, for two timeouts")
    return parser.parse_args()


# ------------------------------------------------------------------------------------------------------------- the box


class Box(NamedTuple):
    """The nodes within the boundary, where the solution is zero."""

    planes: int
    nodes: int

    def mode(self, waves: tuple[int, int, int], planes: range) -> np.ndarray:
        """Return an eigenvector of the matrix on some planes."""
        lines = (planes, range(self.nodes), range(self.nodes))
        sizes = (self.planes, self.nodes, self.nodes)
        along = [
            np.sin(np.pi * n / (size + 1) * (np.array(line) + 1))
            for n, line, size in zip(waves, lines, sizes, strict=True)
        ]
        return np.multiply.outer(np.multiply.outer(along[0], along[1]), along[2])

    def eigenvalue(self, waves: tuple[int, int, int]) -> float:
        """Return the eigenvalue of an eigenvector."""
        angles = np.pi * np.array(waves) / (np.array((self.planes, self.nodes, self.nodes)) + 1)
        stiff, mass = 2 - 2 * np.cos(angles), 4 + 2 * np.cos(angles)
        return float(sum(np.prod([*np.delete(mass, axis), stiff[axis]]) for axis in range(3)))

    def right_side(self, planes: range) -> np.ndarray:
        """Return the right-hand side on some planes."""
        return sum(self.mode(waves, planes) for waves in MODES)

    def after(self, sweeps: int, planes: range) -> np.ndarray:
        """Return the exact solution after a number of sweeps from zero."""
        values = {waves: self.eigenvalue(waves) for waves in MODES}
        return sum(
            (1 - (1 - value / DIAGONAL) ** sweeps) / value * self.mode(waves, planes) for waves, value in values.items()
        )

    def solution(self, planes: range) -> np.ndarray:
        """Return the exact solution."""
        return sum(self.mode(waves, planes) / self.eigenvalue(waves) for waves in MODES)


def times_matrix(wide: np.ndarray) -> np.ndarray:
    """Return the matrix times a field, which has one more layer of nodes on all sides.

    The order of additions is the same for every node, so all ranks get the bits of one process.
    """
    planes, nodes = wide.shape[0] - 2, wide.shape[1] - 2
    result = np.zeros((planes, nodes, nodes))
    for weight, offsets in WEIGHTS:
        z, y, x = offsets[0]
        part = wide[z : z + planes, y : y + nodes, x : x + nodes].copy()
        for z, y, x in offsets[1:]:
            part += wide[z : z + planes, y : y + nodes, x : x + nodes]
        result += weight * part
    return result


def surrounded(u: np.ndarray) -> np.ndarray:
    """Return a field with a layer of zeros on all sides."""
    wide = np.zeros(np.add(u.shape, 2))
    wide[1:-1, 1:-1, 1:-1] = u
    return wide


@cache
def columns(planes: int, nodes: int) -> np.ndarray:
    """Return the column sums of the matrix of some planes, for the nodes of `wide`."""
    sums = np.zeros((planes + 2, nodes + 2, nodes + 2))
    for (z, y, x), weight in np.ndenumerate(STENCIL):
        sums[z : z + planes, y : y + nodes, x : x + nodes] += weight
    return sums


def serial(box: Box, limit: float, block: int, max_sweeps: int) -> tuple[int, np.ndarray]:
    """Solve in one process; return the solution and the number of sweeps."""
    every = range(box.planes)
    u, b = np.zeros((box.planes, box.nodes, box.nodes)), box.right_side(every)
    for sweep in range(0, max_sweeps, block):
        for _ in range(block):
            residual = b - times_matrix(surrounded(u))
            u = u + residual / DIAGONAL
        if np.abs(residual).max() <= limit:
            return sweep + block, u
    return max_sweeps, u


# ---------------------------------------------------------------------------------------------------------- the solver


class Slab:
    """The planes of one rank, as they were at the end of the last successful block."""

    def __init__(self, arguments: argparse.Namespace, comm: MPI.Intracomm) -> None:
        self.arguments = arguments
        self.box = Box(arguments.planes * comm.size, arguments.nodes)
        self.limit = arguments.tolerance * float(np.abs(self.box.right_side(range(self.box.planes))).max())
        self.buddies = recovery.Buddies()
        self.mishaps = {("corrupt", arguments.corrupt), ("stall", arguments.stall)}
        self.forward = False
        self.start(comm.rank)

    def start(self, rank: int) -> None:
        """Start from a solution of zero."""
        first = rank * self.arguments.planes
        self.put(0, range(first, first + self.arguments.planes))

    def put(self, sweep: int, planes: range, u: np.ndarray | None = None) -> None:
        """Take over the initial state of the next block."""
        self.sweep, self.planes, self.solved = sweep, planes, False
        self.u = np.zeros((len(planes), self.box.nodes, self.box.nodes)) if u is None else u
        self.b = self.box.right_side(planes)

    @property
    def ended(self) -> bool:
        """Return True if the residual is small enough everywhere, or the limit of sweeps is reached."""
        return self.solved or self.sweep >= self.arguments.max_sweeps

    def advanced(self, block: TryBlock) -> tuple[int, np.ndarray]:
        """Return the state after the sweeps of a block, which becomes this slab's if all succeed."""
        u = self.u
        for sweep in range(self.sweep, self.sweep + self.arguments.block):
            recovery.die_at(self.arguments.die, sweep)
            u, residual = self.swept(block, u, sweep)
        if np.abs(residual).max() > self.limit:
            block.flag(UNSOLVED)
        return sweep + 1, u

    def swept(self, block: TryBlock, u: np.ndarray, sweep: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the field after a sweep, and the residual before, after checking its sum."""
        time.sleep(self.arguments.work + 2 * self.arguments.timeout * self.happens("stall", sweep))
        wide = self.with_neighbours(block, u)
        residual = self.b - times_matrix(wide)
        new = u + residual / DIAGONAL
        new[0, 0, 0] += self.happens("corrupt", sweep)
        expected = u.sum() + (self.b.sum() - np.vdot(columns(len(u), self.box.nodes), wide)) / DIAGONAL
        if abs(new.sum() - expected) > ROUND_OFF * np.abs(new).sum():
            block.inject(CORRUPT)
        return new, residual

    def with_neighbours(self, block: TryBlock, u: np.ndarray) -> np.ndarray:
        """Return the planes with those of the neighbours around them, and the boundary."""
        comm = block.comm
        wide = surrounded(u)
        edges = [(comm.rank - 1, DOWN, UP, 0, u[0].copy()), (comm.rank + 1, UP, DOWN, -1, u[-1].copy())]
        there = [edge for edge in edges if 0 <= edge[0] < comm.size]
        ghosts = [np.zeros_like(plane) for *_, plane in there]
        receives = [block.irecv(ghost, rank, comes) for (rank, _, comes, *_), ghost in zip(there, ghosts, strict=True)]
        for rank, goes, _, _, plane in there:
            block.isend(plane, rank, goes)
        block.wait_local(*receives)
        for (*_, side, _), ghost in zip(there, ghosts, strict=True):
            wide[side, 1:-1, 1:-1] = ghost
        return wide

    def happens(self, what: str, sweep: int) -> bool:
        """Return True, once, if an event is to strike this initial rank now."""
        mishap = (what, (MPI.COMM_WORLD.rank, sweep))
        if mishap not in self.mishaps or recovery.is_new():
            return False
        self.mishaps.remove(mishap)
        return True

    def judged(self, comm: MPI.Intracomm) -> tuple[list[str], bool]:
        """Compare with the formulas; return the lines to print, and True if all is right."""
        nodes = self.box.planes * self.box.nodes**2
        bound = self.limit * np.sqrt(nodes) / self.box.eigenvalue((1, 1, 1))
        after, solution = self.box.after(self.sweep, self.planes), self.box.solution(self.planes)
        off = np.abs(self.u - after).max() > ROUND_OFF / self.box.eigenvalue((1, 1, 1))
        sums = np.zeros(2)
        comm.Allreduce(np.array([np.square(self.u - solution).sum(), off]), sums)
        right = self.solved and np.sqrt(sums[0]) <= bound and (self.forward or sums[1] == 0)
        line = f"fampi: {self.arguments.recovery}, {nodes} nodes, largest error {bound:.1e}"
        if self.arguments.recovery == "forward":
            return [line], bool(right)
        equal = self.compared(comm, comm.gather(self.u))
        return [f"{line}, {self.sweep} sweeps"], bool(right and equal)

    def compared(self, comm: MPI.Intracomm, slabs: list[np.ndarray] | None) -> bool:
        """Return True if all bits are those of one process."""
        equal = None
        if slabs is not None:
            sweeps, alone = serial(self.box, self.limit, self.arguments.block, self.arguments.max_sweeps)
            equal = sweeps == self.sweep and np.array_equal(np.concatenate(slabs), alone)
        return comm.bcast(equal, root=0)


# ------------------------------------------------------------------------------------------------------------ recovery


def saved(slab: Slab, block: TryBlock) -> None:
    """Make a checkpoint of the beginning of a block, in a nested block."""
    done = slab.sweep // slab.arguments.block
    if slab.arguments.recovery == "backward" and done % slab.arguments.every == 0:
        with block.nested() as inner:
            slab.buddies.save(inner.comm, slab.sweep, slab.u)


def repaired(slab: Slab, comm: MPI.Intracomm) -> MPI.Intracomm:
    """Replace or exclude the failed ranks."""
    new = (tryblock.regrow if slab.arguments.recovery == "backward" else tryblock.shrink)(comm)
    dead = recovery.known_dead(comm)
    if comm.rank == min({*range(comm.size)}.difference(dead)):
        print(f"# {slab.arguments.recovery} after failures of ranks {dead}, at {MPI.Wtime():.6f} s", flush=True)
    return new


def reloaded(slab: Slab, block: TryBlock) -> None:
    """Go back to the last checkpoint, or to the beginning."""
    try:
        last = slab.buddies.restore(block.comm)
    except recovery.Lost as lost:
        slab.lost = str(lost)
        block.inject(LOST)
        return
    slab.start(block.comm.rank)
    if last is not None:
        slab.put(last[0], slab.planes, last[1])


def taken_over(slab: Slab, block: TryBlock) -> tuple[int, range, np.ndarray]:
    """Return this rank's planes with those it takes over from failed ranks, interpolated."""
    comm, zero = block.comm, np.zeros_like(slab.u[0])
    of_all = comm.allgather((slab.planes, slab.u[0], slab.u[-1]))
    of_all = [(range(0), zero, zero), *of_all, (range(slab.box.planes, slab.box.planes), zero, zero)]
    low, mine, high = of_all[comm.rank : comm.rank + 3]
    # A gap is shared by its neighbours; the first and the last rank take all beyond them.
    begin = (low[0].stop + mine[0].start) // 2 if comm.rank else 0
    end = (mine[0].stop + high[0].start) // 2 if comm.rank < comm.size - 1 else slab.box.planes
    below = [_between(z, (low[0].stop - 1, low[2]), (mine[0].start, slab.u[0])) for z in range(begin, mine[0].start)]
    above = [_between(z, (mine[0].stop - 1, slab.u[-1]), (high[0].start, high[1])) for z in range(mine[0].stop, end)]
    return slab.sweep, range(begin, end), np.stack([*below, *slab.u, *above])


def _between(z: int, low: tuple[int, np.ndarray], high: tuple[int, np.ndarray]) -> np.ndarray:
    """Interpolate a plane."""
    return low[1] + (high[1] - low[1]) * ((z - low[0]) / (high[0] - low[0]))


def solve(comm: MPI.Intracomm, arguments: argparse.Namespace) -> tuple[MPI.Intracomm, list[str], bool]:
    """Run blocks until the solution has been found and checked."""
    slab, restoring, tries = Slab(arguments, comm), recovery.is_new(), 0
    backward = arguments.recovery == "backward"
    while True:
        result = None
        with TryBlock(comm, arguments.timeout) as block:
            if restoring:
                result = reloaded(slab, block) if backward else taken_over(slab, block)
            elif slab.ended:
                result = slab.judged(comm)
            else:
                saved(slab, block)
                result = slab.advanced(block)
        if block.outcome.sick:
            comm, restoring, tries = repaired(slab, comm), True, 0
        elif LOST in block.outcome.codes:
            recovery.give_up(comm, slab.lost)
        elif not block.outcome.ok:
            tries += 1
            say_what_happened(slab, block)
            if tries == arguments.tries:
                return comm, [f"fampi: {tries} failed attempts of the sweeps from {slab.sweep} on"], False
        elif restoring:
            if not backward:
                slab.put(*result)
                slab.forward = True
            restoring = False
        elif slab.ended:
            return comm, *result
        else:
            tries = 0
            (slab.sweep, slab.u), slab.solved = result, UNSOLVED not in block.outcome.flags


def say_what_happened(slab: Slab, block: TryBlock) -> None:
    """Print why a block is repeated."""
    origins = block.origins()
    if block.comm.rank == 0:
        why = [f"wrong checksum on ranks {origins[CORRUPT]}"] if origins else []
        why += ["timeout"] if block.outcome.timed_out else []
        print(f"# repeat sweeps from {slab.sweep}, at {MPI.Wtime():.6f} s: {', '.join(why)}", flush=True)


# ---------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    """Solve, and recover from failures."""
    arguments = parse_arguments()
    begin = MPI.Wtime()
    comm, lines, right = solve(recovery.joined(), arguments)
    lines.append(f"# {MPI.Wtime() - begin:.6f} s on {comm.size} ranks")
    recovery.conclude(comm, lines, right)


if __name__ == "__main__":
    sys.exit(main())
