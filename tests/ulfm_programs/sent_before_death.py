# number of ranks: 3
"""A message sent before its sender died is received, when the failure was not known at its arrival."""

import numpy as np
from ft import attempt, comm, die, finish, rank, report

box = np.full(1000, -1)
if rank == 1:
    comm.Send(np.arange(1000), dest=0, tag=1)
    comm.send({"last": "words"}, dest=2, tag=2)
    die()
if rank == 0:
    attempt("recv", comm.Recv, box, source=1, tag=1)
    report("sum", int(box.sum()))
    attempt("next", comm.Recv, box, source=1, tag=1)
else:
    report("object", attempt("recv", comm.recv, source=1, tag=2))
    attempt("next", comm.recv, source=1, tag=2)
report("failed", comm.Get_failed().size)
finish()
