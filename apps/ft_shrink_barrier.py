"""Revoke and shrink: the cost of continuing after a process failure.

The synthetic benchmark of the xSim papers. All ranks of a duplicate of COMM_WORLD add up an integer with Reduce, and
meet in a Barrier, because a rank may not notice a failure during its part of the Reduce. One rank, the victim, fails
before the Reduce. Any rank that sees an error revokes the communicator, so that no rank waits forever. All survivors
shrink it and start the Reduce and the Barrier again. Without a failure no function of ULFM is called.

The victim kills itself (--victim); or a simulator kills a rank, and the program gets no victim. The failure must come
after Dup and before the first survivor leaves the Barrier, because that one exits, and the others cannot shrink without
it. A program that must survive failures at any time ends with Agree, as simplemd.py does.

Run it for real, and simulated:

    mpirun --with-ft ulfm --oversubscribe -n 8 python ft_shrink_barrier.py --victim 3
    xsim run -n 8 --ft ft_shrink_barrier.py --victim 3
    xsim run -n 8 --fail "rank=3 before its 1st Reduce" ft_shrink_barrier.py
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

import numpy as np
from mpi4py import MPI

INTEGER_BYTES = 8
ATTEMPT = ("Reduce", "Barrier")
RECOVERY = ("Revoke", "Shrink")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--victim", default="none", help="the rank that kills itself before the Reduce, or none")
    parser.add_argument(
        "--reduce-bytes", type=int, default=INTEGER_BYTES, help="size of the reduced data, a multiple of 8"
    )
    parser.add_argument("--no-times", action="store_true", help="send only the measured messages: print no times")
    return parser.parse_args()


def victim_of(arguments: argparse.Namespace, size: int) -> int:
    """Return the rank to kill, or -1; reject invalid arguments."""
    victim = -1 if arguments.victim == "none" else int(arguments.victim) if arguments.victim.isdecimal() else size
    if victim >= size:
        raise ValueError(f"--victim {arguments.victim}: neither none nor one of the ranks 0 to {size - 1}")
    if arguments.reduce_bytes < INTEGER_BYTES or arguments.reduce_bytes % INTEGER_BYTES:
        raise ValueError(f"--reduce-bytes {arguments.reduce_bytes}: not a positive multiple of {INTEGER_BYTES}")
    return victim


def expected_sum(comm: MPI.Comm) -> int:
    """Return the sum of 1 + rank in COMM_WORLD over the members of `comm`."""
    ranks = MPI.Group.Translate_ranks(comm.group, range(comm.size), MPI.COMM_WORLD.group)
    return comm.size + sum(ranks)


def attempt(comm: MPI.Comm, integers: int, marks: list[float]) -> np.ndarray:
    """Reduce to rank 0, meet in a Barrier, and return the sums; append the time after each to `marks`."""
    mine = np.full(integers, 1 + MPI.COMM_WORLD.rank, dtype=np.int64)
    sums = np.zeros_like(mine)
    comm.Reduce(mine, sums, op=MPI.SUM, root=0)
    marks.append(MPI.Wtime())
    comm.Barrier()
    marks.append(MPI.Wtime())
    return sums


def recover(comm: MPI.Comm, error: MPI.Exception, marks: list[float]) -> MPI.Comm:
    """Revoke `comm` and return it without the failed processes."""
    comm.Revoke()
    marks.append(MPI.Wtime())
    smaller = comm.Shrink()
    marks.append(MPI.Wtime())
    # Some MPI reports a failure as an error of another class; but if no rank is missing there was no failure.
    if smaller.size == comm.size:
        raise error
    smaller.Set_errhandler(MPI.ERRORS_RETURN)
    comm.Free()
    return smaller


def run(comm: MPI.Comm, integers: int) -> tuple[MPI.Comm, np.ndarray, list[float]]:
    """Repeat until success; return the last communicator, the sums, and the end of each phase."""
    marks = [MPI.Wtime()]
    while True:
        phases = len(marks) + len(ATTEMPT)
        try:
            return comm, attempt(comm, integers, marks), marks
        except MPI.Exception as error:
            # A rank with the error in the Reduce spends no time in the Barrier, so that all have the same phases.
            now = MPI.Wtime()
            marks.extend([now] * (phases - len(marks)))
            comm = recover(comm, error, marks)


def print_times(comm: MPI.Comm, marks: list[float]) -> None:
    """Print on rank 0 the time of the slowest rank for each phase, and for all."""
    times = np.array(marks)
    mine = np.append(np.diff(times), times[-1] - times[0])
    slowest = np.empty_like(mine)
    comm.Reduce(mine, slowest, op=MPI.MAX, root=0)
    if comm.rank == 0:
        rounds = (len(mine) - 1 + len(RECOVERY)) // len(ATTEMPT + RECOVERY)
        names = ATTEMPT + (RECOVERY + tuple(f"{name} again" for name in ATTEMPT)) * (rounds - 1)
        for name, seconds in zip((*names, "total"), slowest, strict=True):
            print(f"time: {name} {seconds * 1e6:.3f} us")


def main() -> None:
    """Kill the victim, recover, and check the sum."""
    arguments = parse_arguments()
    world = MPI.COMM_WORLD
    try:
        victim = victim_of(arguments, world.size)
    except ValueError as error:
        if world.rank == 0:
            print(f"ft_shrink_barrier: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    comm = world.Dup()
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    if comm.rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    comm, sums, marks = run(comm, arguments.reduce_bytes // INTEGER_BYTES)

    right = True
    if comm.rank == 0:
        right = bool(np.all(sums == expected_sum(comm)))
        print(f"ft_shrink_barrier: {world.size} ranks, {world.size - comm.size} failed, sum {sums[0]}")
        print(f"right sum: {right}")
    if not arguments.no_times:
        print_times(comm, marks)
    comm.Free()
    if not right:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
