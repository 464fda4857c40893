"""A pool whose callback fails on the master, while workers hand in their results by synchronous sends."""

import sys

from mpi4py import MPI
from schwimmbad import MPIPool


def square(number):
    return number * number


def refuse(result):
    raise ValueError(result)


with MPIPool() as pool:
    try:
        pool.map(square, range(6), callback=refuse)
    except ValueError:
        print("the master goes on", MPI.COMM_WORLD.size)
        sys.exit(0)
