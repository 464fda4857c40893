# number of ranks: 3
"""Receives from anyone that begin when the failure is known: non-blocking ones are pending, blocking ones fail."""

import numpy as np
from ft import MPI, attempt, comm, die, finish, phase, rank, report

box = np.full(1, -1)
if rank == 1:
    die()
phase()
if rank == 0:
    attempt("recv", comm.Recv, box, source=MPI.ANY_SOURCE, tag=1)
    request = attempt("irecv", comm.Irecv, box, source=MPI.ANY_SOURCE, tag=1)
    attempt("wait", request.Wait)
    attempt("sendrecv", comm.Sendrecv, np.ones(1), dest=0, sendtag=5, recvbuf=box.astype(float), source=-1, recvtag=6)
    comm.Ack_failed()
    report("flag", request.Test())
phase()
if rank == 2:
    comm.Send(np.array([7]), dest=0, tag=1)
    comm.Send(np.array([8]), dest=0, tag=2)
if rank == 0:
    attempt("wait.acked", request.Wait)
    report("value", box.tolist())
    attempt("recv.acked", comm.Recv, box, source=MPI.ANY_SOURCE, tag=2)
    report("value.recv", box.tolist())
finish()
