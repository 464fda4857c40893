# number of ranks: 5
"""MPI_Comm_agree on an intercommunicator: each group gets the AND of what the other one gave."""

from ft import attempt, comm, finish, phase, rank, report

side = rank % 2
half = comm.Split(side, rank)
inter = half.Create_intercomm(0, comm, 1 - side)
phase()  # no message follows on it: Open MPI's agreement leaves an intercommunicator unfit for them
report("agree", attempt("agree.class", inter.Agree, (0b1100, 0b1010)[side] | rank << 4))
report("again", inter.Agree(1 << side | 4))
finish()
