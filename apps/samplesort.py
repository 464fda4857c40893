"""Parallel sample sort: sort keys that are distributed over the ranks.

1. Each rank sorts its own keys and offers a few of them, evenly spaced, as samples.
2. All samples are gathered and sorted; every p-th is a splitter between two ranks.
3. Each rank cuts its keys at the splitters and sends the pieces to their ranks (Alltoallv).
4. Each rank sorts what it received. Now rank 0 has the smallest keys, and so on.

    mpiexec -n 4 python samplesort.py --keys 10000
"""

from __future__ import annotations

import argparse

import numpy as np
from mpi4py import MPI


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=10_000, help="number of keys on each rank")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random keys")
    return parser.parse_args()


def choose_splitters(comm: MPI.Comm, keys: np.ndarray) -> np.ndarray:
    """Return size - 1 splitters, the same on every rank, from evenly spaced samples of the sorted `keys`."""
    samples = keys[np.arange(comm.size) * len(keys) // comm.size].copy()
    everyone = np.empty(comm.size * comm.size, dtype=keys.dtype)
    comm.Allgather(samples, everyone)
    everyone.sort()
    return everyone[comm.size :: comm.size]


def exchange(comm: MPI.Comm, keys: np.ndarray, splitters: np.ndarray) -> np.ndarray:
    """Send each piece of the sorted `keys` to its rank and return what arrived."""
    cuts = np.concatenate(([0], np.searchsorted(keys, splitters, side="right"), [len(keys)]))
    send_counts = np.diff(cuts)
    receive_counts = np.empty_like(send_counts)
    comm.Alltoall(send_counts, receive_counts)
    received = np.empty(receive_counts.sum(), dtype=keys.dtype)
    comm.Alltoallv([keys, send_counts], [received, receive_counts])
    return received


def sample_sort(comm: MPI.Comm, keys: np.ndarray) -> np.ndarray:
    """Return this rank's part of all keys in order."""
    keys = np.sort(keys)
    return np.sort(exchange(comm, keys, choose_splitters(comm, keys)))


def is_sorted(comm: MPI.Comm, keys: np.ndarray) -> bool:
    """Return True on every rank if the keys are in order within and across the ranks."""
    lowest = np.iinfo(keys.dtype).min
    largest_before = comm.exscan(int(keys[-1]) if len(keys) else lowest, op=MPI.MAX)
    own_order = bool(np.all(keys[:-1] <= keys[1:]))
    border = comm.rank == 0 or len(keys) == 0 or largest_before <= keys[0]
    return comm.allreduce(own_order and bool(border), op=MPI.LAND)


def main() -> None:
    """Sort random keys, verify the order and that no key was lost, and print a summary on rank 0."""
    comm = MPI.COMM_WORLD
    arguments = parse_arguments()
    if arguments.keys < 1:
        raise SystemExit("samplesort: each rank needs at least one key" if comm.rank == 0 else 1)
    generator = np.random.default_rng([arguments.seed, comm.rank])
    keys = generator.integers(0, 1_000_000, size=arguments.keys)

    start = MPI.Wtime()
    result = sample_sort(comm, keys)
    elapsed = comm.reduce(MPI.Wtime() - start, op=MPI.MAX)

    ordered = is_sorted(comm, result)
    sum_before, sum_after = comm.allreduce(int(keys.sum())), comm.allreduce(int(result.sum()))
    counts = comm.gather(len(result))
    complete = sum_before == sum_after and comm.allreduce(len(result)) == arguments.keys * comm.size
    if comm.rank == 0:
        print(f"samplesort: {comm.size} ranks, {sum(counts)} keys, sum {sum_after}")
        print(f"keys per rank: {min(counts)} to {max(counts)}")
        print(f"in order: {ordered}, complete: {complete}")
        print(f"time: {elapsed * 1e6:.3f} us")
    if not (ordered and complete):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
