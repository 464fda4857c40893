"""Ten sums, or as many as it is told, of 8 bytes over all ranks, upper case."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
size = comm.Get_size()
mine, total = np.array([float(comm.Get_rank())]), np.empty(1)
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10):
    comm.Allreduce(mine, total)
    assert total[0] == size * (size - 1) / 2
