# ranks: 1 2 3 4
"""Sendrecv, Sendrecv_replace and their object form, with the null process at the ends."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size

box = np.empty(2)
status = MPI.Status()
comm.Sendrecv(np.array([rank, 0.5]), dest=right, sendtag=rank, recvbuf=box, source=left, recvtag=left, status=status)
print(f"rank {rank}: Sendrecv {box.tolist()} from {status.source} tag {status.tag}")

data = np.array([rank, rank * rank])
comm.Sendrecv_replace(data, dest=right, sendtag=1, source=left, recvtag=1)
print(f"rank {rank}: Sendrecv_replace {data.tolist()}")

print(f"rank {rank}: sendrecv {comm.sendrecv(('from', rank), dest=left, source=right)}")

# At the ends of a line the neighbour is the null process: sends vanish and receives leave the buffer alone.
before = rank - 1 if rank > 0 else MPI.PROC_NULL
after = rank + 1 if rank < size - 1 else MPI.PROC_NULL
box = np.array([-1])
comm.Sendrecv(np.array([rank]), dest=after, recvbuf=box, source=before, status=status)
print(f"rank {rank}: line {box[0]}, null {status.source == MPI.PROC_NULL}")
print(f"rank {rank}: object {comm.sendrecv(rank, dest=before, source=after)}")
comm.Send(np.array([1]), dest=MPI.PROC_NULL)
comm.Recv(box, source=MPI.PROC_NULL, status=status)
print(f"rank {rank}: count from null {status.Get_count(MPI.INT)}, tag any {status.tag == MPI.ANY_TAG}")
print(f"rank {rank}: object from null {comm.recv(source=MPI.PROC_NULL)}")

# The non-blocking forms of MPI 4.
request = comm.Isendrecv(np.array([10.0 * rank]), dest=right, recvbuf=(real := np.empty(1)), source=left)
request.Wait()
print(f"rank {rank}: Isendrecv {real[0]}")
real[0] = rank + 0.25
comm.Isendrecv_replace(real, dest=right, source=left).Wait()
print(f"rank {rank}: Isendrecv_replace {real[0]}")
