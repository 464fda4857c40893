# number of ranks: 4
"""Probing for anyone's message raises PROC_FAILED until the failure is acknowledged; named sources are not touched."""

import numpy as np
from ft import MPI, attempt, comm, die, finish, phase, rank, report

if rank == 3:
    die()
phase()
if rank == 0:
    for name in ("Probe", "Iprobe", "Mprobe", "Improbe"):
        attempt(name, getattr(comm, name), source=MPI.ANY_SOURCE, tag=1)
    report("living", attempt("living.class", comm.Iprobe, source=1, tag=1))
    attempt("dead", comm.Probe, source=3, tag=1)
    comm.Ack_failed()
    report("acked", attempt("acked.class", comm.Iprobe, source=MPI.ANY_SOURCE, tag=1))
    attempt("dead.acked", comm.Probe, source=3, tag=1)
phase()
if rank == 2:
    comm.Send(np.array([5.0]), dest=0, tag=1)
phase()
if rank == 0:
    status, box = MPI.Status(), np.zeros(1)
    attempt("probe", comm.Probe, MPI.ANY_SOURCE, 1, status)
    report("source", status.source)
    message = attempt("mprobe", comm.Mprobe, MPI.ANY_SOURCE, 1)
    message.Recv(box)
    report("value", box.tolist())
finish()
