# ranks: 2 3 4
"""Synchronous, ready and buffered sends, blocking and non-blocking."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size

# Ready: the receive must be posted before the send starts, so the receiver says when it is.
box = np.empty(4, dtype="f8")
request = comm.Irecv(box, source=left, tag=1)
comm.Barrier()
comm.Rsend(np.full(4, rank + 0.5), dest=right, tag=1)
request.Wait()
print(f"rank {rank}: ready {box.tolist()}")

# Synchronous: even ranks first, so that nobody waits for ever.
value = np.array([rank], dtype="i4")
got = np.array([-1], dtype="i4")
request = comm.Irecv(got, source=left, tag=2)
comm.Ssend(value, dest=right, tag=2)
request.Wait()
print(f"rank {rank}: synchronous {got[0]}")

# Buffered: returns at once, even though nobody receives yet.
space = bytearray(4096 + 2 * MPI.BSEND_OVERHEAD)
MPI.Attach_buffer(space)
comm.Bsend(np.arange(3) + 10 * rank, dest=right, tag=3)
comm.bsend({"from": rank}, dest=right, tag=4)
numbers = np.empty(3, dtype=int)
comm.Recv(numbers, source=left, tag=3)
print(f"rank {rank}: buffered {numbers.tolist()} {comm.recv(source=left, tag=4)}")
MPI.Detach_buffer()

# The non-blocking forms, and the object forms.
requests = [comm.Issend(value, dest=right, tag=5), comm.issend(("s", rank), dest=right, tag=6)]
comm.Recv(got, source=left, tag=5)
print(f"rank {rank}: Issend {got[0]}, issend {comm.recv(source=left, tag=6)}")
MPI.Request.Waitall(requests)

MPI.Attach_buffer(space)
requests = [comm.Ibsend(value, dest=right, tag=7), comm.ibsend([rank] * 2, dest=right, tag=8)]
comm.Recv(got, source=left, tag=7)
print(f"rank {rank}: Ibsend {got[0]}, ibsend {comm.recv(source=left, tag=8)}")
MPI.Request.Waitall(requests)
MPI.Detach_buffer()

request = comm.Irecv(box, source=left, tag=9)
comm.Barrier()
comm.Irsend(np.full(4, float(rank)), dest=right, tag=9).Wait()
request.Wait()
print(f"rank {rank}: Irsend {box.tolist()}")

request = comm.issend("ssend" * rank, dest=right, tag=10)
print(f"rank {rank}: text {comm.recv(source=left, tag=10)!r}")
request.wait()
if rank % 2 == 0 and rank + 1 < size:
    comm.ssend((rank, "even"), dest=rank + 1, tag=11)
elif rank % 2 == 1:
    print(f"rank {rank}: ssend {comm.recv(source=rank - 1, tag=11)}")
