"""The code under test: what is in it is each rank's own."""

from mpi4py import MPI

VALUE = 7
seen = []


class Grid:
    def __init__(self, size):
        self.size = size


def total(comm):
    return comm.allreduce(comm.rank)


def world_size():
    return MPI.COMM_WORLD.size
