# ranks: 1 2 4
"""Cancelling receives that nothing matches."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size

box = np.full(3, -1)
request = comm.Irecv(box, source=left, tag=99)
request.Cancel()
status = MPI.Status()
request.Wait(status)
print(f"rank {rank}: cancelled {status.Is_cancelled()}, buffer {box.tolist()}, null {request == MPI.REQUEST_NULL}")

# A cancelled receive does not catch the message that comes later.
first = comm.Irecv(box, source=left, tag=1)
first.Cancel()
first.Wait(status)
comm.Barrier()  # before that, the message could have come in time
other = np.zeros(3, dtype=int)
second = comm.Irecv(other, source=left, tag=1)
comm.Send(np.arange(3) + rank, dest=right, tag=1)
second.Wait()
print(f"rank {rank}: first {status.cancelled} {box.tolist()}, second {other.tolist()}")

# A receive that is complete cannot be cancelled any more.
request = comm.Irecv(other, source=rank, tag=2)
comm.Send(np.array([7, 8, 9]), dest=rank, tag=2)
while not request.Get_status():
    pass
request.Cancel()
request.Wait(status)
print(f"rank {rank}: too late {status.cancelled} {other.tolist()}")

# Persistent receives can be cancelled and started again.
receive = comm.Recv_init(box, source=left, tag=3)
receive.Start()
receive.Cancel()
receive.Wait(status)
was_cancelled = status.cancelled
comm.Barrier()
receive.Start()
comm.Send(np.array([rank, rank, rank]), dest=right, tag=3)
receive.Wait(status)
print(f"rank {rank}: persistent {was_cancelled} then {status.cancelled} {box.tolist()}")
receive.Free()
