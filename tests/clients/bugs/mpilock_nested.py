"""Within one write with a handle of mpilock, a function makes another one of the same lock."""

from mpi4py import MPI
from mpilock import sync

with sync(MPI.COMM_WORLD, pump=False) as lock, lock.single_write(handle=True), lock.single_write(handle=True):
    pass
print("done", MPI.COMM_WORLD.rank)
