# ranks: 1 2 4
"""Persistent requests: set up once, started many times."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size

outgoing, incoming = np.zeros(2, dtype="i4"), np.zeros(2, dtype="i4")
send = comm.Send_init(outgoing, dest=right, tag=1)
receive = comm.Recv_init(incoming, source=left, tag=1)
print(f"rank {rank}: inactive requests are complete: {send.Test()} {receive.Test()}")
history = []
for number in range(4):
    outgoing[:] = (rank, number)
    MPI.Prequest.Startall([receive, send])
    MPI.Request.Waitall([receive, send])
    history.append(incoming.tolist())
print(f"rank {rank}: history {history}")
print(f"rank {rank}: still not null: {send != MPI.REQUEST_NULL} {receive != MPI.REQUEST_NULL}")
send.Free()
receive.Free()
print(f"rank {rank}: freed: {send == MPI.REQUEST_NULL} {receive == MPI.REQUEST_NULL}")

# The other modes.  A ready send may only start when the receive is up.
space = bytearray(4096 + MPI.BSEND_OVERHEAD)
MPI.Attach_buffer(space)
for name, make in (("S", comm.Ssend_init), ("B", comm.Bsend_init), ("R", comm.Rsend_init)):
    receive = comm.Recv_init(incoming, source=left, tag=2)
    send = make(outgoing, dest=right, tag=2)
    for number in range(2):
        outgoing[:] = (10 * rank, number)
        receive.Start()
        comm.Barrier()
        send.Start()
        status = MPI.Status()
        receive.Wait(status)
        send.Wait()
        print(f"rank {rank}: {name}send_init {incoming.tolist()} from {status.source} tag {status.tag}")
    send.Free()
    receive.Free()
MPI.Detach_buffer()
