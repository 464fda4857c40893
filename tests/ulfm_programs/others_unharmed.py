# number of ranks: 6
# by heartbeat only: it asks for failures that nobody has waited for
"""A failure in one half: the other half's communicator works on, the world's fails; each knows its own dead."""

from ft import attempt, comm, die, failed, finish, phase, rank, report, total

half = comm.Split(rank % 2, rank)
if rank == 3:
    die()
phase()
report("half.sum", attempt("half.class", total, half, rank))
report("half.failed", failed(half))
report("world.failed", failed())
attempt("world", total, comm, rank)
report("half.agree", attempt("half.agree.class", half.Agree, 3 | rank << 2))
if rank % 2 == 0:
    half.Revoke()
phase()
attempt("half.after", half.Barrier)
report("half.revoked", half.Is_revoked())
report("world.revoked", comm.Is_revoked())
finish()
