"""Replace: every failed process is replaced by a new one with the same rank, at any time.

Heat spreads around a ring of rods, one per rank. Every few steps each rank sends its rod to its neighbour, as a
checkpoint in memory. When processes fail, the survivors revoke the communicator, shrink it, spawn the missing
processes, merge with them, and restore the old order. The new processes take the ranks of the failed ones and receive
their rods from the neighbours. All go back to the last checkpoint with a copy of every rod.

Further processes may fail meanwhile. An unsuccessful attempt ends completely: the survivors begin again from the last
communicator that all had, and the new processes of the attempt kill themselves, which makes them ordinary failures. So
the last line is the same with failures and without. If a rank and the neighbour with its copy fail at the same time,
the program reports the lost data and aborts.

    xsim run -n 6 ft_replace.py
    xsim run -n 6 --fail "rank=2 before its 20th Sendrecv" --fail "rank=4 before its 1st Merge" ft_replace.py
    mpirun --with-ft ulfm -n 6 python ft_replace.py --die 2@20

(Open MPI 5 may print the last line and hang in MPI_Finalize after several replacements.)
"""

from __future__ import annotations

import argparse
import zlib

import numpy as np
import recovery
from mpi4py import MPI

RIGHT, LEFT = 1, 2


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--steps", type=recovery.natural, default=30, help="how many steps to compute")
    add("--every", type=recovery.positive, default=5, help="how many steps there are from checkpoint to checkpoint")
    add("--cells", type=recovery.positive, default=8, help="the length of a rod")
    return parser.parse_args()


class Ring:
    """One rank's rod, and checkpoints of it on the right neighbour."""

    def __init__(self, arguments: argparse.Namespace, rank: int) -> None:
        self.arguments = arguments
        self.buddies = recovery.Buddies()
        self.start(rank)

    def start(self, rank: int) -> None:
        """Start at step 0, with a hot cell on rank 0."""
        self.step, self.rod = 0, np.zeros(self.arguments.cells)
        if rank == 0:
            self.rod[0] = 1000.0

    def compute(self, comm: MPI.Intracomm) -> list[np.ndarray]:
        """Compute all remaining steps, and return all rods."""
        while self.step < self.arguments.steps:
            if self.step % self.arguments.every == 0:
                self.buddies.save(comm, self.step, self.rod.copy())
            recovery.die_at(self.arguments.die, self.step)
            self.advance(comm)
        return comm.allgather(self.rod)

    def advance(self, comm: MPI.Intracomm) -> None:
        """Compute one step."""
        right, left, ghosts = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size, np.zeros(2)
        comm.Sendrecv(self.rod[-1:], right, RIGHT, ghosts[:1], left, RIGHT)
        comm.Sendrecv(self.rod[:1], left, LEFT, ghosts[1:], right, LEFT)
        wide = np.concatenate((ghosts[:1], self.rod, ghosts[1:]))
        self.rod = self.rod + 0.25 * (wide[:-2] - 2 * self.rod + wide[2:])
        self.step += 1

    # --------------------------------------------------------------------------------------------------------- recovery

    def restore(self, comm: MPI.Intracomm) -> None:
        """Go back to the last checkpoint with a copy of every rod, or to the beginning."""
        saved = self.buddies.restore(comm)
        if saved is None:
            self.start(comm.rank)
        else:
            self.step, self.rod = saved[0], saved[1].copy()


def replaced(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Replace the failed ranks, and print them."""
    repaired = recovery.replace(comm)
    dead = recovery.known_dead(comm)
    if comm.rank == min({*range(comm.size)}.difference(dead)):
        print(f"# replaced {dead} after {MPI.Wtime():.3f} s", flush=True)
    return repaired


# ----------------------------------------------------------------------------------------------------------------- main


def serial(ranks: int, steps: int, cells: int) -> np.ndarray:
    """Compute all rods in one process."""
    rod = np.zeros(ranks * cells)
    rod[0] = 1000.0
    for _ in range(steps):
        rod = rod + 0.25 * (np.roll(rod, 1) - 2 * rod + np.roll(rod, -1))
    return rod


def main() -> None:
    """Compute; recoverable failures do not change the result."""
    arguments = parse_arguments()
    comm = recovery.joined()
    ring = Ring(arguments, comm.rank)
    heat, comm = recovery.roll_back_until_agreed(comm, ring.compute, ring.restore, replaced)
    whole = np.concatenate(heat)
    right = np.array_equal(whole, serial(comm.size, arguments.steps, arguments.cells))
    heated = f"heat {whole.sum():.3f}, hottest {whole.max():.6f}"
    state = f"{zlib.crc32(whole.tobytes()):08x}"
    recovery.conclude(comm, [f"ft_replace: {comm.size} ranks, {heated}, state {state}"], right)


if __name__ == "__main__":
    main()
