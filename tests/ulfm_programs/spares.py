# number of ranks: 6
"""Spare ranks take the place of the dead: the workers' numbers stay as they were."""

from ft import MPI, attempt, comm, die, finish, phase, rank, report, total

WORKERS = 4
workers = comm.Split(0 if rank < WORKERS else MPI.UNDEFINED, rank)
if rank == 1:
    die()
if workers != MPI.COMM_NULL:
    attempt("work", total, workers, 1)
    comm.Revoke()
else:
    attempt("idle", comm.recv, source=0)
new = attempt("shrink", comm.Shrink)
members = new.allgather(rank)
missing = [one for one in range(WORKERS) if one not in members]
spares = [one for one in members if one >= WORKERS]
place = rank if rank < WORKERS else missing[spares.index(rank)] if spares.index(rank) < len(missing) else None
workers = new.Split(MPI.UNDEFINED if place is None else 0, -1 if place is None else place)
report("place", place)
if workers != MPI.COMM_NULL:
    report("workers", f"{workers.rank} of {workers.size}: {workers.allgather(rank)}")
report("agree", attempt("agree.class", new.Agree, 1))
phase()
finish()
