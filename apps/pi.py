"""Monte Carlo pi: the share of random points of the unit square inside the quarter circle.

Each rank draws its own points, seeded by its rank, and one Reduce adds up the hits.

    mpiexec -n 4 python pi.py --samples 1000000
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from mpi4py import MPI

BATCH = 100_000  # points drawn at once, so that memory stays small


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1_000_000, help="number of points, over all ranks")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers")
    return parser.parse_args()


def count_hits(samples: int, generator: np.random.Generator) -> int:
    """Return the number of hits among `samples` random points."""
    hits = 0
    for start in range(0, samples, BATCH):
        points = generator.random((min(BATCH, samples - start), 2))
        hits += int(np.count_nonzero((points**2).sum(axis=1) <= 1.0))
    return hits


def main() -> None:
    """Distribute the points over the ranks and print the estimate on rank 0."""
    comm = MPI.COMM_WORLD
    arguments = parse_arguments()
    if arguments.samples < 1:
        raise SystemExit("pi: at least one sample is needed" if comm.rank == 0 else 1)
    own_samples = arguments.samples // comm.size + (comm.rank < arguments.samples % comm.size)
    own_hits = count_hits(own_samples, np.random.default_rng([arguments.seed, comm.rank]))

    mine = np.array([own_hits, own_samples], dtype=np.int64)
    total = np.zeros_like(mine)
    comm.Reduce(mine, total, op=MPI.SUM, root=0)
    if comm.rank == 0:
        hits, samples = (int(value) for value in total)
        estimate = 4.0 * hits / samples
        expected_error = math.sqrt(math.pi * (4.0 - math.pi) / samples)
        print(f"hits: {hits} of {samples}")
        print(f"pi is about {estimate:.8f}, off by {abs(estimate - math.pi):.2e} (expected {expected_error:.2e})")


if __name__ == "__main__":
    main()
