# number of ranks: 4
"""Revoking an intercommunicator: both groups learn of it; the groups' own communicators are not touched."""

from ft import attempt, comm, finish, phase, rank, report, total

side = rank // 2
half = comm.Split(side, rank)
inter = half.Create_intercomm(0, comm, 2 - 2 * side)
report("first", attempt("sendrecv", inter.sendrecv, rank, dest=half.rank, source=half.rank))
phase()
if rank == 1:
    inter.Revoke()
phase()
attempt("recv", inter.recv, source=0)
attempt("barrier", inter.Barrier)
report("revoked", inter.Is_revoked())
report("half", half.Is_revoked())
report("half.sum", total(half, rank))
finish()
