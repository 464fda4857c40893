"""Replace: who dies is replaced by a new process, and the ranks stay what they were.

Heat spreads around a ring of rods, one a rank.  Every few steps each rank gives its rod to its neighbour, as a
checkpoint in memory.  When processes fail, the survivors revoke the communicator, shrink it, spawn as many processes as
are missing, merge with them, and put all in the old order: the new processes take the ranks of the dead, get their
rods from the neighbours, and everybody goes back to the last checkpoint that all have.

The last line is the same with failures and without, as long as no two neighbours fail at once.

    xsim run -n 6 ft_replace.py
    xsim run -n 6 --fail "rank=2 before its 20th Sendrecv" ft_replace.py
    mpirun --with-ft ulfm -n 6 python ft_replace.py --die 2@20
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

import numpy as np
from mpi4py import MPI

FAILURES = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED)
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


class Ring:
    """One rank's rod, its checkpoints and its neighbour's."""

    def __init__(self, comm: MPI.Intracomm, cells: int) -> None:
        self.comm = comm
        self.step = 0
        self.rod = np.zeros(cells)
        self.kept: dict[int, np.ndarray] = {}
        self.held: dict[int, np.ndarray] = {}

    @property
    def left(self) -> int:
        """The neighbour whose checkpoints this rank holds."""
        return (self.comm.rank - 1) % self.comm.size

    @property
    def right(self) -> int:
        """The neighbour that holds this rank's checkpoints."""
        return (self.comm.rank + 1) % self.comm.size

    def start(self) -> None:
        """Begin with a hot cell on rank 0."""
        if self.comm.rank == 0:
            self.rod[0] = 1000.0

    def advance(self) -> None:
        """Compute one step."""
        comm, ghosts = self.comm, np.zeros(2)
        comm.Sendrecv(self.rod[-1:], self.right, RIGHT, ghosts[:1], self.left, RIGHT)
        comm.Sendrecv(self.rod[:1], self.left, LEFT, ghosts[1:], self.right, LEFT)
        wide = np.concatenate((ghosts[:1], self.rod, ghosts[1:]))
        self.rod = self.rod + 0.25 * (wide[:-2] - 2 * self.rod + wide[2:])
        self.step += 1

    def save(self) -> None:
        """Give the neighbour a copy, and keep one; the last two of each are kept, for a rank may be one ahead."""
        taken = np.empty_like(self.rod)
        self.comm.Sendrecv(self.rod, self.right, recvbuf=taken, source=self.left)
        self.kept = {**dict(list(self.kept.items())[-1:]), self.step: self.rod.copy()}
        self.held = {**dict(list(self.held.items())[-1:]), self.step: taken}

    def restore(self, new: set[int]) -> None:
        """Go back to the last step that all survivors have, and give the new ranks what was theirs."""
        comm, mine = self.comm, self.comm.rank
        latest = sys.maxsize if mine in new else max(self.held, default=-1)
        self.step = comm.allreduce(latest, op=MPI.MIN)
        if mine in new:
            self.rod = comm.recv(source=self.right)
            self.kept = {self.step: self.rod.copy()}
        else:
            self.rod = self.kept[self.step].copy()
        if self.left in new:
            comm.send(self.held[self.step], self.left)
        if self.right in new:  # who holds nothing of this rank yet
            comm.send(self.kept[self.step], self.right)
        if mine in new:
            self.held = {self.step: comm.recv(source=self.left)}


def replaced(comm: MPI.Intracomm) -> tuple[MPI.Intracomm, list[int]]:
    """Put new processes in the place of the dead; return the communicator, and which ranks are new."""
    comm.Revoke()
    living = comm.Shrink()
    before, after = comm.Get_group(), living.Get_group()
    dead = MPI.Group.Translate_ranks(MPI.Group.Difference(before, after), None, before)
    inter = living.Spawn(sys.executable, [__file__, *sys.argv[1:]], maxprocs=len(dead))
    everybody = inter.Merge(high=False)
    everybody.bcast(dead, root=0)
    made = everybody.Split(0, key=comm.rank)
    inter.Disconnect()
    return made, dead


def born(parent: MPI.Intercomm) -> tuple[MPI.Intracomm, list[int]]:
    """Take the place of a dead process."""
    everybody = parent.Merge(high=True)
    dead = everybody.bcast(None, root=0)
    made = everybody.Split(0, key=dead[MPI.COMM_WORLD.rank])
    parent.Disconnect()
    return made, dead


def main() -> None:
    """Compute, and let nobody's death change what comes out."""
    arguments = parse_arguments()
    parent = MPI.Comm.Get_parent()
    is_new = parent != MPI.COMM_NULL
    dying = (
        [] if is_new else [int(s) for r, s in (d.split("@") for d in arguments.die) if int(r) == MPI.COMM_WORLD.rank]
    )
    comm, dead = born(parent) if is_new else (MPI.COMM_WORLD, [])
    ring = Ring(comm, arguments.cells)
    if is_new:
        ring.restore(set(dead))
    else:
        ring.start()
    while True:
        try:
            while ring.step < arguments.steps:
                if ring.step % arguments.every == 0:
                    ring.save()
                if ring.step in dying:
                    os.kill(os.getpid(), signal.SIGKILL)
                ring.advance()
            heat = ring.comm.gather(ring.rod)
            if ring.comm.Agree(1):
                break
        except MPI.Exception as error:
            if error.Get_error_class() not in FAILURES:
                raise
            ring.comm, dead = replaced(ring.comm)
            if ring.comm.rank == min(set(range(ring.comm.size)) - set(dead)):
                print(f"replaced {dead} after {MPI.Wtime():.3f} s", flush=True)
            ring.restore(set(dead))
    if ring.comm.rank == 0:
        assert heat is not None
        whole = np.concatenate(heat)
        print(f"ft_replace: {ring.comm.size} ranks, heat {whole.sum():.3f}, hottest {whole.max():.6f}")


if __name__ == "__main__":
    main()
