# number of ranks: 4
# quirk: 1,2,3 wait INTERN is SUCCESS -- Open MPI's MPI_Comm_ishrink does not survive a failure
# rule: 1 shrunk 0 of 3, sum 6 -- the same
# rule: 2 shrunk 1 of 3, sum 6 -- the same
# rule: 3 shrunk 2 of 3, sum 6 -- the same
"""MPI_Comm_ishrink: the new communicator can be used when the request is complete."""

from ft import MPI, attempt, comm, die, finish, phase, rank, report, total

new, request = comm.Ishrink()
request.Wait()
report("alive", f"{new.rank} of {new.size}, sum {total(new, rank)}")
if rank == 0:
    die()
phase()
new, request = attempt("start", comm.Ishrink)
if attempt("wait", request.Wait):
    report("shrunk", f"{new.rank} of {new.size}, sum {total(new, rank)}")
report("null", request == MPI.REQUEST_NULL)
finish()
