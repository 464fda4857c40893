# ranks: 1 2
# alone
"""sys.exit() without an argument, with None or zero is success; finally and atexit run."""

import atexit
import sys

from mpi4py import MPI

rank = MPI.COMM_WORLD.rank
atexit.register(print, f"rank {rank}: atexit")
try:
    print(f"rank {rank}: leaves", flush=True)
    if rank == 0:
        sys.exit()
    sys.exit(0)
finally:
    print(f"rank {rank}: finally", flush=True)
