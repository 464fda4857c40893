# number of ranks: 6
"""Checkpoints in a neighbour's memory: a rank's data outlive it, and the survivors share its work."""

from ft import MPI, attempt, comm, die, finish, phase, rank, report, size, total

data = {rank: [rank * 10 + i for i in range(3)]}
right, left = (rank + 1) % size, (rank - 1) % size
mine = (rank, data[rank])
kept = dict([comm.sendrecv(mine, dest=right, source=left)])
if rank == 2:
    die()
while True:
    try:
        total(comm, sum(data[rank]))
        failed = False
    except MPI.Exception:
        failed = True
        comm.Revoke()
    if failed:
        break
new = attempt("shrink", comm.Shrink)
survivors = new.allgather(rank)
lost = [one for one in range(size) if one not in survivors]
report("lost", lost)
data |= {one: values for one, values in kept.items() if one in lost}
report("data", sorted(data))
report("total", total(new, sum(sum(values) for values in data.values())))
phase()
finish()
