# number of ranks: 5
# free: 0,1 recv PROC_FAILED REVOKED -- who is second to see the failure may see the revocation first
"""The usual repair: whoever sees the failure revokes, all shrink, and the new communicator works."""

from ft import attempt, comm, die, finish, phase, rank, report, total

world = comm.Dup()
if rank == 3:
    die()
if rank in (0, 1):  # only these two look at the dead rank
    attempt("recv", world.recv, source=3)
    world.Revoke()
else:
    attempt("recv", world.recv, source=0)
new = attempt("shrink", world.Shrink)
report("shrunk", f"{new.rank} of {new.size}")
report("sum", attempt("allreduce", total, new, rank))
report("old", world.Is_revoked())
report("new", new.Is_revoked())
phase()
attempt("old.barrier", world.Barrier)
attempt("new.barrier", new.Barrier)
finish()
