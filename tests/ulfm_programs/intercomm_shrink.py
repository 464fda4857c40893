# number of ranks: 6
# only here: the real MPI of the records hangs in MPI_Comm_shrink of an intercommunicator, or raises ERR_INTERN
# rule: 0,1,2,4,5 shrink SUCCESS -- it never raises PROC_FAILED
# rule: 0 new 0 of 3 and 2 -- both groups without their dead, in order
# rule: 2 new 1 of 3 and 2 -- the same
# rule: 4 new 2 of 3 and 2 -- the same
# rule: 1 new 0 of 2 and 3 -- the same
# rule: 5 new 1 of 2 and 3 -- the same
# rule: 0,2,4 sum 2 -- a collective operation of an intercommunicator combines what the other group gave
# rule: 1,5 sum 3 -- the same
# rule: 0,2,4 after 11 -- and an agreement as well
# rule: 1,5 after 13 -- the same
"""Shrinking an intercommunicator: both groups lose their dead."""

from ft import attempt, comm, die, finish, phase, rank, report, total

side = rank % 2
half = comm.Split(side, rank)
inter = half.Create_intercomm(0, comm, 1 - side)
if rank == 3:
    die()
phase()
new = attempt("shrink", inter.Shrink)
report("new", f"{new.rank} of {new.size} and {new.remote_size}")
report("sum", total(new, 1))
report("after", new.Agree((0b1100, 0b1010)[side] | 1))
finish()
