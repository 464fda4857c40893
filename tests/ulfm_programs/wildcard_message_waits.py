# number of ranks: 3
# free: 0 recv SUCCESS:7 PROC_FAILED:-1 -- the message that is there may be received, or the failure is looked at first
# by heartbeat only: it asks for failures that nobody has waited for
"""A message from a living rank is there already when a receive from anyone begins, with an unknown dead rank."""

import numpy as np
from ft import MPI, comm, die, finish, outcome, phase, rank, report

if rank == 2:
    comm.Send(np.array([7]), dest=0, tag=1)
if rank == 1:
    die()
phase()
box = np.full(1, -1)
if rank == 0:
    report("recv", f"{outcome(comm.Recv, box, source=MPI.ANY_SOURCE, tag=1)[0]}:{box[0]}")
    report("failed", comm.Get_failed().size)
finish()
