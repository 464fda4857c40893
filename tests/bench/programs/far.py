"""Ten rounds of 1 KiB to the rank three nodes further in x and seven in y of a torus that is 64 nodes long."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
away = 3 + 7 * 64
send = np.full(1024, rank % 251, np.uint8)
recv = np.empty(1024, np.uint8)
for _ in range(10):
    comm.Sendrecv(send, (rank + away) % size, 0, recv, (rank - away) % size, 0)
    send, recv = recv, send
assert send[0] == (rank - 10 * away) % size % 251
