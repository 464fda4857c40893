# number of ranks: 6
# quirk: 2,4 neighbour OTHER is PROC_FAILED -- Open MPI waits for several requests, of which one fails
"""Neighbourhood collectives on a ring with a dead rank: whoever waits for it fails, and nobody else."""

import numpy as np
from ft import attempt, comm, die, finish, rank

ring = comm.Create_cart([6], periods=[True])
if rank == 3:
    die()
attempt("neighbour", ring.Neighbor_allgather, np.full(1, rank), np.zeros(2, dtype=int))
finish()
