# number of ranks: 3
# free: 0,2 recv SUCCESS:5 PROC_FAILED:-1 -- a message that is there may be received, or the failure is looked at first
# by heartbeat only: it asks for failures that nobody has waited for
"""A message had arrived when its sender died, but nobody asked for it before the failure was known."""

import numpy as np
from ft import attempt, comm, die, failed, finish, outcome, phase, rank, report

box = np.full(1, -1)
if rank == 1:
    comm.Send(np.array([5]), dest=0, tag=1)
    comm.Send(np.array([5]), dest=2, tag=1)
    die()
phase()
report("failed", failed())
report("recv", f"{outcome(comm.Recv, box, source=1, tag=1)[0]}:{box[0]}")
attempt("next", comm.Recv, box, source=1, tag=1)
finish()
