"""A Fredholm operator of pylops-mpi with one slice on each rank, which it refuses."""

import numpy as np
from mpi4py import MPI
from pylops_mpi.signalprocessing import MPIFredholm1

try:
    MPIFredholm1(np.ones((1, 3, 4)), nz=2)
except NotImplementedError as refusal:
    print(MPI.COMM_WORLD.rank, refusal)
