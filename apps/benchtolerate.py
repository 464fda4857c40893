"""An Allreduce on several communicators that share a failing process: FTCO against ULFM.

After the benchmark of Margolin and Barak (appendix D). All communicators are clones of MPI_COMM_WORLD. In each
iteration except the first, one more process fails. Then all others do an Allreduce on one communicator after the other.
If a call fails, its communicator is revoked and shrunk, and the call is repeated: one repair per communicator. With
fault-tolerant collective operations no call fails, and nothing is repaired.

There are two kinds of fault:
permanent  the process ends for good, right before the iteration: it has left all operations of the one before
temporary  the process is silent for --silent seconds, and then continues: it is late, but has not failed

    xsim run -n 8 --ft --set mpi.collectives.allreduce=nonoverlapping benchtolerate.py --communicators 4
    xsim run -n 8 --collectives ftco benchtolerate.py --communicators 4
    mpirun --with-ft ulfm --oversubscribe -n 8 python benchtolerate.py --communicators 4
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import time

import numpy as np
from mpi4py import MPI

FAULTS = ("permanent", "temporary", "none")
GONE = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED)
TOGETHER_S = 1e-3


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--communicators", type=int, default=1, metavar="K", help="how many clones there are (default: 1)")
    add("--iterations", type=int, default=1, help="iterations with a fault, after one without (default: 1)")
    add("--fault", choices=FAULTS, default="permanent", help="what happens to a process (default: permanent)")
    add("--silent", type=float, default=1e-3, metavar="SECONDS", help="of a temporary fault (default: 1e-3)")
    return parser.parse_args()


class Clone:
    """One of the communicators."""

    def __init__(self) -> None:
        self.comm = MPI.COMM_WORLD.Dup()
        self.comm.Set_errhandler(MPI.ERRORS_RETURN)
        self.repairs = 0

    def allreduce(self, mine: np.ndarray, operation: MPI.Op = MPI.SUM) -> np.ndarray:
        """Return the sum over the survivors, after as many attempts as necessary."""
        found = np.zeros_like(mine)
        while True:
            try:
                self.comm.Allreduce(mine, found, op=operation)
                return found
            except MPI.Exception as error:
                if error.Get_error_class() not in GONE:
                    raise
                self.comm.Revoke()  # no rank may wait for ranks that have left for the repair
                broken, self.comm = self.comm, self.comm.Shrink()
                broken.Free()
                self.comm.Set_errhandler(MPI.ERRORS_RETURN)
                self.repairs += 1


def suffer(arguments: argparse.Namespace) -> None:
    """Act as the faulty process."""
    if arguments.fault == "permanent":
        os.kill(os.getpid(), signal.SIGKILL)
    elif arguments.fault == "temporary":
        time.sleep(arguments.silent)


def main() -> int:
    """Measure each iteration; return 1 if a sum is not that of the survivors."""
    a = parse_arguments()
    rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    if min(a.communicators, a.iterations) < 1 or a.iterations >= size or not 0 <= a.silent < math.inf:
        complaint = f"benchtolerate: needs at least 1 communicator, 1 to {size - 1} iterations and a time of at least 0"
        raise SystemExit(complaint if rank == 0 else 1)
    clones = [Clone() for _ in range(a.communicators)]
    begin_s, wrong = MPI.Wtime(), 0
    for iteration in range(a.iterations + 1):
        # All begin together, within the accuracy of their clocks: no earlier operation may reveal the fault.
        begin_s += TOGETHER_S
        time.sleep(max(0.0, begin_s - MPI.Wtime()))
        begin_s = MPI.Wtime()
        if rank == iteration and iteration:  # the root's first child, then others
            suffer(a)
        left = [each for each in range(size) if a.fault != "permanent" or each == 0 or each > iteration]
        before = sum(clone.repairs for clone in clones)
        sums = [clone.allreduce(np.array([rank + 1])) for clone in clones]
        took_s = MPI.Wtime() - begin_s
        repairs = sum(clone.repairs for clone in clones) - before
        wrong += any(int(found[0]) != sum(left) + len(left) for found in sums)
        longest_s = float(clones[0].allreduce(np.array([took_s]), MPI.MAX)[0])
        begin_s = float(clones[0].allreduce(np.array([MPI.Wtime()]), MPI.MAX)[0])
        if rank == 0:
            print(f"iteration {iteration}: {longest_s * 1e6:.3f} us, {repairs} repairs", flush=True)
    for clone in clones:
        clone.comm.Free()
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
