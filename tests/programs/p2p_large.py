# ranks: 2 4
"""Messages on both sides of every rendezvous threshold, both ways at once."""

import zlib

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.rank
peer = rank ^ 1

for size_bytes in (0, 1, 1000, 8192, 65535, 65536, 131072, 131073, 1 << 20):
    data = np.random.default_rng([size_bytes, rank]).integers(0, 256, size_bytes).astype(np.uint8)
    box = np.empty_like(data)
    send, receive = comm.Isend(data, dest=peer), comm.Irecv(box, source=peer)
    status = MPI.Status()
    receive.Wait(status)
    send.Wait()
    print(f"rank {rank}: {size_bytes} bytes, count {status.Get_count()}, crc {zlib.crc32(box):08x}")

# A large object one way, and a large receive buffer for a short message.
if rank % 2 == 0:
    comm.send(list(range(100_000)), dest=peer)
    comm.Send(np.arange(10.0), dest=peer)
else:
    print(f"rank {rank}: object sum {sum(comm.recv(source=peer))}")
    box = np.full(100_000, -1.0)
    comm.Recv(box, source=peer)
    print(f"rank {rank}: short message {box[:12].tolist()}")
