# number of ranks: 4
# by heartbeat only: it asks for failures that nobody has waited for
"""MPI_Comm_agree and MPI_Comm_iagree work on a revoked communicator, with a dead member and without."""

from array import array

from ft import attempt, comm, die, finish, phase, rank, report

half = comm.Dup()
phase()  # a real one may not survive a revocation that arrives before the communicator is made
if rank == 0:
    half.Revoke()
phase()
attempt("send", half.send, None, dest=rank)
report("agree", attempt("agree.class", half.Agree, 6 | rank))
if rank == 3:
    die()
phase()
report("failed", half.Get_failed().size)
report("acked", half.Ack_failed())
report("dead.agree", attempt("dead.agree.class", half.Agree, 12 | rank))
flag = array("i", [24 | rank])
attempt("iagree.class", half.Iagree(flag).Wait)
report("iagree", flag[0])
report("revoked", half.Is_revoked())
finish()
