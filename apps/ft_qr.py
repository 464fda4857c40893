"""QR factorisation with checksums that restore the data of a failed process.

A matrix is factorised by Householder reflections, in blocks of columns distributed cyclically over the ranks. For each
group of blocks, one from each rank, there is a block that is their sum. A reflection of the columns reflects the sum,
too: after each panel it still is the sum, of finished and unfinished columns alike. So when a process fails, a new one
replaces it, and each of its blocks is the sum of its group minus the others. Each group has two sums, on two ranks,
because the failed rank may hold one of them and also has a block of that group; in the second one each rank's block has
a different weight. The reflections of a panel, which no sum protects, are also on the right neighbour, which has
received them anyway. All ranks go back to the last panel that all had begun, and continue. Two processes that fail
together lose two blocks of each group. With `--recovery buddy` a neighbour has copies of everything, as of each panel.

When a bit flips in memory no process fails, but both sums are off, in the same row of the same column, and the ratio of
the differences is the weight of one rank. So the changed element is identified before each panel (Huang and Abraham,
IEEE Transactions on Computers C-33, 1984). It is recomputed from the first sum, as is the whole column if a reflection
has spread the error. If only one of the two sums is off, the sum itself has changed.

This is algorithm-based fault tolerance as in FTLA (Innovative Computing Laboratory, University of Tennessee: Du,
Bouteiller, Bosilca, Herault, Dongarra, PPoPP 2012), of which the ULFM tutorials of 2014 say that "FTQR returns an error
to the app, app calls new BLACS repair constructs (spawn new processes with MPI_COMM_SPAWN), and re-enters FTQR to
resume". The arithmetic, the sums and the recovery are real; the two-dimensional layout of ScaLAPACK is reduced to
columns.

    xsim run -n 8 ft_qr.py --die 3@5
    xsim run -n 8 --fail "rank=2@3ms" ft_qr.py --recovery buddy
    xsim run -n 8 --fail "flip:array,rank=2,at=1ms,array=block2,bit=1400" ft_qr.py
    mpirun --with-ft ulfm -n 8 python ft_qr.py --die 3@5

Validation: after each panel the sums hold to 1e-13 of the matrix; each restored block equals the matrix after the
reflections so far, to 1e-13; in the end A is Q R, and Q has orthogonal columns, to 1e-14 n.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import NamedTuple

import numpy as np
import recovery
from mpi4py import MPI

try:
    from xsim_py import expose
except ImportError:

    def expose(name: str, array: np.ndarray) -> None:
        """Do nothing: only a simulated program has injected soft errors."""


PANELS, GUARDS = 1, 2
EXACT = 1e-13
UNSEEN = -1.0  # not checked


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--block", type=recovery.positive, default=4, help="columns per block")
    add("--groups", type=recovery.positive, default=2, help="blocks per rank")
    add("--panels", type=recovery.positive, default=sys.maxsize, help="maximum number of panels (default: all)")
    add("--recovery", choices=["checksum", "buddy"], default="checksum", help="redundancy of blocks")
    add("--no-check", action="store_true", help="check checksums and recovered blocks only at the end")
    add("--work", type=recovery.seconds, default=0.0, metavar="SECONDS", help="work of a panel per block")
    return parser.parse_args()


# ---------------------------------------------------------------------------------------------------- the factorisation


def entries(size: int, block: int, width: int) -> np.ndarray:
    """Return a block of columns of the matrix: reproducible pseudo-random numbers in [-1, 1]."""
    return np.random.default_rng([size, block]).uniform(-1, 1, (size, width))


def reflections(columns: np.ndarray, begin: int) -> np.ndarray:
    """Return the reflections that triangularise columns from a row on: V over T, Q = I - V T V'."""
    size, width = columns.shape
    work, both = columns.copy(), np.zeros((size + width, width))
    vectors, factor = both[:size], both[size:]
    for index in range(width):
        vector = work[begin + index :, index].copy()
        vector[0] += np.copysign(np.linalg.norm(vector), vector[0])
        vector /= np.linalg.norm(vector)
        vectors[begin + index :, index] = vector
        work[begin + index :] -= 2 * np.outer(vector, vector @ work[begin + index :])
        factor[:index, index] = -2 * factor[:index, :index] @ (vectors[:, :index].T @ vectors[:, index])
        factor[index, index] = 2
    return both


def reflected(columns: np.ndarray, panel: np.ndarray, *, back: bool = False) -> np.ndarray:
    """Return Q' times some columns, or Q times them."""
    vectors, factor = panel[: len(columns)], panel[len(columns) :]
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers changed by soft errors
        return columns - vectors @ ((factor if back else factor.T) @ (vectors.T @ columns))


class State(NamedTuple):
    """A rank's share of the matrix after some panels; changes create a new state."""

    blocks: dict[int, np.ndarray]
    sums: dict[int, np.ndarray]
    panels: dict[int, np.ndarray]
    """The reflections of the rank's own panels."""
    guarded: dict[int, np.ndarray]
    """The reflections of its left neighbour's panels."""

    def plausible(self, size: int) -> State:
        """Return a copy with zeros for values that are impossible for this matrix, or not numbers."""

        def limited(columns: dict[int, np.ndarray], most: float) -> dict[int, np.ndarray]:
            return {at: np.where(np.abs(each) <= most, each, 0.0) for at, each in columns.items()}

        return self._replace(blocks=limited(self.blocks, size), sums=limited(self.sums, 2.0 * size * size))


class Factorisation:
    """One rank's part of the factorisation."""

    def __init__(self, args: argparse.Namespace, rank: int, ranks: int) -> None:
        self.args, self.rank, self.ranks = args, rank, ranks
        self.count = args.groups * ranks
        self.size = self.count * args.block
        self.summed = args.recovery == "checksum"
        self.copies = recovery.Copies() if self.summed else recovery.Buddies()
        self.recovered = UNSEEN
        self.flips: list[str] = []
        self.start()

    def start(self) -> None:
        """Start from the matrix and the sums of its blocks."""
        args, ranks = self.args, self.ranks
        self.panel, self.worst = 0, UNSEEN
        blocks = {block: self.original(block) for block in range(self.rank, self.count, ranks)}
        sums = {}
        for group in range(args.groups) if self.summed else ():
            if self.rank in holders(group, ranks):
                weights = self.weights[holders(group, ranks).index(self.rank)]
                sums[group] = sum(weights[each] * self.original(group * ranks + each) for each in range(ranks))
        self.state = State(blocks, sums, {}, {})

    @property
    def weights(self) -> np.ndarray:
        """The weights of the ranks' blocks in the two sums of a group, shape (2, ranks)."""
        return np.array([np.ones(self.ranks), 1 + np.arange(self.ranks) / self.ranks])

    @property
    def state(self) -> State:
        """The state of this rank; soft errors may hit its blocks and sums."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state
        for name, columns in (("block", state.blocks), ("sum", state.sums)):
            for at, each in columns.items():
                expose(f"{name}{at}", each)

    def original(self, block: int) -> np.ndarray:
        """Return a block of the initial matrix."""
        return entries(self.size, block, self.args.block)

    def compute(self, comm: MPI.Intracomm) -> Residuals:
        """Factorise from the next panel on, and check the result."""
        while self.panel < min(self.count, self.args.panels):
            self.copies.save(comm, self.panel, self.state)
            recovery.die_at(self.args.die, self.panel)
            self.check(comm)
            self.advance(comm)
        self.check(comm)
        return self.residuals(comm)

    def advance(self, comm: MPI.Intracomm) -> None:
        """Factorise a panel, and reflect all following columns and the sums."""
        args, state, panel, owner = self.args, self.state, self.panel, self.panel % self.ranks
        made = np.empty((self.size + args.block, args.block))
        if self.rank == owner:
            made = reflections(state.blocks[panel], panel * args.block)
        comm.Bcast(made, root=owner)
        blocks = {at: reflected(each, made) if at >= panel else each for at, each in state.blocks.items()}
        ended = panel // self.ranks  # groups whose blocks are all finished
        sums = {at: reflected(each, made) if at >= ended else each for at, each in state.sums.items()}
        panels = state.panels | ({panel: made} if self.rank == owner else {})
        guarded = state.guarded | ({panel: made} if self.rank == (owner + 1) % self.ranks else {})
        self.state, self.panel = State(blocks, sums, panels, guarded), panel + 1
        if args.work:
            time.sleep(args.work * (sum(at >= panel for at in blocks) + len(sums)))

    # -------------------------------------------------------------------------------------------------------- checks

    def unbalanced(self, comm: MPI.Intracomm, state: State) -> np.ndarray:
        """Return on rank 0 the deviation of the sums, shape (2, groups, size, block)."""
        mine = np.zeros((2, self.args.groups, self.size, self.args.block))
        for block, columns in state.blocks.items():
            mine[:, block // self.ranks] += np.multiply.outer(self.weights[:, self.rank], columns)
        for group, columns in state.sums.items():
            mine[holders(group, self.ranks).index(self.rank), group] -= columns
        wrong = np.zeros_like(mine)
        comm.Reduce(mine, wrong)
        return wrong

    def check(self, comm: MPI.Intracomm) -> None:
        """Check the sums, and correct a soft error if they locate it.

        Rank 0 decides, because soft errors hit messages, too, and ranks might disagree. The check is on copies, with
        which all ranks continue; a change of the originals meanwhile has no effect.
        """
        if not self.summed or self.args.no_check:
            return
        state = self.state.plausible(self.size)
        wrong = self.unbalanced(comm, state)
        found, worst = comm.bcast((located(wrong, self.weights[1], EXACT * self.norm), float(np.abs(wrong).max())))
        if found:
            for column in found:
                self.put(state, column, np.zeros(self.size))
            missing = self.unbalanced(comm, state)  # without the old numbers, which may have been huge
            for column, values in comm.bcast([(each, each.values(missing)) for each in found]):
                self.put(state, column, values)
                self.flips.append(column.args(self))
            worst = comm.bcast(float(np.abs(self.unbalanced(comm, state)).max()))
        self.state, self.worst = state, max(self.worst, worst / self.norm)
        if self.panel in self.copies.kept:
            self.copies.kept[self.panel] = state  # a rollback returns to this state

    def put(self, state: State, place: Column, values: np.ndarray) -> None:
        """Replace the values of a column of a block or sum."""
        group, rank, copy = place.group, place.rank, place.copy
        if rank == self.rank:
            state.blocks[group * self.ranks + rank][:, place.column] = values
        elif copy is not None and holders(group, self.ranks)[copy] == self.rank:
            state.sums[group][:, place.column] = values

    @property
    def norm(self) -> float:
        """The norm of the matrix, from the known mean square of its elements."""
        return self.size / np.sqrt(3)

    def residuals(self, comm: MPI.Intracomm) -> Residuals:
        """Apply the reflections to R, to compare with A, and to the unit matrix, forth and back."""
        own, width = sorted(self.state.blocks), self.args.block
        blocks, size = self.state.blocks, self.size
        results = [np.triu(blocks[each], -each * width if each < self.panel else -size) for each in own]
        columns = np.concatenate([*results, np.zeros((size, len(own) * width))], axis=1)
        for index, block in enumerate(own):
            columns[block * width : (block + 1) * width, (len(own) + index) * width :][:, :width] = np.eye(width)
        given = columns.copy()
        for panel in reversed(range(self.panel)):
            columns = reflected(columns, self.shared(comm, panel), back=True)
        matrix = np.concatenate([self.original(each) for each in own], axis=1)
        wrong = np.abs(columns[:, : len(own) * width] - matrix).max() / self.norm
        for panel in range(self.panel):
            columns = reflected(columns, self.shared(comm, panel))
        skew = np.abs(columns - given)[:, len(own) * width :].max()
        self.flips = sorted({each for flips in comm.allgather(self.flips) for each in flips})
        worst, all_worst = np.array([wrong, skew, self.worst, self.recovered]), np.empty(4)
        comm.Allreduce(worst, all_worst, op=MPI.MAX)
        return Residuals(*all_worst.tolist())

    def shared(self, comm: MPI.Intracomm, panel: int) -> np.ndarray:
        """Return the reflections of a panel from the rank that has them."""
        made = self.state.panels.get(panel, np.empty((self.size + self.args.block, self.args.block)))
        comm.Bcast(made, root=panel % self.ranks)
        return made


class Residuals(NamedTuple):
    """The largest errors: of the product, the columns of Q, the sums, and the restored blocks.

    `UNSEEN` stands for none, or none checked.
    """

    product: float
    columns: float
    sums: float
    recovered: float


def holders(group: int, ranks: int) -> tuple[int, int]:
    """Return the two ranks with the sums of a group."""
    return 2 * group % ranks, (2 * group + 1) % ranks


class Column(NamedTuple):
    """A column with an error."""

    group: int
    column: int
    """Index of the column in its block."""
    rank: int | None
    """Rank of its block in the group; None: it is in a sum."""
    copy: int | None
    """Index of the group's sum."""
    rows: tuple[int, int]
    """The first and the last wrong row."""

    def values(self, missing: np.ndarray) -> np.ndarray:
        """Return the correct values, from the deviation of the sums without them."""
        values = missing[self.copy or 0, self.group, :, self.column]
        return values if self.rank is None else -values

    def args(self, work: Factorisation) -> str:
        """Return the location as text."""
        first, last = self.rows
        where = f"row {first}" if first == last else f"rows {first} to {last}"
        if self.rank is None:
            what = f"column {self.column} of sum {self.copy + 1} of group {self.group}"
        else:
            what = f"column {(self.group * work.ranks + self.rank) * work.args.block + self.column}"
        return f"before panel {work.panel}: {where} of {what} recomputed"


def located(wrong: np.ndarray, weights: np.ndarray, least: float) -> list[Column]:
    """Return the errors located by all sums that are off.

    Parameters
    ----------
    wrong : ndarray, shape (2, groups, size, block)
        Deviation of the sums.
    weights : ndarray, shape (ranks,)
        Weights of the ranks' blocks in the second sum; in the first one they are 1.
    least : float
        Bound on the round-off.
    """
    found = []
    off = np.abs(wrong) > least
    for group, column in zip(*np.nonzero(off.any(axis=(0, 2))), strict=True):
        first, second = wrong[:, group, :, column]
        rows = np.flatnonzero(off[:, group, :, column].any(axis=0))
        rank = copy = None
        if not off[0, group, :, column].any() or not off[1, group, :, column].any():
            copy = int(off[1, group, :, column].any())
        else:
            rank = int(np.abs(weights - first @ second / (first @ first)).argmin())
            if np.abs(second - weights[rank] * first).max() > least + 1e-9 * np.abs(first).max():
                continue  # more than one error in the group
        found.append(Column(int(group), int(column), rank, copy, (int(rows[0]), int(rows[-1]))))
    return found


# ------------------------------------------------------------------------------------------------------------ recovery


class Recovery:
    """Recovery of a share of the matrix after the replacement of a process."""

    def __init__(self, work: Factorisation) -> None:
        self.work = work

    def restore(self, comm: MPI.Intracomm) -> None:
        """Go back to the last panel that all have begun, and restore the data of the failed rank."""
        work = self.work
        if isinstance(work.copies, recovery.Buddies):
            there = np.ones(comm.size, np.bool_)
            if not work.args.no_check:
                comm.Allgather(np.array([bool(work.copies.kept)]), there)
            panel, state = work.copies.restore(comm) or (0, None)
        else:
            panel, there = work.copies.last(comm)
            if panel == 0:
                work.copies.kept = {}
            state = self.rebuilt(comm, panel, np.flatnonzero(~there).tolist()) if panel else None
        if panel == 0:
            work.start()
            return
        work.panel, work.state = panel, state
        for loser in [] if work.args.no_check else np.flatnonzero(~there).tolist():
            self.replay(comm, loser, panel)

    def rebuilt(self, comm: MPI.Intracomm, panel: int, losers: list[int]) -> State:
        """Return this rank's share at a panel, its own or one restored by the others."""
        work = self.work
        if len(losers) > 1:
            raise recovery.Lost(f"the blocks of ranks {losers}: a checksum recovers only one")
        state = work.copies.kept.get(panel)
        for loser in losers:
            state = self.given_back(comm, loser, state)
        work.copies.kept = {panel: state}
        return state

    def given_back(self, comm: MPI.Intracomm, loser: int, state: State | None) -> State:
        """Send a new process its blocks, its sums, its panels, and those that it guards."""
        work, me = self.work, self.work.rank
        right, left = (loser + 1) % work.ranks, (loser - 1) % work.ranks
        blocks, sums = {}, {}
        for group in range(work.args.groups):
            held = holders(group, work.ranks)
            copy = int(held[0] == loser)  # of the remaining sum
            mine, whole = np.zeros((2, work.size, work.args.block))
            if me != loser:
                mine -= work.weights[copy, me] * state.blocks[group * work.ranks + me]
            if me == held[copy]:
                mine += state.sums[group]
            comm.Reduce(mine, whole, root=loser)
            block = blocks[group * work.ranks + loser] = whole / work.weights[copy, loser]
            if loser in held:
                again = work.weights[1 - copy, me] * (block if me == loser else state.blocks[group * work.ranks + me])
                comm.Reduce(again, whole := np.empty_like(whole), root=loser)
                sums[group] = whole
        if me == right:
            comm.send(state.guarded, dest=loser, tag=PANELS)
        if me == left:
            comm.send(state.panels, dest=loser, tag=GUARDS)
        if me != loser:
            return state
        return State(blocks, sums, comm.recv(source=right, tag=PANELS), comm.recv(source=left, tag=GUARDS))

    def replay(self, comm: MPI.Intracomm, loser: int, panel: int) -> None:
        """Compare the restored data with the matrix after the reflections so far."""
        work, wrong = self.work, 0.0
        again, blocks = {block: work.original(block) for block in work.state.blocks}, work.state.blocks
        for before in range(panel):
            made = work.shared(comm, before)
            if work.rank == loser:
                later = {block: reflected(each, made) for block, each in again.items() if block >= before}
                again |= later
        if work.rank == loser:
            wrong = max(np.abs(again[block] - blocks[block]).max() for block in again) / work.norm
        work.recovered = max(work.recovered, wrong)


# ---------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    """Factorise, and restore the data of failed processes from sums."""
    comm = recovery.joined()
    args = parse_arguments()
    work = Factorisation(args, comm.rank, comm.size)
    worst, comm = recovery.roll_back_until_agreed(comm, work.compute, Recovery(work).restore)
    limits = Residuals(1e-14 * work.size, 1e-14 * work.size, EXACT, EXACT)
    seen = {name: value for name, value in worst._asdict().items() if value != UNSEEN}
    well = {name: value <= getattr(limits, name) for name, value in seen.items()}
    extra = 2 * args.groups * args.block if work.summed else work.size
    lines = [f"ft_qr: {comm.size} ranks, {work.size} x {work.size}, {work.panel} panels, {extra} extra columns"]
    lines += [f"{name} exact: {good}" for name, good in well.items()]
    lines += work.flips
    lines.append("# " + ", ".join(f"{name} {value:.1e}" for name, value in seen.items()))
    recovery.conclude(comm, lines, all(well.values()))


if __name__ == "__main__":
    main()
