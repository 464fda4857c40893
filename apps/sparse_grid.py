"""Sparse grid combination: coarse grids instead of a fine one, with three recovery schemes.

A partial differential equation is solved on several anisotropic grids, each by a separate group of processes, and at
the end the grids are combined. When a process fails, its group gives up its grid; all other groups finish theirs. Then
the survivors revoke the communicator, shrink it, and spawn new processes with the ranks of the failed ones.

--recovery rc   replication, resampling: the finest grids exist twice, and a lost one is copied from the other; a lost
                one of the next coarser grids is sampled from a finer neighbour
--recovery ac   alternate combination: there are additional coarser grids, and a lost grid is omitted; only
                coefficients are communicated
--recovery cr   checkpoint and restart: the group of a lost grid goes back to its last checkpoint on disk

This is the solver of Ali, Southern, Strazdins and Harding: Application Level Fault Recovery: Using Fault-Tolerant Open
MPI in a PDE Solver (IPDPS workshops 2014), and Ali, Strazdins, Harding and Hegland (IJHPCA 2015) with its plasma code
GENE, of which --problem gene has the two velocity axes.

    xsim run -n 11 --fail "rank=2@5ms" sparse_grid.py --recovery ac
    mpirun --with-ft ulfm -n 8 python sparse_grid.py --die 2@5

Grids, messages, checkpoints, recovery and combination are real. The size of the grids (--finest) and the equation
(advection by Lax-Wendroff, one axis after the other) are reduced, and --work declares the cost of a step. If both
copies of a grid are lost, or no combination is left, the program reports it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
import zlib
from typing import NamedTuple

import numpy as np
import recovery
import sparse_combination as combination
from mpi4py import MPI

LOST, RESAMPLED, OWN, NONE = range(4)  # states of a rank's part of a grid; UNKNOWN for grids of others
COMBINING = 1 << 10  # tags from here on

GENE = """\
published: cores  t_g    t_c   dt_f   t_G
published:    49  48.9   3.4    1.0  107.6
published:    98  36.8   3.8    7.4   65.3
published:   196  63.2  11.5   19.9   98.7
published: relative error 3.0E-04""".splitlines()


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--recovery", choices=["rc", "ac", "cr"], default="rc", help="recovery of lost grids")
    add("--problem", choices=["advection", "sine", "gene"], default="advection", help="problem to solve")
    add("--level", type=recovery.number(int, 1, 8), default=4, help="number of grids on the finest level, 1 to 8")
    add(
        "--finest", type=recovery.number(int, 1, 16), default=6, help="the longest axis has 2^FINEST cells, LEVEL to 16"
    )
    add("--nodes", type=recovery.number(int, 1, 10), default=7, help="combine at 2^NODES + 1 nodes per axis, 1 to 10")
    add("--steps", type=recovery.number(int, 0, 10**6), default=20, help="number of time steps")
    add("--every", type=recovery.number(int, 1, 10**6), default=5, help="steps between checkpoints")
    add("--checkpoint", metavar="PREFIX", default="sparse_grid", help="prefix of the checkpoint files")
    add("--work", type=recovery.seconds, default=0.0, help="seconds per step and cell")
    arguments = parser.parse_args()
    if arguments.finest < arguments.level:
        parser.error(f"--finest {arguments.finest}: below --level {arguments.level}")
    return arguments


# ------------------------------------------------------------------------------------------------------ distribution


def tasks_of(level: int, scheme: str) -> list[combination.Grid]:
    """Return the grids to compute: the finest, the next coarser, and those added by the scheme."""
    finest, next_ = combination.diagonal(level + 1), combination.diagonal(level)
    spare = combination.diagonal(level - 1) + combination.diagonal(level - 2)
    return finest + next_ + {"rc": finest, "ac": spare, "cr": []}[scheme]


def places_of(tasks: list[combination.Grid], level: int, ranks: int) -> list[range]:
    """Return the ranks of each grid, in proportion to its cells, or one each if ranks are few.

    A copy is never on the ranks of its original.
    """
    if ranks < len(tasks):
        twins = {task + 2 * level - 1: task for task in range(level)} if len(set(tasks)) < len(tasks) else {}
        at = [(twins[task] + ranks // 2 if task in twins else task) % ranks for task in range(len(tasks))]
        return [range(rank, rank + 1) for rank in at]
    cells = [2 ** (i + j) for i, j in tasks]
    sizes = [max(1, ranks * share // sum(cells)) for share in cells]
    while sum(sizes) != ranks:  # a few times at most
        loads = [share / size for share, size in zip(cells, sizes, strict=True)]
        if sum(sizes) < ranks:
            sizes[loads.index(max(loads))] += 1
        else:
            sizes[max(range(len(sizes)), key=lambda task: (sizes[task] > 1, -loads[task]))] -= 1
    ends = np.cumsum(sizes).tolist()
    return [range(end - size, end) for end, size in zip(ends, sizes, strict=True)]


class Box(NamedTuple):
    """A part of a grid: all of its shorter axis, and some rows of the longer one."""

    axis: int
    rows: range
    across: int

    @classmethod
    def of(cls, grid: combination.Grid, part: int, parts: int) -> Box:
        """Return a part of a grid; if there are more parts than rows, the last have none."""
        axis = int(grid[1] > grid[0])
        length, across = 2 ** grid[axis], 2 ** grid[1 - axis]
        parts = min(parts, length)
        rows = range(length * part // parts, length * (part + 1) // parts) if part < parts else range(0)
        return cls(axis, rows, across)

    def ranges(self) -> tuple[range, range]:
        """Return its nodes of the first and of the second axis of the grid."""
        both = (self.rows, range(self.across))
        return both if self.axis == 0 else both[::-1]

    def common(self, other: Box, strides: tuple[int, int]) -> tuple[tuple[slice, slice], tuple[slice, slice]] | None:
        """Return the indices of common nodes in this box and in another, on a coarser grid."""
        here, there = [], []
        for mine, theirs, stride in zip(self.ranges(), other.ranges(), strides, strict=True):
            begin = max(-(-mine.start // stride), theirs.start)
            end = min(-(-mine.stop // stride), theirs.stop)
            if begin >= end:
                return None
            here.append(slice(begin * stride - mine.start, end * stride - mine.start, stride))
            there.append(slice(begin - theirs.start, end - theirs.start))
        return (here[0], here[1]), (there[0], there[1])


class Piece:
    """One rank's part of one grid."""

    def __init__(self, arguments: argparse.Namespace, grid: combination.Grid, place: range, rank: int) -> None:
        self.arguments, self.problem = arguments, combination.PROBLEMS[arguments.problem]
        self.grid, self.place = grid, place
        self.box = Box.of(grid, rank - place.start, len(place))
        self.state, self.step, self.rows = LOST, 0, np.zeros((len(self.box.rows), self.box.across))

    def start(self) -> None:
        """Start at step 0."""
        profiles = [self.problem.profile(combination.nodes(exponent)) for exponent in self.grid]
        own, across = profiles[self.box.axis], profiles[1 - self.box.axis]
        self.state, self.step = OWN, 0
        self.rows = np.outer(own[self.box.rows.start : self.box.rows.stop], across)

    def oriented(self) -> np.ndarray:
        """Return the values with the axes in the grid's order."""
        return self.rows if self.box.axis == 0 else self.rows.T

    def advance(self, group: MPI.Intracomm | None) -> None:
        """Compute one step, after receiving the neighbours' rows in the group."""
        parts, axis = min(len(self.place), 2 ** self.grid[self.box.axis]), self.box.axis
        speeds = [combination.courant(self.problem, at, self.grid[at], self.arguments.finest) for at in (0, 1)]
        if self.box.rows:
            across = swept(wrapped(np.ascontiguousarray(self.rows.T)), speeds[1 - axis]).T
            rows = np.ascontiguousarray(across)
            self.rows = swept(wrapped(rows) if parts == 1 else ghosted(rows, group, parts), speeds[axis])
        if self.arguments.work:
            time.sleep(self.arguments.work * 2 ** sum(self.grid) / len(self.place))
        self.step += 1


def swept(wide: np.ndarray, c: float) -> np.ndarray:
    """Return the Lax-Wendroff step along the first axis, which has one more row on both sides."""
    here, before, after = wide[1:-1], wide[:-2], wide[2:]
    return here - c / 2 * (after - before) + c * c / 2 * (after - 2 * here + before)


def wrapped(rows: np.ndarray) -> np.ndarray:
    """Return rows with the previous and the next one, around the whole axis."""
    return np.concatenate((rows[-1:], rows, rows[:1]))


def ghosted(rows: np.ndarray, group: MPI.Intracomm, parts: int) -> np.ndarray:
    """Return rows with those of the neighbours."""
    wide = np.concatenate((rows[:1], rows, rows[:1]))
    after, before = (group.rank + 1) % parts, (group.rank - 1) % parts
    group.Sendrecv(rows[-1:], after, 0, wide[:1], before, 0)
    group.Sendrecv(rows[:1], before, 1, wide[-1:], after, 1)
    return wide


# -------------------------------------------------------------------------------------------------------------- solver


class Solver:
    """One rank's parts of grids, and their solution."""

    def __init__(self, arguments: argparse.Namespace, comm: MPI.Intracomm) -> None:
        self.arguments = arguments
        self.tasks = tasks_of(arguments.level, arguments.recovery)
        self.places = places_of(self.tasks, arguments.level, comm.size)
        coarser = arguments.finest - arguments.level
        self.grids = [(i + coarser, j + coarser) for i, j in self.tasks]
        self.pieces = {
            task: Piece(arguments, self.grids[task], place, comm.rank)
            for task, place in enumerate(self.places)
            if comm.rank in place
        }
        self.states = [OWN] * len(self.tasks)
        self.times: list[float] = [MPI.Wtime()]
        if not recovery.is_new():
            self.forget_checkpoints()
            for piece in self.pieces.values():
                piece.start()

    def compute(self, comm: MPI.Intracomm) -> tuple[list[str], bool]:
        """Solve, replace lost grids, and combine; return the lines to print, and True if right."""
        group = recovery.uniformly(comm, self.prepare)
        self.fail_if_lost()
        self.solve_in(group)
        recovery.die_at(self.arguments.die, self.arguments.steps)
        solved = MPI.Wtime()
        comm.Barrier()
        self.replicate(comm)
        restored = MPI.Wtime()
        result = self.combine(comm, self.chosen(comm))
        self.times = [self.times[0], solved, restored, MPI.Wtime()]
        return comm.bcast(result, root=0)

    def prepare(self, comm: MPI.Intracomm) -> MPI.Intracomm | None:
        """Find the complete grids, and return a communicator for this rank's grid, if it is shared."""
        mine = np.array([self.pieces[task].state if task in self.pieces else NONE for task in range(len(self.tasks))])
        states = np.empty_like(mine)
        comm.Allreduce(mine, states, op=MPI.MIN)
        self.states = states.tolist()
        return comm.Split(min(self.pieces), comm.rank) if comm.size >= len(self.tasks) else None

    def solve(self, group: MPI.Intracomm | None) -> None:
        """Compute all steps on this rank's grids that are complete or have checkpoints."""
        for task, piece in self.pieces.items():
            if self.states[task] == LOST and not self.restart(piece, group):
                piece.state = LOST
                continue
            while piece.step < self.arguments.steps:
                if self.arguments.recovery == "cr" and piece.step % self.arguments.every == 0:
                    self.save(piece, group)
                recovery.die_at(self.arguments.die, piece.step)
                piece.advance(group)

    def chosen(self, comm: MPI.Intracomm) -> dict[int, int]:
        """Return the tasks to combine with their coefficients, as chosen by rank 0."""
        level, chosen = self.arguments.level, None
        if comm.rank == 0:
            found = combination.coefficients(combination.triangle(level))
            if self.left_out():
                found = combination.recombined(self.missing(), level)
            chosen = {self.tasks.index(grid): c for grid, c in found.items()}
        chosen = comm.bcast(chosen, root=0)
        if not chosen:
            raise recovery.Lost(f"grids {self.left_out()}, which every combination needs")
        return chosen

    def combine(self, comm: MPI.Intracomm, chosen: dict[int, int]) -> tuple[list[str], bool] | None:
        """Add up the grids on rank 0, in a fixed order, and check the sum there."""
        total: np.ndarray | float = 0.0
        for task, coefficient in sorted(chosen.items()):
            values = self.gathered(comm, task)
            leader = self.places[task].start
            if comm.rank == 0:
                size = 2**self.arguments.nodes + 1
                if leader:
                    values = np.empty((size, size))
                    comm.Recv(values, leader, COMBINING + task)
                total = total + coefficient * values
            elif comm.rank == leader:
                comm.Send(values, 0, COMBINING + task)
        return self.judged(comm, chosen, total) if comm.rank == 0 else None

    def gathered(self, comm: MPI.Intracomm, task: int) -> np.ndarray | None:
        """Return a grid at the nodes of the combination, on the first of its ranks."""
        place, grid, to = self.places[task], self.grids[task], self.arguments.nodes
        if comm.rank not in place:
            return None
        piece = self.pieces[task]
        stride = 2 ** max(0, grid[piece.box.axis] - to)  # one of this number of rows is needed
        rows = piece.rows[-piece.box.rows.start % stride :: stride] if piece.box.rows else piece.rows
        mine = np.ascontiguousarray(combination.interpolated(rows.T, to).T)
        if comm.rank != place.start:
            if len(mine):
                comm.Send(mine, place.start, task)
            return None
        parts = [mine]
        for part, rank in enumerate(place[1:], 1):
            box = Box.of(grid, part, len(place)).rows
            count = -(-box.stop // stride) - -(-box.start // stride)
            if count:
                parts.append(np.empty((count, 2**to + 1)))
                comm.Recv(parts[-1], rank, task)
        values = combination.interpolated(np.concatenate(parts), to)
        return np.ascontiguousarray(values if piece.box.axis == 0 else values.T)

    def judged(self, comm: MPI.Intracomm, chosen: dict[int, int], total: np.ndarray) -> tuple[list[str], bool]:
        """Compare the combination with that of the closed forms, and with the solution of the equation."""
        a, level = self.arguments, self.arguments.level
        problem = combination.PROBLEMS[a.problem]
        sources = [
            (c, self.grids[task], self.grids[task - level if self.states[task] == RESAMPLED else task])
            for task, c in chosen.items()
        ]
        closed = combination.combined(problem, sources, a.finest, a.steps, a.nodes)
        error = np.abs(total - combination.exact(problem, a.finest, a.steps, a.nodes))
        grids = {self.tasks[task]: c for task, c in sorted(chosen.items())}
        names = [f"{c:+d}({i},{j})" for (i, j), c in grids.items()]
        sizes = [len(place) for place in self.places]
        lines = [
            f"sparse_grid: {a.problem}, {a.recovery}, level {level}, {2**a.finest} cells, {comm.size} ranks",
            f"groups: {' '.join(map(str, sizes))}",
            f"combination: {' '.join(names)}",
            f"error: mean {error.mean():.6f}, max {error.max():.6f}",
        ]
        resampled = [self.tasks[task] for task, state in enumerate(self.states) if state == RESAMPLED]
        lines += [f"resampled: {grid}" for grid in resampled] + [f"omitted: {grid}" for grid in self.left_out()]
        undisturbed = not resampled and grids == combination.coefficients(combination.triangle(level))
        lines.append(f"{'state' if undisturbed else 'digest'} {zlib.crc32(total.tobytes()):08x}")
        if a.problem == "gene":
            full = combination.combined(problem, [(1, (a.finest,) * 2, (a.finest,) * 2)], a.finest, a.steps, a.nodes)
            lines += [f"relative error: {np.linalg.norm(total - full) / np.linalg.norm(full):.1E}", *GENE]
        best = grids == combination.judged_best(self.missing(), level)
        return lines, best and bool(np.abs(total - closed).max() < 1e-12)


# ------------------------------------------------------------------------------------------------------------ recovery


class Recovering(Solver):
    """The solver with recovery: it omits lost grids, copies them, or reads them from disk."""

    def solve_in(self, group: MPI.Intracomm | None) -> None:
        """Solve, and give up this rank's grid if its group has a failure; other groups continue."""
        _, well = recovery.attempt(self.solve, group)
        if not well:
            group.Revoke()
            for piece in self.pieces.values():
                piece.state = LOST
            raise MPI.Exception(MPI.ERR_REVOKED)

    def left_out(self) -> list[combination.Grid]:
        """Return the lost grids that can only be omitted."""
        lost = [grid for grid, state in zip(self.tasks, self.states, strict=True) if state == LOST]
        return lost if self.arguments.recovery == "ac" else []

    def missing(self) -> set[combination.Grid]:
        """Return all grids unavailable to a combination; empty if nothing is lost."""
        absent = combination.triangle(self.arguments.level).difference(self.tasks)
        return absent.union(self.left_out()) if self.left_out() else set()

    def fail_if_lost(self) -> None:
        """End the job if both copies of a grid are lost."""
        if self.arguments.recovery == "rc":
            level = self.arguments.level
            gone = [self.tasks[t] for t in range(level) if self.states[t] == self.states[t + 2 * level - 1] == LOST]
            if gone:
                raise recovery.Lost(f"grids {gone}, with their copies")

    def replicate(self, comm: MPI.Intracomm) -> None:
        """Copy lost grids from their twins, then sample coarser ones from finer neighbours."""
        if self.arguments.recovery != "rc":
            return
        level = self.arguments.level
        twins = {task: task + 2 * level - 1 for task in range(level)}
        for to, source in [*twins.items(), *((twin, task) for task, twin in twins.items())]:
            if self.states[to] == LOST:
                self.transfer(comm, source, to, OWN)
        for to in range(level, 2 * level - 1):
            if self.states[to] == LOST:
                self.transfer(comm, to - level, to, RESAMPLED)  # (i, j) from (i, j + 1)
                self.states[to] = RESAMPLED

    def transfer(self, comm: MPI.Intracomm, source: int, to: int, state: int) -> None:
        """Send a grid, or every n-th of its nodes, from its owners to its receivers."""
        strides = tuple(2 ** (self.grids[source][axis] - self.grids[to][axis]) for axis in (0, 1))
        if comm.rank in self.places[source]:
            have = self.pieces[source]
            for part, rank in enumerate(self.places[to]):
                common = have.box.common(Box.of(self.grids[to], part, len(self.places[to])), strides)
                if common:
                    comm.Send(np.ascontiguousarray(have.oriented()[common[0]]), rank, to)
        if comm.rank in self.places[to]:
            need = self.pieces[to]
            for part, rank in enumerate(self.places[source]):
                common = Box.of(self.grids[source], part, len(self.places[source])).common(need.box, strides)
                if common:
                    values = np.empty_like(need.oriented()[common[1]], order="C")
                    comm.Recv(values, rank, to)
                    need.oriented()[common[1]] = values
            need.state, need.step = state, self.arguments.steps

    def path(self, piece: Piece, step: int) -> str:
        """Return the name of a piece's checkpoint, which identifies all that determines its values."""
        a, (i, j) = self.arguments, piece.grid
        first, last = (piece.box.rows.start, piece.box.rows.stop)
        return f"{a.checkpoint}.{a.problem}.{a.finest}.{i}x{j}.{first}to{last}.{step}.npy"

    def save(self, piece: Piece, group: MPI.Intracomm | None) -> None:
        """Write a checkpoint, and remove the last one when the whole group has this one."""
        path = self.path(piece, piece.step)
        with open(f"{path}.new", "wb") as file:
            np.save(file, piece.rows)
        os.replace(f"{path}.new", path)
        if group is not None:
            group.Barrier()
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.path(piece, piece.step - self.arguments.every))

    def checkpoints(self, piece: Piece) -> list[int]:
        """Return the steps of a piece's checkpoints."""
        steps = range(0, self.arguments.steps, self.arguments.every)
        return [step for step in steps if os.path.exists(self.path(piece, step))]

    def restart(self, piece: Piece, group: MPI.Intracomm | None) -> bool:
        """Go back to the last checkpoint of the whole group, if any, or to the beginning."""
        if self.arguments.recovery != "cr":
            return False
        last = np.array([max(self.checkpoints(piece), default=-1)])
        if group is not None:
            group.Allreduce(MPI.IN_PLACE, last, op=MPI.MIN)
        if last[0] < 0:
            piece.start()
        else:
            piece.rows, piece.step, piece.state = np.load(self.path(piece, int(last[0]))), int(last[0]), OWN
        return True

    def forget_checkpoints(self) -> None:
        """Remove the checkpoints of this rank's grids."""
        if self.arguments.recovery == "cr":
            for piece in self.pieces.values():
                for step in self.checkpoints(piece):
                    os.remove(self.path(piece, step))


def main() -> None:
    """Solve and combine, and recover from failures."""
    arguments = parse_arguments()
    comm = recovery.joined()
    solver = Recovering(arguments, comm)
    (lines, right), comm = recovery.until_agreed(comm, solver.compute)
    solver.forget_checkpoints()
    begin, solved, restored, ended = solver.times
    parts = f"restored in {restored - solved:.6f} s, combined in {ended - restored:.6f} s"
    recovery.conclude(comm, [*lines, f"# solved after {solved - begin:.6f} s, {parts}"], right)


if __name__ == "__main__":
    main()
