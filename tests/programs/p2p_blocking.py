# ranks: 1 2 4 5
"""Blocking Send and Recv along a chain, with buffers and with objects."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
print(f"rank {rank}: of {size}")

# The number grows along the chain.
value = np.zeros(1, dtype="i8")
if rank > 0:
    comm.Recv(value, source=rank - 1, tag=5)
value += rank
if rank < size - 1:
    comm.Send(value, dest=rank + 1, tag=5)
print(f"rank {rank}: sum so far {value[0]}")

# The object travels back.
trail = []
if rank < size - 1:
    trail = comm.recv(source=rank + 1, tag=6)
trail.append(rank)
if rank > 0:
    comm.send(trail, dest=rank - 1, tag=6)
print(f"rank {rank}: trail {trail}")

# Messages of one pair with one tag do not overtake each other; tags are matched out of order.
if size > 1:
    if rank == 0:
        for number in range(6):
            comm.send(number, dest=size - 1, tag=number % 2)
    elif rank == size - 1:
        odd = [comm.recv(source=0, tag=1) for _ in range(3)]
        even = [comm.recv(source=0, tag=0) for _ in range(3)]
        print(f"rank {rank}: odd {odd} even {even}")
