# number of ranks: 7
# by heartbeat only: it asks for failures that nobody has waited for
"""Two ranks die at the same time: both are out after one shrink."""

from ft import attempt, comm, die, failed, finish, phase, rank, report, total

if rank in (2, 5):
    die()
attempt("allreduce", total, comm, 1)
phase()
report("failed", sorted(failed()))
attempt("allreduce.again", total, comm, 1)
report("acked", comm.Ack_failed())
report("agree", attempt("agree.class", comm.Agree, 0xFF ^ rank))
new = attempt("shrink", comm.Shrink)
report("shrunk", f"{new.rank} of {new.size}: {new.allgather(rank)}")
finish()
