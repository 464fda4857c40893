import numpy as np
import pytest
from mpi4py import MPI

comm, kept = MPI.COMM_WORLD, []


@pytest.fixture(scope="module")
def open_for_long():
    requests = [comm.Irecv(np.zeros(1), comm.rank, tag=2)]
    yield
    comm.Send(np.ones(1), comm.rank, tag=2)
    requests[0].Wait()


def test_leaves_a_message(open_for_long):
    if comm.rank == 0:
        comm.send(None, 1)


def test_leaves_a_request():
    comm.Irecv(np.zeros(1), comm.rank, tag=3)


def test_keeps_a_request():
    kept.append(comm.Irecv(np.zeros(1), comm.rank, tag=4))


def test_leaves_a_request_and_fails():
    comm.Irecv(np.zeros(1), comm.rank, tag=5)
    raise AssertionError


def test_stalls():
    comm.recv(tag=6)
