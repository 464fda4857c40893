"""Ten rounds of a small object to the next rank, lower case."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
thing = {"from": rank, "value": 1.5}
for _ in range(10):
    thing = comm.sendrecv(thing, (rank + 1) % size, 0, None, (rank - 1) % size, 0)
assert thing == {"from": (rank - 10) % size, "value": 1.5}
