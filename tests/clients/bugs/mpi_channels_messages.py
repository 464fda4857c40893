"""Rank 1 of three puts eight messages into a channel of mpi-channels that rank 0 has, and rank 2 takes them."""

import numpy as np
from mpi4py import MPI
from mpi_channels import RemoteChannel

comm = MPI.COMM_WORLD
channel = RemoteChannel(16, 4, host=0)
comm.Barrier()
if comm.rank == 0:
    channel.claim(8)
comm.Barrier()
if comm.rank == 1:
    for number in range(8):
        channel.put(np.full(4, float(number)))
comm.Barrier()
if comm.rank == 2:
    print([float(channel.take()[0]) for _ in range(8)])
