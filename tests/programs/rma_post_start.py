# ranks: 2 3 4
"""General active target synchronisation: a ring of neighbours, and one rank that serves all others."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size

win = MPI.Win.Allocate(8 * 4, 8, comm=comm)
memory = np.frombuffer(win.tomemory(), "f8")
memory[:] = -1
group = win.Get_group()
before, after = group.Incl([left]), group.Incl([right])
for number in range(3):
    win.Post(before)
    win.Start(after)
    win.Put(np.array([10.0 * rank + number]), right, number)
    win.Complete()
    win.Wait()
    print(f"rank {rank}: round {number} {memory.tolist()}")

# MPICH 5.0 counts the posts that have come, whoever sent them: it would take rank 0's next one, which is for all, for
# that of a neighbour that has not yet opened its window for the third round, and write into it too early.
comm.Barrier()
others = group.Excl([0])
first = group.Incl([0])
if rank == 0:
    win.Post(others)
    while not win.Test():
        pass
    print(f"rank {rank}: served {sorted(memory[: size - 1].tolist())} of {size - 1}")
else:
    win.Start(first)
    win.Put(np.array([100.0 + rank]), 0, rank - 1)
    win.Complete()

# Nothing to wait for with a group of nobody.
win.Post(MPI.GROUP_EMPTY)
win.Start(MPI.GROUP_EMPTY)
win.Complete()
print(f"rank {rank}: {win.Wait()}")
for found in (group, before, after, others, first):
    found.Free()
win.Free()
