# ranks: 1 2 3 4
"""Isend and Irecv among all pairs, completed in several ways."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

# Everybody to everybody, itself too.
outgoing = [np.full(3, 100 * rank + peer) for peer in range(size)]
incoming = np.zeros((size, 3), dtype=int)
requests = [comm.Irecv(incoming[peer], source=peer, tag=7) for peer in range(size)]
requests += [comm.Isend(outgoing[peer], dest=peer, tag=7) for peer in range(size)]
statuses = [MPI.Status() for _ in requests]
MPI.Request.Waitall(requests, statuses)
print(f"rank {rank}: incoming {incoming[:, 0].tolist()}")
print(f"rank {rank}: sources {[status.Get_source() for status in statuses[:size]]}")
print(f"rank {rank}: requests are null {[request == MPI.REQUEST_NULL for request in requests]}")

# Objects.
requests = [comm.isend({"to": peer, "from": rank}, dest=peer, tag=8) for peer in range(size)]
received = [comm.irecv(source=peer, tag=8).wait() for peer in range(size)]
print(f"rank {rank}: objects {[(one['to'], one['from']) for one in received]}")
print(f"rank {rank}: sends give {MPI.Request.waitall(requests)}")

# Wait on a null request returns at once with an empty status.
status = MPI.Status()
null = MPI.Request()
print(f"rank {rank}: null {null.Wait(status)} {null.Test()} source any {status.source == MPI.ANY_SOURCE}")
print(f"rank {rank}: null tag any {status.tag == MPI.ANY_TAG} count {status.Get_count()}")

# The sender may change its buffer after Wait, and the receiver keeps the old value.
if size > 1:
    if rank == 0:
        data = np.arange(5)
        request = comm.Isend(data, dest=1, tag=9)
        request.Wait()
        data[:] = -1
        comm.Barrier()
    else:
        comm.Barrier()
        if rank == 1:
            data = np.empty(5, dtype=int)
            comm.Recv(data, source=0, tag=9)
            print(f"rank {rank}: unchanged {data.tolist()}")
