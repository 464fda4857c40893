"""Ten rounds, or as many as it is told, of 1 KiB to the next rank, upper case."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
send = np.full(1024, rank % 251, np.uint8)
recv = np.empty(1024, np.uint8)
rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
for _ in range(rounds):
    comm.Sendrecv(send, (rank + 1) % size, 0, recv, (rank - 1) % size, 0)
    send, recv = recv, send
assert send[0] == (rank - rounds) % size % 251
