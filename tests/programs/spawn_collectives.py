# ranks: 1 2 3
"""Parents and children: collectives and messages over the intercommunicator."""

import os
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "spawned.py")
ROOT = MPI.ROOT if comm.rank == 0 else MPI.PROC_NULL


def say(*what):
    print(" ".join(map(str, (comm.rank, *what))), flush=True)


inter = comm.Spawn(sys.executable, [CHILD, "collectives"], 2)
say("bcast", inter.bcast(0, root=ROOT))
inter.barrier()
say("allreduce", inter.allreduce(10 * (comm.rank + 1)))
say("allgather", inter.allgather(comm.rank))
say("alltoall", inter.alltoall([f"to {peer}" for peer in range(2)]))
say("reduce", inter.reduce(None, op=MPI.MAX, root=ROOT))
if comm.rank == 0:
    inter.send("parent's", dest=1, tag=3)
    say("answer", inter.recv(source=1, tag=4))
inter.Disconnect()
