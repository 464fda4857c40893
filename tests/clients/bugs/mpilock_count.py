"""Ranks read and write in turns, under a lock of mpilock."""

from mpi4py import MPI
from mpilock import sync

with sync(MPI.COMM_WORLD, pump=False) as lock:
    for _ in range(3):
        with lock.read():
            pass
        with lock.write():
            pass
