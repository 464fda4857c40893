"""NetPIPE: ping-pong in pairs of ranks; a failure affects one pair only.

Ranks 0 and 1 are a pair, ranks 2 and 3, and so on. The first of a pair sends a message, and the second sends it back,
for sizes from 1 byte to 8 MiB in powers of two and, as in NetPIPE (Snell, Mikler, Gustafson, 1996), a few bytes below
and above them (--perturbation). Half of the mean time of a round trip is the time of a message.

The slides on ULFM (Bosilca, Bouteiller and others, 2014) run two pairs, and rank 3 fails in the test of 512 bytes. Rank
2 detects the failure and ends; ranks 0 and 1 do not notice.

    xsim run -n 4 netpipe.py
    xsim run -n 4 --ft netpipe.py --die 3@512
    mpirun --with-ft ulfm -n 4 python netpipe.py --die 3@512

Any ranks may fail, at any time. The output is one block of lines per pair, from the first surviving rank of the pair.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import recovery
from mpi4py import MPI

LARGEST = 2**23


def parse_arguments() -> argparse.Namespace:
    """Read the command line; --die takes a size in bytes as the step."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--largest", type=recovery.number(int, 1, 2**30), default=LARGEST, metavar="BYTES", help="the last size")
    add(
        "--perturbation",
        type=recovery.natural,
        default=0,
        metavar="BYTES",
        help="distance of the other sizes from a power of two",
    )
    add("--repetitions", type=recovery.positive, default=10, metavar="N", help="round trips of each size")
    arguments = parser.parse_args()
    tested = sizes(arguments.largest, arguments.perturbation)
    for rank, size in arguments.die:
        if size not in tested:
            nearest = min(tested, key=lambda other: abs(other - size))
            parser.error(f"--die {rank}@{size}: no size that is tested; the nearest is {nearest}")
    return arguments


def sizes(largest: int, perturbation: int) -> list[int]:
    """Return the sizes in bytes: powers of two, and those next to them that are at least 1."""
    powers = [2**exponent for exponent in range(largest.bit_length())]
    beside = {power + shift for power in powers for shift in (-perturbation, 0, perturbation)}
    return sorted(size for size in beside if 1 <= size <= largest)


def measured_s(comm: MPI.Intracomm, partner: int, size: int, repetitions: int) -> float:
    """Return the time of one message in seconds, or raise the MPI error of a failed partner."""
    message = (np.arange(size) % 251).astype(np.uint8)
    echo = np.zeros_like(message)
    start_s = 0.0
    for repetition in range(repetitions + 1):  # the first one warms up, and synchronises both
        if repetition == 1:
            start_s = MPI.Wtime()
        if comm.rank < partner:
            comm.Send(message, partner)
            comm.Recv(echo, partner)
        else:
            comm.Recv(echo, partner)
            comm.Send(echo, partner)
    if not np.array_equal(echo, message):
        print(f"rank {comm.rank}: {size} bytes came back changed\nright: False", flush=True)
        comm.Abort(1)
    return (MPI.Wtime() - start_s) / (2 * repetitions)


def main() -> None:
    """Measure all sizes in this rank's pair."""
    comm = MPI.COMM_WORLD
    arguments = parse_arguments()
    if comm.size % 2:
        raise SystemExit(f"netpipe: {comm.size} ranks cannot make pairs" if comm.rank == 0 else 2)
    partner = comm.rank ^ 1
    wanted = sizes(arguments.largest, arguments.perturbation)
    done = []
    for size in wanted:
        recovery.die_at(arguments.die, size)
        seconds, lives = recovery.attempt(measured_s, comm, partner, size, arguments.repetitions)
        if not lives:
            said = f"rank {partner} failed in the test of {size} B, rank {comm.rank} continues alone"
            break
        done.append(f"time: {comm.rank} {size} B in {seconds * 1e6:.6f} us, {size * 8e-6 / seconds:.3f} Mbit/s")
    else:
        said = f"ranks {comm.rank} and {partner}: {len(wanted)} sizes, to {wanted[-1]} B"
    if comm.rank < partner or len(done) < len(wanted):
        print(*done, said, sep="\n", flush=True)
    if len(done) < len(wanted):
        sys.exit(0)  # without a partner to inform


if __name__ == "__main__":
    main()
