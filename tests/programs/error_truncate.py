# ranks: 2 4
"""A message longer than the receive buffer is an error of the receiver."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
names = {getattr(MPI, name): name for name in dir(MPI) if name.startswith("ERR_")}
peer = rank ^ 1

for length in (10, 100_000):
    data, box = np.arange(length), np.zeros(4, dtype=int)
    if rank % 2 == 0:
        comm.Send(data, dest=peer)
        comm.recv(source=peer)
    else:
        try:
            comm.Recv(box, source=peer)
        except MPI.Exception as error:
            print(f"rank {rank}: {length} Recv {names[error.Get_error_class()]}")
        comm.send(None, dest=peer)

# The same for a non-blocking receive: Wait raises.
request = comm.Isend(np.arange(8), dest=peer, tag=1)
box = np.zeros(3, dtype=int)
receive = comm.Irecv(box, source=peer, tag=1)
try:
    receive.Wait()
except MPI.Exception as error:
    print(f"rank {rank}: Wait {names[error.Get_error_class()]}")
request.Wait()

# Waitall says which one failed in the statuses.
requests = [comm.Irecv(box, source=peer, tag=2), comm.Irecv(np.zeros(8, dtype=int), source=peer, tag=3)]
sends = [comm.Isend(np.arange(8), dest=peer, tag=tag) for tag in (2, 3)]
statuses = [MPI.Status(), MPI.Status()]
try:
    MPI.Request.Waitall(requests, statuses)
except MPI.Exception as error:
    print(f"rank {rank}: Waitall {names[error.Get_error_class()]}")
    print(f"rank {rank}: first {names[MPI.Get_error_class(statuses[0].error)]}")
requests[1].Wait()  # it may have been pending
MPI.Request.Waitall(sends)

# Afterwards all is well.
print(f"rank {rank}: {comm.sendrecv(rank, dest=peer, source=peer)} {comm.allreduce(1)}")
