# ranks: 1 2 3 5
"""A wave on a string: one-dimensional stencil with persistent halo exchange, exact in integers."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
POINTS, STEPS = 30, 25

first, last = POINTS * rank // size, POINTS * (rank + 1) // size
left = rank - 1 if rank > 0 else MPI.PROC_NULL
right = rank + 1 if rank < size - 1 else MPI.PROC_NULL

field = np.zeros(last - first + 2, dtype="i8")
old = np.zeros_like(field)
field[1:-1] = [max(0, 10 - abs(place - 7)) for place in range(first, last)]
old[:] = field

halo = [
    comm.Recv_init(field[:1], source=left, tag=1),
    comm.Recv_init(field[-1:], source=right, tag=2),
    comm.Send_init(field[-2:-1], dest=right, tag=1),
    comm.Send_init(field[1:2], dest=left, tag=2),
]
for _ in range(STEPS):
    MPI.Prequest.Startall(halo)
    MPI.Request.Waitall(halo)
    new = field[:-2] + field[2:] - old[1:-1]  # with the time step at the limit the scheme is exact
    old[:] = field
    field[1:-1] = new
for request in halo:
    request.Free()
print(f"rank {rank}: {field[1:-1].tolist()}")
total = np.zeros(1, dtype="i8")
comm.Allreduce(field[1:-1].sum(keepdims=True), total)
print(f"rank {rank}: sum {total[0]}")


def reference() -> list[int]:
    """Return the same on one process."""
    now = [0, *(max(0, 10 - abs(place - 7)) for place in range(POINTS)), 0]
    before = list(now)
    for _ in range(STEPS):
        after = [0, *(now[i - 1] + now[i + 1] - before[i] for i in range(1, POINTS + 1)), 0]
        before, now = now, after
    return now[1:-1]


print(f"rank {rank}: right {reference()[first:last] == field[1:-1].tolist()}")
