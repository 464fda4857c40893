# number of ranks: 6
# quirk: 0,2,4 failed [] is [3] -- Open MPI looks at the local group only
# quirk: 0,2,4 acked 0 is 1 -- the same
# quirk: * agree.acked PROC_FAILED is SUCCESS -- so in Open MPI the remote group's failures cannot be acknowledged
# rule: 0,2,4 agree 11 -- mpi4py does not return the value beside the error
# rule: 1,5 agree 13 -- the same
# by heartbeat only: it asks for failures that nobody has waited for
"""A failure in one group of an intercommunicator: messages, knowledge and agreement."""

import numpy as np
from ft import attempt, comm, die, failed, finish, phase, rank, report

side = rank % 2
half = comm.Split(side, rank)
inter = half.Create_intercomm(0, comm, 1 - side)
if rank == 3:
    die()
phase()
report("failed", failed(inter))
report("half.failed", failed(half))
if side == 0:
    attempt("recv.dead", inter.recv, source=1)
if rank in (0, 1):
    box = np.full(1, rank)
    attempt("living", inter.Sendrecv, box.copy(), dest=0, recvbuf=box, source=0)
    report("partner", box.tolist())
attempt("barrier", inter.Barrier)
attempt("agree.unacked", inter.Agree, 1)
report("acked", inter.Ack_failed())
report("agree", attempt("agree.acked", inter.Agree, (0b1100, 0b1010)[side] | 1))
finish()
