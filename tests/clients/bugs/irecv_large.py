"""A pickled object above 32 KiB for an irecv; with an argument, that is told how large it may be."""

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
size = int(sys.argv[1]) if len(sys.argv) > 1 else None
if comm.rank == 0:
    comm.send(list(range(20_000)), dest=1)
elif comm.rank == 1:
    print(len(comm.irecv(size, source=0).wait()))
