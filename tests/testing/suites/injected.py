"""Programs in which one rank raises at a drawn place, while the others go on, wait, or poll for it."""

import os
import random

import pytest
from mpi4py import MPI

STEPS = 8
COUNT, FIRST = int(os.environ["INJECTED"]), int(os.environ["INJECTED_FROM"])
RANKS = 4


class Injected(Exception):
    """What was injected."""


def drawn(number):
    """Who raises, before which step; None: nobody."""
    draw = random.Random(number)
    return (draw.randrange(RANKS), draw.randrange(STEPS)) if draw.random() < 0.9 else None


def step(comm, kind, number):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    if kind == 0:
        comm.barrier()
    elif kind == 1:
        assert comm.sendrecv(number, right, source=left) == number
    elif kind == 2:
        assert comm.allreduce(number) == comm.size * number
    elif kind == 3:
        comm.isend(number, right, tag=number % 5).wait()
        comm.recv(source=MPI.ANY_SOURCE, tag=number % 5)
    elif kind == 4:
        request = comm.issend(number, right)
        while not comm.iprobe(source=left):
            pass
        assert comm.recv(source=left) == number
        request.wait()
    elif kind == 5:
        comm.bcast(number, root=number % comm.size)
    elif kind == 6:
        comm.Split(comm.rank % 2).barrier()
    else:
        comm.ibarrier().wait() if hasattr(comm, "ibarrier") else comm.Ibarrier().Wait()


@pytest.fixture
def ends(comm):
    yield
    comm.barrier()


@pytest.mark.ranks(RANKS)
@pytest.mark.parametrize("number", range(FIRST, FIRST + COUNT))
def test_it(comm, number, ends):
    kinds = random.Random(-number - 1)
    for place in range(STEPS):
        if drawn(number) == (comm.rank, place):
            raise Injected(f"{number}: rank {comm.rank} before step {place}")
        step(comm, kinds.randrange(8), number)
