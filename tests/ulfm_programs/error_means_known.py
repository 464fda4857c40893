# number of ranks: 5
"""Whoever got an error because of a failure finds the failed rank in MPI_Comm_get_failed at once."""

from ft import MPI, attempt, comm, die, failed, finish, phase, rank, report

if rank == 2:
    die()
if rank == 0:
    attempt("recv", comm.recv, source=2)
elif rank == 1:
    attempt("wildcard", comm.Recv, bytearray(1), source=MPI.ANY_SOURCE)
elif rank == 3:
    attempt("ssend", comm.ssend, None, dest=2)
else:
    attempt("collective", comm.Ibarrier().Wait)
report("failed", failed())
phase()
attempt("agree", comm.Agree, 1)
report("agree.failed", failed())
finish()
