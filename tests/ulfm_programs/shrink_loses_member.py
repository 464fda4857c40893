# number of ranks: 5
"""A rank dies while the others wait for it in MPI_Comm_shrink: they do not wait for ever, and no error is raised."""

from ft import attempt, comm, die, finish, phase, rank, report, total, world_ranks

if rank == 4:
    die()
new = attempt("shrink", comm.Shrink)
report("members", world_ranks(new.Get_group()))
report("sum", attempt("allreduce", total, new, rank))
phase()
finish()
