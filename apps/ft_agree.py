"""Agree: time of fault-tolerant agreement.

The second benchmark of the xSim papers. All ranks repeatedly agree on the bitwise AND of one number per rank, and rank
0 reports the time of a rank for one agreement: average, minimum and maximum.

The paper measures without failures. If one occurs all the same, Agree raises an error on every survivor. All of them
acknowledge the failure and repeat the agreement, until every agreement has succeeded.

Run it for real, and simulated:

    mpirun --with-ft ulfm --oversubscribe -n 8 python ft_agree.py --iterations 10
    xsim run -n 8 ft_agree.py --iterations 10
    xsim run -n 8 --fail rank=3@50us ft_agree.py --iterations 10
"""

from __future__ import annotations

import argparse
import sys
from functools import reduce
from operator import and_

import numpy as np
from mpi4py import MPI

BITS = 31
FAILURES = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=1, help="number of agreements")
    return parser.parse_args()


def number_of(rank: int) -> int:
    """Return a rank's number: all bits except one, a different one for each of 31 ranks."""
    return (2**BITS - 1) & ~(1 << rank % BITS)


def agreed(comm: MPI.Comm) -> tuple[int, bool]:
    """Agree, again after a failure; return the number, and True if there was a failure."""
    failed = False
    while True:
        try:
            return comm.Agree(number_of(comm.rank)), failed
        except MPI.Exception as error:
            if error.Get_error_class() not in FAILURES:
                raise
            comm.Ack_failed()
            failed = True


def is_right(comm: MPI.Comm, number: int, all_bits: int) -> bool:
    """Return True if `number` is the AND over survivors, and possibly ranks that failed later."""
    if number == all_bits:
        return True
    dead = set(MPI.Group.Translate_ranks(comm.Get_failed(), None, comm.Get_group()))
    living_bits = reduce(and_, (number_of(rank) for rank in range(comm.size) if rank not in dead))
    return number & all_bits == all_bits and number | living_bits == living_bits


def print_report(comm: MPI.Comm, times: np.ndarray, right: bool) -> None:
    """Print the results of all ranks on rank 0."""
    sums, shortest, longest = np.array([times.sum(), right]), np.array(times.min()), np.array(times.max())
    for values, operation in ((sums, MPI.SUM), (shortest, MPI.MIN), (longest, MPI.MAX)):
        comm.Reduce(MPI.IN_PLACE if comm.rank == 0 else values, values, op=operation, root=0)
    if comm.rank == 0:
        print(f"ft_agree: {comm.size} ranks agreed {len(times)} times")
        print(f"right numbers: {sums[1] == comm.size}")
        print(f"time: average {sums[0] / comm.size / len(times) * 1e6:.3f} us")
        print(f"time: minimum {shortest * 1e6:.3f} us")
        print(f"time: maximum {longest * 1e6:.3f} us")


def main() -> None:
    """Agree repeatedly, check each number, and print the times on rank 0."""
    iterations = parse_arguments().iterations
    comm = MPI.COMM_WORLD
    if iterations < 1:
        if comm.rank == 0:
            print("ft_agree: --iterations must be at least 1", file=sys.stderr)
        raise SystemExit(2)
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    all_bits = reduce(and_, (number_of(rank) for rank in range(min(comm.size, BITS))))
    times = np.empty(iterations)
    right, failed = True, False
    for iteration in range(iterations):
        start = MPI.Wtime()
        number, met_failure = agreed(comm)
        times[iteration] = MPI.Wtime() - start
        right = right and is_right(comm, number, all_bits)
        failed = failed or met_failure
    print_report(comm.Shrink() if failed else comm, times, right)
    if not right:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
