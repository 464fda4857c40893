# number of ranks: 4
# quirk: 3 ssend SUCCESS is REVOKED -- Open MPI may lose the error of a send that a revocation ends
"""Ranks that wait in a receive when another one revokes the communicator: their operations end with REVOKED."""

import time

import numpy as np
from ft import MPI, attempt, comm, finish, phase, rank, report, total

world = comm.Dup()
phase()
box = np.zeros(1)
if rank == 0:
    time.sleep(0.2)
    world.Revoke()
elif rank == 1:
    attempt("recv", world.Recv, box, source=2)
elif rank == 2:
    attempt("irecv", world.Irecv(box, source=MPI.ANY_SOURCE).Wait)
else:
    attempt("ssend", world.Ssend, box, dest=0)
report("revoked", world.Is_revoked())
phase()
report("sum", total(comm, rank))
finish()
