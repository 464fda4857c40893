# number of ranks: 4
"""MPI_Comm_iagree: the answer comes with the request's completion; unacknowledged failures raise then."""

from array import array

from ft import MPI, attempt, comm, die, finish, outcome, phase, rank, report

flag = array("i", [6 | rank])
request = comm.Iagree(flag)
request.Wait()
report("alive", flag[0])
two = array("i", [5]), array("i", [rank])
requests = [comm.Iagree(flag) for flag in two]
MPI.Request.Waitall(requests)
report("two", [flag[0] for flag in two])

if rank == 2:
    die()
phase()
flag = array("i", [4 | rank])
request = attempt("start", comm.Iagree, flag)
while (tested := outcome(request.Test)) == ("SUCCESS", False):
    pass
report("test", tested[0])
report("value", flag[0])
comm.Ack_failed()
flag = array("i", [8 | rank])
attempt("acked", comm.Iagree(flag).Wait)
report("acked.value", flag[0])
finish()
