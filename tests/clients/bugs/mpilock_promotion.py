"""A lock of mpilock is taken to read, and within that to write by one rank, which its source means to allow."""

from mpi4py import MPI
from mpilock import sync

comm = MPI.COMM_WORLD
with sync(comm, pump=False) as lock:
    with lock.read(), lock.single_write() as fence:
        fence.guard()
        print("written by", comm.rank)
    print("done", comm.rank)
