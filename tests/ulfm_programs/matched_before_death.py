# number of ranks: 3
"""A message is matched by a probe, its sender dies, and only then is it received: it is there."""

import numpy as np
from ft import attempt, comm, die, finish, phase, rank, report

box = np.zeros(4, dtype=int)
if rank == 1:
    comm.Send(np.arange(4), dest=0, tag=1)
    comm.send("for the other", dest=2, tag=2)
    die()
if rank == 0:
    message = attempt("mprobe", comm.Mprobe, source=1, tag=1)
else:
    message = attempt("mprobe", comm.mprobe, source=1, tag=2)
phase()
if rank == 0:
    attempt("recv", message.Recv, box)
    report("value", box.tolist())
else:
    report("value", attempt("recv", message.recv))
finish()
