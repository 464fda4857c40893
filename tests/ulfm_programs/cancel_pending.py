# number of ranks: 3
# quirk: 0 wait.cancelled PROC_FAILED_PENDING is SUCCESS -- Open MPI keeps a request that is both cancelled and pending
# quirk: 0 null False is True -- the same
"""A pending receive from anyone can be cancelled and freed; one that names the dead is over."""

import numpy as np
from ft import MPI, attempt, comm, die, finish, phase, rank, report

box = np.zeros(1)
if rank == 1:
    die()
phase()
if rank == 0:
    request = comm.Irecv(box, source=MPI.ANY_SOURCE)
    attempt("wait", request.Wait)
    attempt("cancel", request.Cancel)
    status = MPI.Status()
    attempt("wait.cancelled", request.Wait, status)
    report("cancelled", status.Is_cancelled())
    report("null", request == MPI.REQUEST_NULL)
finish()
