# number of ranks: 4
"""Freeing communicators that are revoked or have dead members: it works, and pending messages do not mind."""

from ft import MPI, attempt, comm, die, finish, phase, rank, report, total

first, second, third = comm.Dup(), comm.Dup(), comm.Split(rank % 2, rank)
if rank == 1:
    first.Revoke()
phase()
attempt("revoked", first.Free)
if rank == 3:
    die()
phase()
attempt("dead", second.Free)
attempt("half", third.Free)
report("null", [one == MPI.COMM_NULL for one in (first, second, third)])
report("shrunk", total(comm.Shrink(), rank))
finish()
