"""Ring: every rank repeatedly passes a block of bytes to its right-hand neighbour.

After k rounds a rank holds the block that started k places to its left, which it checks.

    mpiexec -n 4 python ring.py --bytes 1024 --rounds 10
"""

from __future__ import annotations

import argparse

import numpy as np
from mpi4py import MPI


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=1024, help="size of a block")
    parser.add_argument("--rounds", type=int, default=10, help="number of rounds of each block")
    return parser.parse_args()


def block_of(rank: int, size_bytes: int) -> np.ndarray:
    """Return the block that `rank` starts with: bytes that distinguish the ranks."""
    return ((np.arange(size_bytes) + 7 * rank) % 251).astype(np.uint8)


def pass_around(comm: MPI.Comm, block: np.ndarray, rounds: int) -> np.ndarray:
    """Send the block to the right `rounds` times, receiving the left-hand neighbour's each time."""
    left = (comm.rank - 1) % comm.size
    right = (comm.rank + 1) % comm.size
    incoming = np.empty_like(block)
    for _ in range(rounds):
        # All ranks send and receive at once.  Send followed by Recv would deadlock for large blocks.
        comm.Sendrecv(block, dest=right, recvbuf=incoming, source=left)
        block, incoming = incoming, block
    return block


def main() -> None:
    """Run the ring and check that every block is where it should be."""
    comm = MPI.COMM_WORLD
    arguments = parse_arguments()
    if arguments.bytes < 0 or arguments.rounds < 0:
        complaint = "ring: the number of bytes and of rounds must not be negative"
        raise SystemExit(complaint if comm.rank == 0 else 1)
    start = MPI.Wtime()
    block = pass_around(comm, block_of(comm.rank, arguments.bytes), arguments.rounds)
    elapsed = MPI.Wtime() - start

    origin = (comm.rank - arguments.rounds) % comm.size
    right_blocks = comm.allreduce(int(np.array_equal(block, block_of(origin, arguments.bytes))))
    slowest = comm.reduce(elapsed, op=MPI.MAX)
    if comm.rank == 0:
        print(f"ring: {comm.size} ranks, {arguments.rounds} rounds of {arguments.bytes} bytes")
        print(f"right blocks: {right_blocks} of {comm.size}")
        print(f"time: {slowest * 1e6:.3f} us")
    if right_blocks != comm.size:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
