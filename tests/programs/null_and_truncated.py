# ranks: 2 4
"""Buffers that nobody looks at because the peer is PROC_NULL, and messages longer than what receives them."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, other = comm.rank, comm.rank ^ 1
null = MPI.PROC_NULL


def outcome(call):
    try:
        return call()
    except MPI.Exception as error:
        return {MPI.ERR_TRUNCATE: "ERR_TRUNCATE"}.get(error.Get_error_class(), "another error")


print(f"rank {rank}: null receive", outcome(lambda: comm.Recv(None, null)))
print(f"rank {rank}: null exchange", outcome(lambda: comm.Sendrecv(np.zeros(1), null, 0, None, null)))
print(f"rank {rank}: null probe", outcome(lambda: comm.Mprobe(null).Recv(None)))
print(f"rank {rank}: null send of no buffer", outcome(lambda: comm.Send("abc", null)))
print(f"rank {rank}: null request", outcome(lambda: comm.Irecv(None, null).wait()))

open_boundary = np.full(1, -1.0)
comm.Sendrecv(
    np.full(1, rank + 0.5),
    other if rank % 2 == 0 else null,
    0,
    open_boundary if rank % 2 else None,
    other if rank % 2 else null,
)
print(f"rank {rank}: halo {open_boundary[0]}")

request = comm.irecv(source=other)
comm.send(list(range(20_000)), other)
print(f"rank {rank}: a large object for irecv", outcome(request.wait))
comm.Send(b"", other, 2)
print(f"rank {rank}: an empty message is", outcome(lambda: comm.recv(None, other, 2)))

numbers, status = np.zeros(4, "i"), MPI.Status()
comm.Send(np.arange(10, dtype="i"), other, 3)
print(f"rank {rank}: truncated", outcome(lambda: comm.Recv(numbers, other, 3, status)), numbers, status.Get_count())
comm.Send(np.arange(10, dtype="i"), other, 3)
column = MPI.INT.Create_vector(2, 1, 2).Commit()
numbers[:] = 0
print(f"rank {rank}: truncated column", outcome(lambda: comm.Recv([numbers, 1, column], other, 3)), numbers)
