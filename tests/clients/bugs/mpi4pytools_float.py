"""The parts of an array of floats go to the ranks by mpi4pytools; the type is given as numpy takes it everywhere."""

import numpy as np
from mpi4py import MPI
from mpitools.comms.variable_collective import variable_scatter_from_main

counts = [rank + 1 for rank in range(MPI.COMM_WORLD.size)]


@variable_scatter_from_main(counts=counts, dtype=float)
def numbers() -> np.ndarray:
    """Return what is shared out; only rank 0 is asked."""
    return np.arange(1.0, sum(counts) + 1)


print(MPI.COMM_WORLD.rank, "has", numbers()[0])
