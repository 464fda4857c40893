# ranks: 1 2 4
"""Random numbers seeded by rank: reproducible, and different on every rank."""

import random

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

random.seed(1000 + rank)
generator = np.random.default_rng(1000 + rank)
numbers = [random.randrange(1000) for _ in range(4)]
print(f"rank {rank}: {numbers} {generator.integers(0, 1000, 4).tolist()}")
print(f"rank {rank}: shuffled {random.sample(range(10), 10)} {generator.permutation(6).tolist()}")
np.random.seed(rank)  # noqa: NPY002
print(f"rank {rank}: old style {np.random.randint(0, 1000, 3).tolist()}")  # noqa: NPY002

# A random walk where everyone steps in turn.
position = 0
for step in range(5 * size):
    if step % size == rank:
        position += random.choice((-1, 1))
    position = comm.bcast(position, root=step % size)
print(f"rank {rank}: walk ends at {position}")
everyone = comm.allgather(round(random.gauss(0, 1), 6))
print(f"rank {rank}: all different {len(set(everyone)) == size} {everyone}")
streams = np.random.SeedSequence(5).spawn(size)
print(f"rank {rank}: spawned {np.random.default_rng(streams[rank]).integers(0, 100, 3).tolist()}")
