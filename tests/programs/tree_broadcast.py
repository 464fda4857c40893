# ranks: 1 2 3 4 5
"""Broadcast and reduction along a binomial tree, written by hand with messages."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size


def tree_broadcast(value: object, root: int) -> tuple[object, int]:
    """Return the root's value and how many hops it took to this rank."""
    relative = (rank - root) % size
    hops = 0
    mask = 1
    while mask < size:
        if relative & mask:
            value, hops = comm.recv(source=(relative - mask + root) % size, tag=root)
            hops += 1
            break
        mask *= 2
    mask //= 2
    while mask:
        if relative + mask < size:
            comm.send((value, hops), dest=(relative + mask + root) % size, tag=root)
        mask //= 2
    return value, hops


def tree_sum(values: np.ndarray) -> np.ndarray | None:
    """Return the sum over all ranks on rank 0."""
    total = values.copy()
    incoming = np.empty_like(total)
    mask = 1
    while mask < size:
        if rank & mask:
            comm.Send(total, dest=rank - mask)
            return None
        if rank + mask < size:
            comm.Recv(incoming, source=rank + mask)
            total += incoming
        mask *= 2
    return total


for root in range(size):
    value, hops = tree_broadcast(f"from {root}" if rank == root else None, root)
    print(f"rank {rank}: {value!r} after {hops} hops")
total = tree_sum(np.array([rank, rank**2, 1]))
print(f"rank {rank}: sum {None if total is None else total.tolist()}")
