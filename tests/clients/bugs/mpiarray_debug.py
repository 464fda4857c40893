"""Arrays of mpiarray on communicators that come and go; one rank keeps its arrays, which is its own affair."""

import mpiarray
from mpi4py import MPI

world = MPI.COMM_WORLD
kept = []
for _ in range(4):
    comm = world.Dup()
    array = mpiarray.zeros((8, 8), split=0, halo=1, comm=comm)
    array.update_halos()
    if world.rank == 0:
        kept.append(array)
    del array, comm
print("done", world.rank)
