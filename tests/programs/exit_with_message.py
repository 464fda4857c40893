# ranks: 1 2
# alone
"""sys.exit with a text prints it on the standard error and means status 1; so does an exception nobody catches."""

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
print(f"rank {comm.rank}: before", flush=True)
comm.Barrier()
if comm.rank == 0:
    sys.exit("rank 0 has had enough")
raise RuntimeError("rank 1 too")
