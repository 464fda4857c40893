"""Ping-pong: measure the time of one message between two ranks.

Rank 0 sends a message to the last rank, which sends it straight back. Half of the time of the round trip is the one-way
time; the other ranks do nothing. The first round trip of each size is not counted. Everything except the times is the
same on every machine.

    mpiexec -n 2 python pingpong.py --sizes 0 1024 1048576 --repetitions 10
"""

from __future__ import annotations

import argparse

import numpy as np
from mpi4py import MPI

SIZES = [0, 1, 64, 1024, 16384, 65536, 262144, 1048576]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="BYTES", help="message sizes")
    parser.add_argument("--repetitions", type=int, default=10, metavar="N", help="round trips per size")
    return parser.parse_args()


def one_way_seconds(comm: MPI.Comm, size_bytes: int, repetitions: int) -> float:
    """Return the mean one-way time of a message of `size_bytes` (only meaningful on rank 0)."""
    message = np.arange(size_bytes, dtype=np.uint8)
    echo = np.zeros_like(message)
    round_trip(comm, message, echo)  # warms up, and synchronises the two ranks
    start = MPI.Wtime()
    for _ in range(repetitions):
        round_trip(comm, message, echo)
    elapsed = MPI.Wtime() - start
    if comm.rank in (0, comm.size - 1) and not np.array_equal(echo, message):
        raise SystemExit(f"pingpong: the message of {size_bytes} bytes came back changed")
    return elapsed / (2 * repetitions)


def round_trip(comm: MPI.Comm, message: np.ndarray, echo: np.ndarray) -> None:
    """Send a message from rank 0 to the last rank and back."""
    first, last = 0, comm.size - 1
    if comm.rank == first:
        comm.Send(message, dest=last)
        comm.Recv(echo, source=last)
    elif comm.rank == last:
        comm.Recv(echo, source=first)
        comm.Send(echo, dest=first)


def main() -> None:
    """Measure each size and print a table on rank 0."""
    comm = MPI.COMM_WORLD
    arguments = parse_arguments()
    if comm.size < 2:
        raise SystemExit("pingpong: needs two ranks; this run has one")
    if min(arguments.sizes) < 0 or arguments.repetitions < 1:
        complaint = "pingpong: sizes must not be negative, and at least one repetition is needed"
        raise SystemExit(complaint if comm.rank == 0 else 1)
    if comm.rank == 0:
        print(f"{'bytes':>10} {'one way, us':>14} {'MB/s':>10}")
    for size_bytes in arguments.sizes:
        seconds = one_way_seconds(comm, size_bytes, arguments.repetitions)
        if comm.rank == 0:
            rate = size_bytes / seconds / 1e6 if seconds > 0 else 0.0
            print(f"{size_bytes:>10} {seconds * 1e6:>14.4f} {rate:>10.2f}")


if __name__ == "__main__":
    main()
