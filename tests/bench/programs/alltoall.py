"""Once, or as often as it is told, 64 bytes from each rank to each, upper case."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
send = np.repeat(np.arange(size) + rank * size, 8)
recv = np.empty_like(send)
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
    comm.Alltoall(send, recv)
    assert (recv == np.repeat(np.arange(size) * size + rank, 8)).all()
