"""Every rank has globals and functions of its own, and waits for the one before it."""

from mpi4py import MPI

STEPS = [1, 2]


def wait_for(comm, source):
    return comm.recv(source=source)


def main():
    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    token = wait_for(comm, rank - 1) if rank > 0 else 0
    token += STEPS[rank % 2]
    if rank < size - 1:
        comm.send(token, rank + 1)
    else:
        assert token == (size + 1) // 2 + 2 * (size // 2)


main()
