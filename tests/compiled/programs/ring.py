"""The twin of ring.c."""

import sys

import numpy as np
from mpi4py import MPI

rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
world = MPI.COMM_WORLD
me, size = world.rank, world.size
token = np.zeros(1, "i")
for _ in range(rounds):
    if me:
        world.Recv(token, me - 1, 7, MPI.Status())
        token += 1
    else:
        token += 1
    world.Send(token, (me + 1) % size, 7)
    if not me:
        world.Recv(token, size - 1, 7, MPI.Status())
total = np.zeros(1)
world.Allreduce(np.array([float(me)]), total)
if not me:
    print(f"token {token[0]} after {MPI.Wtime():g} s, sum {total[0]:g}")
