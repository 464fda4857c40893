# number of ranks: 4
"""Several ranks revoke the same communicator, some of them twice; one with a dead member as well."""

from ft import attempt, comm, die, finish, phase, rank, report

world = comm.Dup()
phase()
if rank != 1:
    attempt("revoke", world.Revoke)
    attempt("revoke.again", world.Revoke)
phase()
attempt("barrier", world.Barrier)
if rank == 0:
    die()
phase()
attempt("world.revoke", comm.Revoke)
attempt("world.barrier", comm.Barrier)
report("revoked", comm.Is_revoked())
report("shrunk", attempt("shrink", comm.Shrink).size)
finish()
