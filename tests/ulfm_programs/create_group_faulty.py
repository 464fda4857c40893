# number of ranks: 5
# by heartbeat only: it asks for failures that nobody has waited for
"""MPI_Comm_create_group without the dead member works until the failure is known, and with it fails whoever is in."""

import time

from ft import attempt, comm, die, finish, phase, rank, report, total

group = comm.Get_group()
living = group.Excl([1])
if rank == 1:
    die(0)
time.sleep(0.01)
new = attempt("unknown", comm.Create_group, living, 1)
report("unknown.sum", total(new, rank))
phase()
report("failed", comm.Get_failed().size)
attempt("known", comm.Create_group, living, 2)
attempt("known.all", comm.Create_group, group, 3)
report("new.sum", total(new, rank))
finish()
