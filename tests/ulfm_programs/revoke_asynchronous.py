# number of ranks: 4
# free: 1,2,3 sleeping False True -- whether MPI acts while the program sleeps is an implementation's affair
"""Revoking is not collective: the others learn of it when MPI next does something for them."""

import time

from ft import MPI, attempt, comm, finish, phase, rank, report, total

world = comm.Dup()
report("before", world.Is_revoked())
phase()
if rank == 0:
    attempt("revoke", world.Revoke)
    report("own", world.Is_revoked())
time.sleep(0.3)
report("sleeping", world.Is_revoked())
phase()
attempt("barrier", world.Barrier)
report("after", world.Is_revoked())
report("parent", comm.Is_revoked())
report("parent.sum", total(comm, rank))
report("self", MPI.COMM_SELF.Is_revoked())
finish()
