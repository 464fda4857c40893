"""Each rank sends 64 bytes to as many ranks after it as its argument says, all before any message arrives."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size, partners = comm.rank, comm.size, range(1, int(sys.argv[1]) + 1)
sent = np.full(64, rank % 251, np.uint8)
received = np.empty((len(partners), 64), np.uint8)
requests = [comm.Irecv(received[away - 1], (rank - away) % size) for away in partners]
requests += [comm.Isend(sent, (rank + away) % size) for away in partners]
MPI.Request.Waitall(requests)
for away in partners:
    assert (received[away - 1] == (rank - away) % size % 251).all()
