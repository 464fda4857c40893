"""The twin of sockets.c."""

import os
import select
import socket

import numpy as np
from mpi4py import MPI

SIZE = 3_000_000
comm = MPI.COMM_WORLD
me, size = comm.rank, comm.size
mine, before = np.full(1, me, "i"), np.empty(1, "i")


def serve() -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("socket")
    listening.listen(size)
    comm.Barrier()
    for _ in range(1, size):
        poll = select.poll()
        poll.register(listening, select.POLLIN)
        poll.poll()
        file, _ = listening.accept()
        data = bytearray(SIZE)
        got = file.recv_into(data, 1)
        print(f"from {data[0]}, {got} byte")
        file.sendall(data)
        file.close()
    listening.close()
    os.unlink("socket")


if me == 0:
    serve()
else:
    file = socket.socket(socket.AF_UNIX)
    comm.Barrier()
    if me > 1:
        comm.Recv(before, me - 1)
    file.connect("socket")
    file.send(bytes([me]))
    data, total = bytearray(SIZE), 0
    while got := file.recv_into(data):
        total += got
    file.close()
    print(f"{me}: {total} bytes")
    if me < size - 1:
        comm.Send(mine, me + 1)
