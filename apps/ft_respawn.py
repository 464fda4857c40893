"""Respawn: the cost of replacing a process, repeatedly, in five phases.

Each iteration begins with a failure, and ends with the initial number of processes:

    Detection   all except the victim are in a Barrier, which ends with an error
    Revoke      ranks with the error revoke the communicator
    Shrink      the survivors create their own
    Spawn       they start a new process, and agree on its success
    Merge       all form one communicator, and agree on its success

This is the synthetic benchmark of Bland, Bouteiller, Herault, Bosilca and Dongarra (Post-failure recovery of MPI
communication capability, IJHPCA 2013). A phase ends when the last process has finished it, so the five add up to the
iteration. The victim is the last of the initial processes. With one iteration per other process (--iterations 0) one of
the initial processes is left.

    xsim run -n 8 ft_respawn.py
    mpirun --with-ft ulfm -n 8 python ft_respawn.py

(Open MPI 5 may print the last line and hang in MPI_Finalize.)

With --wait chain each rank waits for a message of the next one instead of the Barrier: one rank sees the failure, and
the revocation has to wake the others.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

import numpy as np
from mpi4py import MPI

PHASES = ("Detection", "Revoke", "Shrink", "Spawn", "Merge")
PICOSECONDS = 10**12


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=3, help="number of processes to replace; 0: all but one")
    parser.add_argument("--wait", choices=("barrier", "chain"), default="barrier", help="call that detects the failure")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between iterations")
    parser.add_argument("--done", type=int, default=0, help=argparse.SUPPRESS)  # iterations before this process began
    arguments = parser.parse_args()
    if arguments.iterations < 0 or arguments.pause < 0:
        parser.error("--iterations and --pause must not be negative")
    return arguments


def now() -> int:
    """Return the time in whole picoseconds, so that differences are exact under a simulator."""
    return round(MPI.Wtime() * PICOSECONDS)


def begin_together(comm: MPI.Intracomm, pause: float) -> int:
    """Wait until a common time, and return it."""
    mine, latest = np.array([now()]), np.zeros(1, int)
    comm.Allreduce(mine, latest, op=MPI.MAX)
    begin = int(latest[0]) + round(pause * PICOSECONDS)
    time.sleep(max(0, begin - now()) / PICOSECONDS)
    return begin


def wait_for_failure(comm: MPI.Intracomm, way: str) -> bool:
    """Wait until the failure interrupts; return True if this rank has seen it, not a revocation."""
    try:
        if way == "barrier":
            comm.Barrier()
        else:
            comm.Recv(np.zeros(1), source=(comm.rank + 1) % comm.size)
    except MPI.Exception as error:
        return bool(error.Get_error_class() != MPI.ERR_REVOKED)
    raise AssertionError


def repair(comm: MPI.Intracomm, way: str, done: int) -> tuple[MPI.Intracomm, list[int]]:
    """Recover from one failure; return the new communicator, and when this rank ended each phase."""
    times = [0] * len(PHASES)
    if wait_for_failure(comm, way):
        times[0] = now()
        comm.Revoke()
    times[1] = now()
    living = comm.Shrink()
    times[2] = now()
    options = [word for word in sys.argv[1:] if not word.startswith("--done")]
    inter = living.Spawn(sys.executable, [__file__, *options, f"--done={done + 1}"], maxprocs=comm.size - living.size)
    living.Agree(1)
    times[3] = now()
    everybody = inter.Merge(high=False)
    everybody.Agree(1)
    times[4] = now()
    return everybody, times


def main() -> None:
    """Fail and be replaced, repeatedly."""
    arguments = parse_arguments()
    parent = MPI.Comm.Get_parent()
    is_first, done = parent == MPI.COMM_NULL, arguments.done
    begin, times = 0, [0] * len(PHASES)
    if is_first:
        comm = MPI.COMM_WORLD
    else:
        comm = parent.Merge(high=True)
        comm.Agree(1)
        times[-1] = now()
    iterations = min(arguments.iterations or comm.size - 1, comm.size - 1)
    if is_first and comm.rank == 0:
        print("  iteration", *(f"{phase:>16}" for phase in PHASES), f"{'sum, us':>16}")
    while True:
        if not is_first or done:
            ends = np.zeros(len(PHASES), int)
            comm.Allreduce(np.array(times), ends, op=MPI.MAX)
            if comm.rank == 0:
                phases = np.diff([begin, *ends])
                print(f"{done:11d}", *(f"{phase / 10**6:16.6f}" for phase in (*phases, ends[-1] - begin)), flush=True)
        if done == iterations:
            break
        begin = begin_together(comm, arguments.pause)
        if is_first and comm.rank == comm.size - 1 - done:
            os.kill(os.getpid(), signal.SIGKILL)
        comm, times = repair(comm, arguments.wait, done)
        done += 1
    counted = np.zeros(1, int)
    comm.Allreduce(np.array([int(is_first)]), counted, op=MPI.SUM)
    if comm.rank == 0:
        print(f"ft_respawn: {comm.size} processes, {counted[0]} of them from the beginning")


if __name__ == "__main__":
    main()
