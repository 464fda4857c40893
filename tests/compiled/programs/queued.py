"""The twin of queued.c."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def largest(given: MPI.buffer, result: MPI.buffer, datatype: MPI.Datatype) -> None:
    here = np.frombuffer(result, "i")
    np.maximum(np.frombuffer(given, "i"), here, out=here)


mine, found, got = (np.full(1, value, "i") for value in (comm.rank, -1, -1))
op = MPI.Op.Create(largest, commute=True)
request = comm.Iallreduce(mine, found, op)
for i in range(400):
    request.Test()
    comm.Isend(np.full(1, i, "i"), (comm.rank + 1) % comm.size).Free()
for _ in range(400):
    comm.Recv(got, (comm.rank - 1) % comm.size)
request.Wait()
print(f"{comm.rank}: {found[0]} {got[0]}")
