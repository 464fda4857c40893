"""Replace: who dies is replaced by a new process, whenever that is, and the ranks stay what they were.

Heat spreads around a ring of rods, one a rank.  Every few steps each rank gives its rod to its neighbour, as a
checkpoint in memory.  When processes fail, the survivors revoke the communicator, shrink it, spawn as many processes as
are missing, merge with them, and put all in the old order: the new processes take the ranks of the dead, get their
rods from the neighbours, and everybody goes back to the last checkpoint of which every rod is somewhere.

More may fail during all that.  An attempt that does not get through at all ends at all: the survivors begin it anew
from the last communicator that all had, and the new processes of the attempt kill themselves, which makes them
failures like any other.  So the last line is the same with failures and without.  Where a rank and the neighbour
with its copy are gone at the same time, the program says whose data are lost, and aborts.

    xsim run -n 6 ft_replace.py
    xsim run -n 6 --fail "rank=2 before its 20th Sendrecv" --fail "rank=4 before its 1st Merge" ft_replace.py
    mpirun --with-ft ulfm -n 6 python ft_replace.py --die 2@20

(Open MPI 5 may print the last line and hang in MPI_Finalize, where processes have been replaced more than once.)

The pattern is MPIX_Comm_replace of the ULFM tutorials (Bosilca and others), with one change: there is no agreement
over the intercommunicator.  The new processes would wait in it for ever once the survivors have given an attempt up,
for a revocation does not end an agreement.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import zlib
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Callable

# Open MPI 5 says ERR_OTHER of a Barrier with a dead member.
FAILURES = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED, MPI.ERR_OTHER)
REFUSALS = 3  # so many times in a row no process could be started: there is no place for it
RIGHT, LEFT = 1, 2


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30, help="how many steps to compute")
    parser.add_argument("--every", type=int, default=5, help="how many steps there are from checkpoint to checkpoint")
    parser.add_argument("--cells", type=int, default=8, help="the length of a rod")
    parser.add_argument(
        "--die", action="append", default=[], help="RANK@STEP: that rank of the first ones kills itself"
    )
    return parser.parse_args()


# ------------------------------------------------------------------------------------------------------- replacement


def attempt(call: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, bool]:
    """Return what a call gives, and whether it got through; other errors than those of failures are raised."""
    try:
        return call(*args, **options), True
    except MPI.Exception as error:
        if error.Get_error_class() not in FAILURES:
            raise
        return None, False


def agree(comm: MPI.Intracomm, well: bool) -> bool:
    """Return whether all members live and found it well, the same at all of them: Agree raises at all or at none."""
    flag, through = attempt(comm.Agree, int(well))
    return through and flag == 1


def die() -> NoReturn:
    """End as a failure does, and tell nobody."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


class Starter:
    """Starts new processes, unless that is refused too often."""

    def __init__(self) -> None:
        self.refused = 0

    def __call__(self, comm: MPI.Intracomm, count: int) -> MPI.Intercomm | None:
        """Return the intercommunicator to `count` new processes, or None where they could not be started."""
        try:
            inter = comm.Spawn(sys.executable, [__file__, *sys.argv[1:]], maxprocs=count)
        except MPI.Exception as error:
            if error.Get_error_class() != MPI.ERR_SPAWN:
                raise
            self.refused += 1
            if self.refused == REFUSALS:
                print(f"ft_replace: {count} new processes cannot be started", file=sys.stderr, flush=True)
                comm.Abort(1)
            return None
        self.refused = 0
        return inter


def replace(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Return a communicator in which new processes have the ranks of those members of a revoked one that are dead."""
    start = Starter()
    while True:
        living = comm.Shrink()
        dead = MPI.Group.Translate_ranks(MPI.Group.Difference(comm.group, living.group), None, comm.group)
        if not dead:
            return living
        inter, _ = attempt(start, living, len(dead))
        everybody = made = None
        if agree(living, inter is not None):
            everybody, well = attempt(inter.Merge, high=False)
            if agree(living, well):
                _, told = attempt(everybody.bcast, list(dead), root=0)
                made, split = attempt(everybody.Split, 0, comm.rank)
                if agree(everybody, told and split):
                    if living.rank == 0:
                        print(f"replaced {list(dead)} after {MPI.Wtime():.3f} s", flush=True)
                    return made
        for unfinished in (inter, everybody, made):
            if unfinished is not None:
                unfinished.Revoke()  # wakes those who are in Merge, bcast or Split


def born(parent: MPI.Intercomm) -> MPI.Intracomm:
    """Take the rank of a dead process; there is one chance, and who misses it dies."""
    everybody, well = attempt(parent.Merge, high=True)
    dead, told = attempt(everybody.bcast, None, root=0) if well else (None, False)
    if not told:  # nobody else may come to the agreement
        die()
    made, split = attempt(everybody.Split, 0, dead[MPI.COMM_WORLD.rank])
    if not agree(everybody, split):
        die()
    return made


# -------------------------------------------------------------------------------------------------------- computation


class Ring:
    """One rank's rod, its checkpoints and its neighbour's."""

    def __init__(self, comm: MPI.Intracomm, arguments: argparse.Namespace, dying: set[int]) -> None:
        self.comm = comm
        self.arguments = arguments
        self.dying = dying
        self.kept: dict[int, np.ndarray] = {}  # this rank's rod at a step
        self.held: dict[int, np.ndarray] = {}  # the left neighbour's
        self.saved = False  # whether all ranks are known to have made a checkpoint
        self.start()

    @property
    def left(self) -> int:
        """The neighbour whose checkpoints this rank holds."""
        return (self.comm.rank - 1) % self.comm.size

    @property
    def right(self) -> int:
        """The neighbour that holds this rank's checkpoints."""
        return (self.comm.rank + 1) % self.comm.size

    def start(self) -> None:
        """Begin at step 0, with a hot cell on rank 0."""
        self.step, self.kept, self.held = 0, {}, {}
        self.rod = np.zeros(self.arguments.cells)
        if self.comm.rank == 0:
            self.rod[0] = 1000.0

    def compute(self) -> list[np.ndarray] | None:
        """Compute all steps from here on, and return all rods on rank 0."""
        while self.step < self.arguments.steps:
            if self.step % self.arguments.every == 0 and self.step not in self.kept:
                self.save()
            if self.step in self.dying:
                die()
            self.advance()
        return self.comm.gather(self.rod)

    def advance(self) -> None:
        """Compute one step."""
        comm, ghosts = self.comm, np.zeros(2)
        comm.Sendrecv(self.rod[-1:], self.right, RIGHT, ghosts[:1], self.left, RIGHT)
        comm.Sendrecv(self.rod[:1], self.left, LEFT, ghosts[1:], self.right, LEFT)
        wide = np.concatenate((ghosts[:1], self.rod, ghosts[1:]))
        self.rod = self.rod + 0.25 * (wide[:-2] - 2 * self.rod + wide[2:])
        self.step += 1

    def duplicate(self, step: int) -> None:
        """Give the right neighbour a copy of this rank's rod at a step, and take the left one's."""
        taken = np.empty_like(self.rod)
        self.comm.Sendrecv(self.kept[step], self.right, recvbuf=taken, source=self.left)
        self.held[step] = taken

    def save(self) -> None:
        """Make a checkpoint; the one before goes when all ranks have the new one, so there is always one of all."""
        self.kept[self.step] = self.rod.copy()
        self.duplicate(self.step)
        self.comm.Barrier()
        self.only(self.step)

    def only(self, step: int) -> None:
        """Forget all checkpoints but one, which all ranks have."""
        self.kept, self.held, self.saved = {step: self.kept[step]}, {step: self.held[step]}, True

    def restore(self) -> None:
        """Go back to the last step of which every rod is somewhere, and have a copy of each again."""
        comm = self.comm
        there = np.zeros(2 + self.arguments.steps // self.arguments.every, np.int8)
        there[-1] = not self.saved
        right_holds = comm.sendrecv(list(self.held), dest=self.left, source=self.right)
        for step in (*self.kept, *right_holds):
            there[step // self.arguments.every] = 1
        everywhere = np.empty_like(there)
        comm.Allreduce(there, everywhere, op=MPI.MIN)
        if everywhere[-1]:  # nobody has got as far as to compute
            self.start()
            return
        if not everywhere[:-1].any():
            self.give_up(lost=not there[:-1].any())
        step = int(np.flatnonzero(everywhere[:-1])[-1]) * self.arguments.every
        needs = step not in self.kept
        if comm.sendrecv(needs, dest=self.right, source=self.left):
            comm.send(self.held[step], dest=self.left)
        if needs:
            self.kept[step] = comm.recv(source=self.right)
        self.duplicate(step)
        comm.Barrier()
        self.only(step)
        self.step, self.rod = step, self.kept[step].copy()

    def give_up(self, *, lost: bool) -> NoReturn:
        """Say whose rods are lost, and end the job."""
        ranks = [rank for rank, gone in enumerate(self.comm.allgather(lost)) if gone]
        if self.comm.rank == 0:
            print(f"ft_replace: lost: the rods of ranks {ranks}, with all copies", file=sys.stderr, flush=True)
            self.comm.Abort(1)
        self.comm.Barrier()  # until then; if rank 0 dies before it has said so, another will
        raise AssertionError


def main() -> None:
    """Compute, and let nobody's death change what comes out."""
    arguments = parse_arguments()
    parent = MPI.Comm.Get_parent()
    restoring = parent != MPI.COMM_NULL
    comm = born(parent) if restoring else MPI.COMM_WORLD
    deaths = [] if restoring else [death.split("@") for death in arguments.die]
    ring = Ring(comm, arguments, {int(step) for rank, step in deaths if int(rank) == comm.rank})
    while True:
        heat, well = attempt(ring.restore if restoring else ring.compute)
        if not well:
            ring.comm.Revoke()
        if not agree(ring.comm, well):
            ring.comm.Revoke()
            ring.comm, restoring = replace(ring.comm), True
        elif restoring:
            restoring = False
        else:
            break
    if heat is not None:
        whole = np.concatenate(heat)
        heated = f"heat {whole.sum():.3f}, hottest {whole.max():.6f}"
        print(f"ft_replace: {ring.comm.size} ranks, {heated}, state {zlib.crc32(whole.tobytes()):08x}")


if __name__ == "__main__":
    main()
