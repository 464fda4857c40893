"""A barrier, or as many as it is told."""

import sys

from mpi4py import MPI

for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
    MPI.COMM_WORLD.Barrier()
