"""Every rank computes for a while in Python, and all add up what they have found, a few times."""

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
total = 0
for _ in range(3):
    value = comm.rank + total
    for step in range(steps):
        value = (value * 1_103_515_245 + step) % 2_147_483_648
    total = comm.allreduce(value)
if comm.rank == 0:
    print(total)
