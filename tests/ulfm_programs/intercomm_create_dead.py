# number of ranks: 6
# by heartbeat only: it asks for failures that nobody has waited for
"""Making an intercommunicator with a dead leader: only the other leader sees it, and has to tell its group."""

from ft import attempt, comm, die, finish, phase, rank, report

side = rank % 2
half = comm.Split(side, rank)
if rank == 0:
    die()
phase()
report("failed", half.Get_failed().size)
if side == 1:
    if attempt("leader", half.Create_intercomm, 0, comm, 0, 1) is None:
        half.Revoke()
else:
    attempt("behind", half.Create_intercomm, 1, comm, 1, 1)
report("revoked", half.Is_revoked())
report("shrunk", half.Shrink().size)
finish()
