# number of ranks: 3
# free: 0,2 known.* SUCCESS PROC_FAILED -- a small message may be sent on its way without a look at its receiver
"""Messages to a rank that is dead, and that is not yet known to be: small ones are gone with success."""

import time

import numpy as np
from ft import attempt, comm, die, finish, phase, rank

box = np.zeros(1)
if rank == 1:
    die(0)
time.sleep(0.01)
request = attempt("isend", comm.Isend, box, dest=1)
attempt("wait", request.Wait)
phase()
attempt("known.isend", lambda: comm.Isend(box, dest=1).Wait())
attempt("known.send", comm.Send, box, dest=1)
attempt("ssend", comm.Ssend, box, dest=1)
finish()
