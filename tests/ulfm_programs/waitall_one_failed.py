# number of ranks: 4
"""Several requests of which one fails: what the completion of all raises, and what each request's status says."""

import numpy as np
from ft import MPI, attempt, class_of, comm, die, finish, phase, rank, report

boxes = np.full(3, -1)
if rank == 1:
    die()
if rank in (2, 3):
    comm.Send(np.array([rank]), dest=0)
phase()
if rank == 0:
    requests = [comm.Irecv(boxes[i : i + 1], source=i + 1) for i in range(3)]
    statuses = [MPI.Status() for _ in requests]
    attempt("waitall", MPI.Request.Waitall, requests, statuses)
    report("errors", [class_of(status.error) for status in statuses])
    report("null", [request == MPI.REQUEST_NULL for request in requests])
    report("boxes", boxes.tolist())
finish()
