"""An operator of pylops-mpi that is made anew in each step of a long loop."""

import sys

from mpi4py import MPI
from pylops_mpi.basicoperators import MPIHalo

comm = MPI.COMM_WORLD
made = 0
try:
    while made < int(sys.argv[1]):
        MPIHalo(dims=(16 * comm.size,), halo=1, proc_grid_shape=(comm.size,))
        made += 1
finally:
    if comm.rank == 0:
        print("made", made)
