# ranks: 2 3 4
"""Hundreds of messages in flight, with many tags, received in the opposite order."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
COUNT = 200
left, right = (rank - 1) % size, (rank + 1) % size

values = np.arange(COUNT, dtype="i8") * (rank + 1)
boxes = np.zeros(COUNT, dtype="i8")
sends = [comm.Isend(values[number : number + 1], dest=right, tag=number) for number in range(COUNT)]
receives = [comm.Irecv(boxes[number : number + 1], source=left, tag=number) for number in reversed(range(COUNT))]
MPI.Request.Waitall(receives + sends)
print(f"rank {rank}: right {np.array_equal(boxes, np.arange(COUNT) * (left + 1))}, sum {boxes.sum()}")

# One tag, so the order is the order of sending.
sends = [comm.isend(number, dest=right, tag=1) for number in range(COUNT)]
order = [comm.recv(source=left, tag=MPI.ANY_TAG) for _ in range(COUNT)]
MPI.Request.waitall(sends)
print(f"rank {rank}: in order {order == list(range(COUNT))}")

# Short and long messages of one pair keep their order, although they travel by different protocols.
lengths = [1, 40_000, 2, 30_000, 3]
sends = [comm.Isend(np.full(length, number), dest=right, tag=2) for number, length in enumerate(lengths)]
got = []
for _ in lengths:
    status = MPI.Status()
    comm.Probe(source=left, tag=2, status=status)
    box = np.zeros(status.Get_count(MPI.LONG), dtype="i8")
    comm.Recv(box, source=left, tag=2)
    got.append((len(box), int(box[0])))
MPI.Request.Waitall(sends)
print(f"rank {rank}: {got}")

# Everyone to rank 0 at once.
if rank == 0:
    sums = dict.fromkeys(range(1, size), 0)
    for _ in range(50 * (size - 1)):
        source, number = comm.recv(tag=3)
        sums[source] += number
    print(f"rank {rank}: {sums}")
else:
    for number in range(50):
        comm.send((rank, number), dest=0, tag=3)
