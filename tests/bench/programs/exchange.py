"""Rounds of messages of any size along a ring, in pairs as of an allreduce (powers), or between all ranks (all)."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
rounds, pattern, length = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
send, recv = np.zeros(length, np.uint8), np.zeros(length, np.uint8)
paired = pattern != "ring" and size & (size - 1) == 0
steps = {"ring": [1], "powers": [1 << bit for bit in range(size.bit_length() - 1)], "all": range(1, size)}[pattern]
for _ in range(rounds):
    for step in steps:
        to, source = (rank ^ step, rank ^ step) if paired else ((rank + step) % size, (rank - step) % size)
        comm.Sendrecv(send, to, 0, recv, source, 0)
