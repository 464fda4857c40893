# ranks: 1 3
# alone
"""All ranks leave with the same exit code."""

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
print(f"rank {comm.rank}: about to leave", flush=True)
comm.Barrier()
sys.exit(3)
