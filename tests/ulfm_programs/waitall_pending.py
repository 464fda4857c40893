# number of ranks: 3
# arguments of a run: any; any dead; dead any; any live; any here; here any dead live; dead here
"""Several requests, one of which waits for an acknowledgement: each status says how that request stands."""

import sys

import numpy as np
from ft import MPI, attempt, class_of, comm, die, finish, phase, rank, report

if rank == 1:
    die()
if rank == 2:
    comm.Send(np.array([7]), dest=0, tag=8)
phase()
if rank == 0:
    attempt("known", comm.Recv, bytearray(1), 1, 9)
    wanted = {"any": (MPI.ANY_SOURCE, 5), "dead": (1, 6), "live": (2, 7), "here": (2, 8)}
    boxes = np.full(4, -1)
    requests = [comm.Irecv(boxes[i : i + 1], *wanted[what]) for i, what in enumerate(sys.argv[1:])]
    statuses = [MPI.Status() for _ in requests]
    attempt("waitall", MPI.Request.Waitall, requests, statuses)
    report("errors", [class_of(status.error) for status in statuses])
    report("null", [request == MPI.REQUEST_NULL for request in requests])
    report("boxes", boxes.tolist())
phase()
finish()
