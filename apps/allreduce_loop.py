"""Repeated Allreduce under process failures: FTCO, ULFM, Legio, or restart.

This benchmark compares recovery schemes. In each step every rank works (it sleeps until the next multiple of the step
time); then all ranks add up their integers with Allreduce. --scheme selects the response to a failure:

ftco     none in the program: the collective operations of the MPI library tolerate failures
ulfm     a rank that sees an error revokes the communicator; all survivors shrink it and repeat the step
legio    none in the program: a layer between program and library responds, such as --resilience legio
restart  the job ends; after a restart, it continues from its last checkpoint, a small file

Under ulfm a rank may finish a step that others could not finish, and be one step ahead of them. So the sum includes
each rank's step. It shows whether all ranks are in the same step; ranks ahead repeat the last step. After the last step
all ranks shrink the communicator once more. As all get the same answer, either all finish or none does.

    xsim compare-recovery -n 64 --failures none,1,2p,2s,3m
    xsim run -n 8 --fail "rank=3 before its 2nd Allreduce" allreduce_loop.py --scheme ulfm
    mpirun --with-ft ulfm --oversubscribe -n 8 python allreduce_loop.py --scheme ulfm
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time

import numpy as np
from mpi4py import MPI

CONTRIBUTORS, STEPS, SUM = range(3)
SCHEMES = ("ftco", "ulfm", "legio", "restart")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--scheme", choices=SCHEMES, default="ulfm", help="reaction to a failure (default: ulfm)")
    add("--steps", type=int, default=3, help="number of steps (default: 3)")
    add(
        "--work",
        type=float,
        default=1e-3,
        metavar="SECONDS",
        help="duration of a step without its Allreduce (default: 1e-3)",
    )
    add("--integers", type=int, default=1, help="number of integers per rank (default: 1)")
    add("--checkpoint-every", type=int, default=2, metavar="STEPS", help="under restart (default: 2)")
    add("--state", metavar="FILE", default="allreduce_loop.state", help="the checkpoint")
    add("--times", action="store_true", help="print the longest time of each step, found with one more Reduce")
    return parser.parse_args()


def complaints(arguments: argparse.Namespace) -> list[str]:
    """Return the problems of the arguments."""
    counts = ("steps", "integers", "checkpoint_every")
    wrong = [f"--{name.replace('_', '-')} must be at least 1" for name in counts if getattr(arguments, name) < 1]
    return wrong if 0 <= arguments.work < math.inf else [*wrong, "--work must be finite and not negative"]


class Loop:
    """The state of one rank.

    Attributes
    ----------
    comm : MPI.Comm
        The surviving ranks, as far as known.
    step : int
        The current step, from 1.
    entered_s : dict of int to float
        Time of the first Allreduce call of each step.
    took_s : array of float
        Time from then to the sum; NaN for steps of an earlier start of the job.
    """

    def __init__(self, comm: MPI.Comm, arguments: argparse.Namespace) -> None:
        self.comm = comm
        self.arguments = arguments
        self.step = 1
        self.entered_s: dict[int, float] = {}
        self.took_s = np.zeros(arguments.steps)
        self.sums = np.zeros(SUM + arguments.integers, dtype=np.int64)

    def run(self) -> None:
        """Continue to the end of the last step."""
        a, begin_s = self.arguments, MPI.Wtime()
        if a.scheme == "restart":
            self.step = self.comm.bcast(last_step(a.state) + 1 if self.comm.rank == 0 else None, root=0)
        first = self.step
        while self.step <= a.steps:
            time.sleep(max(0.0, begin_s + (self.step - first + 1) * a.work - MPI.Wtime()))
            self.entered_s.setdefault(self.step, MPI.Wtime())
            self.add_up()
            self.take_stock()
            if self.step > a.steps and a.scheme == "ulfm" and self.shrink():
                self.step = a.steps  # another rank may have failed to finish it

    def add_up(self) -> None:
        """Return the sum over the survivors, after as many attempts as necessary."""
        mine = np.full_like(self.sums, 1 + MPI.COMM_WORLD.rank)
        mine[CONTRIBUTORS], mine[STEPS] = 1, self.step
        while True:
            try:
                self.comm.Allreduce(mine, self.sums, op=MPI.SUM)
                return
            except MPI.Exception as error:
                self.comm.Revoke()  # no rank may wait for ranks that have left for the recovery
                if not self.shrink():
                    raise error  # no rank is missing: it was not a failure

    def shrink(self) -> bool:
        """Continue without the failed ranks; return True if there were any."""
        smaller = self.comm.Shrink()
        lost = smaller.size < self.comm.size
        smaller.Set_errhandler(MPI.ERRORS_RETURN)
        if self.comm != MPI.COMM_WORLD:
            self.comm.Free()
        self.comm = smaller
        return lost

    def take_stock(self) -> None:
        """Continue with the next step if the sum was that of one step."""
        a = self.arguments
        expected = self.sums[CONTRIBUTORS] * self.step
        if a.scheme == "ulfm" and self.sums[STEPS] != expected:
            self.step -= int(self.sums[STEPS] < expected)
            return
        self.took_s[self.step - 1] = MPI.Wtime() - self.entered_s[self.step]
        self.step += 1
        if a.scheme == "restart" and self.comm.rank == 0 and (self.step - 1) % a.checkpoint_every == 0:
            save(a.state, self.step - 1)


def last_step(path: str) -> int:
    """Return the step of the last checkpoint, or 0."""
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


def save(path: str, step: int) -> None:
    """Replace the last checkpoint atomically."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(f"{step}\n")
    os.replace(f"{path}.new", path)


def print_times(loop: Loop) -> None:
    """Print the time of the slowest rank for each step."""
    slowest = np.empty_like(loop.took_s)
    loop.comm.Reduce(loop.took_s, slowest, op=MPI.MAX, root=0)
    if loop.comm.rank == 0:
        for step, seconds in enumerate(slowest, start=1):
            print(f"time: step {step} {seconds * 1e6:.3f} us")


def main() -> None:
    """Run the loop, and print the last sum."""
    world = MPI.COMM_WORLD
    arguments = parse_arguments()
    if wrong := complaints(arguments):
        if world.rank == 0:
            print("\n".join(f"allreduce_loop: {line}" for line in wrong), file=sys.stderr)
        raise SystemExit(2)
    world.Set_errhandler(MPI.ERRORS_RETURN if arguments.scheme == "ulfm" else MPI.ERRORS_ARE_FATAL)
    loop = Loop(world, arguments)
    loop.run()
    if loop.comm.rank == 0:
        if arguments.scheme == "restart" and os.path.exists(arguments.state):
            os.remove(arguments.state)
        missing = world.size - loop.sums[CONTRIBUTORS]
        print(f"allreduce_loop: {world.size} ranks, {missing} missing, sum {loop.sums[SUM]}")
    if arguments.times:
        print_times(loop)
    if loop.comm != world:
        loop.comm.Free()


if __name__ == "__main__":
    main()
