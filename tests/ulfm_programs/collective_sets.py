# number of ranks: 8
# arguments of a run: bcast 1; bcast 7; bcast 4; bcast 0; reduce 7; reduce 1; reduce 0; gather 7; gather 1
# arguments of a run: scatter 3; scatter 4; scan 3; exscan 0; allreduce 7; allgather 3; alltoall 3; barrier 7
# arguments of a run: split 7; dup 7; create 7; gatherv 3; scatterv 3; allgatherv 3; alltoallv 3; reduce_scatter 3
# quirk: 0 * OTHER is PROC_FAILED -- Open MPI's barrier may report another class at the root
# quirk: * alltoall* OTHER is PROC_FAILED -- Open MPI's linear alltoall ends with requests in error
# quirk: * allgatherv SUCCESS is PROC_FAILED -- Open MPI's root sends on what it could not gather
"""Which ranks see the failure of one rank in one collective operation: the algorithms' trees show."""

import sys

import numpy as np
from ft import attempt, comm, die, finish, rank, size

name, victim = sys.argv[1], int(sys.argv[2])
if rank == victim:
    die()
one, two, all_ = np.ones(1), np.ones(1), np.ones(size)
CALLS = {
    "bcast": (comm.Bcast, one, 0),
    "reduce": (comm.Reduce, one, two),
    "gather": (comm.Gather, one, all_),
    "scatter": (comm.Scatter, all_, one),
    "scan": (comm.Scan, one, two),
    "exscan": (comm.Exscan, one, two),
    "allreduce": (comm.Allreduce, one, two),
    "allgather": (comm.Allgather, one, all_),
    "alltoall": (comm.Alltoall, all_, np.zeros(size)),
    "gatherv": (comm.Gatherv, one, all_),
    "scatterv": (comm.Scatterv, all_, one),
    "allgatherv": (comm.Allgatherv, one, all_),
    "alltoallv": (comm.Alltoallv, all_, np.zeros(size)),
    "reduce_scatter": (comm.Reduce_scatter_block, all_, one),
    "barrier": (comm.Barrier,),
    "split": (comm.Split, rank % 2),
    "dup": (comm.Dup,),
    "create": (comm.Create, comm.Get_group()),
}
attempt(name, *CALLS[name])
finish()
