# number of ranks: 4
"""A non-blocking receive from anyone is pending while a failure is not acknowledged, and completes later."""

import numpy as np
from ft import MPI, attempt, comm, die, finish, phase, rank, report

box = np.full(1, -1)
request = comm.Irecv(box, source=MPI.ANY_SOURCE, tag=3) if rank == 0 else None
if rank == 1:
    die()
phase()
if rank == 0:
    attempt("wait", request.Wait)
    report("active", request != MPI.REQUEST_NULL)
    attempt("test", request.Test)
    attempt("wait.again", request.Wait)
phase()
if rank == 0:
    report("acked", comm.Ack_failed())
    report("test.acked", request.Test())
phase()
if rank == 2:
    attempt("send", comm.Send, np.array([42]), dest=0, tag=3)
if rank == 0:
    status = MPI.Status()
    attempt("wait.acked", request.Wait, status)
    report("value", box.tolist())
    report("source", status.source)
    report("null", request == MPI.REQUEST_NULL)
finish()
