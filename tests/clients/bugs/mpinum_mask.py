"""An array of mpinum with a mask gives a column of both to the next rank, and is made again in each step."""

import sys

import numpy as np
from mpi4py import MPI
from mpinum import mdaZeros

comm = MPI.COMM_WORLD
for _ in range(int(sys.argv[1])):
    array = mdaZeros((4, 4), np.float64)
    array.mask = np.eye(4, dtype=bool)
    array.expose((slice(None), slice(3, 4)), winID="east")
    array.getData((comm.rank + 1) % comm.size, "east")
    mask = array.getMask((comm.rank + 1) % comm.size, "east")
    array.free()
print("the mask of the neighbour:", mask)
