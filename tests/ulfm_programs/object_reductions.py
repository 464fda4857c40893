# number of ranks: 4
"""Reductions of objects go by messages on a duplicate of the communicator, which a revocation does not reach."""

from ft import attempt, comm, die, finish, phase, rank, report

world, revoked, broken = comm.Dup(), comm.Dup(), comm.Dup()
report("first", world.allreduce(1))
broken.scan(1)
phase()
if rank == 2:
    world.Revoke()
    revoked.Revoke()
phase()
attempt("barrier", world.Barrier)
report("total", attempt("allreduce", world.allreduce, rank))
report("below", attempt("exscan", world.exscan, [rank]))
attempt("the first one", revoked.allreduce, 1)  # its duplicate can no longer be made
attempt("another one", revoked.reduce, 1)
phase()
if rank == 3:
    die()
elif rank != 0:  # each of them needs rank 3; rank 0 would wait for rank 2, which lives
    attempt("reduce", broken.reduce, 1)
finish()
