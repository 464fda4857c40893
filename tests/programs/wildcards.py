# ranks: 2 3 5
"""Receiving from anybody with any tag; the order is free, what is printed does not depend on it."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

if rank == 0:
    seen: dict[int, list[int]] = {source: [] for source in range(1, size)}
    for _ in range(3 * (size - 1)):
        value = np.empty(1, dtype="i8")
        status = MPI.Status()
        comm.Recv(value, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
        seen[status.Get_source()].append(int(value[0]) * 100 + status.Get_tag())
    # Among the messages of one sender the order is fixed.
    for source, values in seen.items():
        print(f"rank {rank}: from {source} {values}")
else:
    for number in range(3):
        comm.Send(np.array([rank * 10 + number], dtype="i8"), dest=0, tag=number)
comm.Barrier()

# Any source but one tag, and one source but any tag.
if rank == 0:
    names = sorted(comm.recv(tag=42) for _ in range(1, size))
    print(f"rank {rank}: {names}")
    for source in range(1, size):
        status = MPI.Status()
        print(f"rank {rank}: {comm.recv(source=source, status=status)} tag {status.tag}")
else:
    comm.send(f"early {rank}", dest=0, tag=rank)
    comm.send(f"late {rank}", dest=0, tag=42)

# Wildcard receives that were posted first.
comm.Barrier()
if rank == 0:
    requests = [comm.irecv() for _ in range(1, size)]
    comm.Barrier()
    print(f"rank {rank}: sum {sum(MPI.Request.waitall(requests))}")
else:
    comm.Barrier()
    comm.send(2**rank, dest=0, tag=rank)
