import numpy as np
import pytest
from mpi4py import MPI

comm = MPI.COMM_WORLD
of_no_test = comm.Dup()


@pytest.fixture(scope="session")
def freed_at_the_end():
    made = comm.Dup()
    yield made
    made.Free()


def test_right(freed_at_the_end):
    freed_at_the_end.Dup().Free()


@pytest.mark.parametrize("tag", [1, 2])
def test_leaves_a_message(tag):
    if comm.rank == 0:
        comm.send(None, 1, tag)


def test_mistakes_and_fails():
    if comm.rank == 0:
        comm.Send(np.ones(2), 1, tag=3)
    else:
        comm.Recv(np.zeros(2, "i8"), 0, tag=3)
    assert comm.rank == 2


def test_fails_midway():
    other = comm.Dup()
    receive = other.Irecv(np.zeros(2), 1 - comm.rank)
    send = other.Isend(np.ones(2), 1 - comm.rank)
    assert comm.rank == 1
    MPI.Request.Waitall([receive, send])


def test_skips_midway():
    comm.Dup()
    pytest.skip("too late")


@pytest.mark.xfail
def test_expected_to_fail():
    comm.Dup()
    raise AssertionError


def test_last():
    comm.Dup().Free()
