"""A loop over examples that dlp-mpi shares out, as often as there are epochs."""

import sys

from dlp_mpi import split_managed
from mpi4py import MPI

for _ in range(int(sys.argv[1])):
    for _ in split_managed(range(3), progress_bar=False):
        pass
print("done", MPI.COMM_WORLD.rank)
