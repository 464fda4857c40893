# ranks: 2 3 4
"""Matched probe: the message that was seen is the message that is received."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

if rank > 0:
    comm.Send(np.full(rank, rank, dtype="i8"), dest=0, tag=1)
    comm.send({"rank": rank}, dest=0, tag=2)
    comm.Send(np.array([rank * 1.5]), dest=0, tag=3)
    comm.send([rank] * 3, dest=0, tag=4)
else:
    for source in range(1, size):
        status = MPI.Status()
        message = comm.Mprobe(source=source, tag=1, status=status)
        data = np.empty(status.Get_count(MPI.INT64_T), dtype="i8")
        message.Recv(data)
        print(f"rank {rank}: Mprobe {source}: {data.tolist()}, now null: {message == MPI.MESSAGE_NULL}")
    found = []
    for _ in range(1, size):
        message = comm.mprobe(source=MPI.ANY_SOURCE, tag=2)
        found.append(message.recv()["rank"])
    print(f"rank {rank}: mprobe {sorted(found)}")
    for source in range(1, size):
        while (message := comm.Improbe(source=source, tag=3)) is None:
            pass
        value = np.empty(1)
        message.Irecv(value).Wait()
        print(f"rank {rank}: Improbe {source}: {value[0]}")
    for source in range(1, size):
        while (message := comm.improbe(source=source, tag=4)) is None:
            pass
        print(f"rank {rank}: improbe {source}: {message.irecv().wait()}")
    print(f"rank {rank}: nothing left: {comm.Improbe() is None}")

message = comm.Mprobe(source=MPI.PROC_NULL)
status = MPI.Status()
print(f"rank {rank}: no process: {message == MPI.MESSAGE_NO_PROC}")
message.Recv(np.empty(1), status)
print(f"rank {rank}: source null: {status.source == MPI.PROC_NULL}")

# The class methods of Message do the same.
request = comm.Isend(np.array([rank]), dest=rank, tag=5)
message = MPI.Message.Probe(comm, source=rank, tag=5)
value = np.empty(1, dtype=int)
message.Recv(value)
request.Wait()
print(f"rank {rank}: Message.Probe {value[0]}, Iprobe {MPI.Message.Iprobe(comm, source=rank, tag=5)}")
