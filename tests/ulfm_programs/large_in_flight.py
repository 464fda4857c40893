# number of ranks: 4
"""A message too large to be sent before its receiver is ready, when either of the two dies before that."""

import time

import numpy as np
from ft import attempt, comm, die, finish, phase, rank, report

LARGE = 1 << 17
box = np.zeros(LARGE)
if rank == 1:
    request = comm.Isend(box, dest=0)
    die()
if rank == 3:
    die()
if rank == 2:
    attempt("send", comm.Send, box, dest=3)
phase()
if rank == 0:
    attempt("recv", comm.Recv, box, source=1)
if rank in (0, 2):
    other, mine = 2 - rank, np.full(LARGE, rank + 1.0)
    attempt("living", comm.Sendrecv, mine, dest=other, recvbuf=box, source=other)
    report("sum", int(box.sum()))
time.sleep(0.1)
finish()
