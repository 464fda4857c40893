"""An array of mpiarray goes to a layout over the same processes in the opposite order."""

import mpiarray
from mpi4py import MPI

world = MPI.COMM_WORLD
backwards = world.Split(0, -world.rank)
array = mpiarray.zeros((8, 8), split=0)
array.redistribute(mpiarray.Layout((8, 8), split=0, comm=backwards))
backwards.Free()
print("done", world.rank)
