import numpy as np
import pytest
from mpi4py import MPI

comm = MPI.COMM_WORLD


def mistakes():
    comm.Sendrecv(np.ones(2), comm.rank, recvbuf=np.zeros(2, "i8"), source=comm.rank)


@pytest.mark.xfail
def test_expected_to_fail():
    mistakes()
    raise AssertionError


def test_mistaken():
    mistakes()


def test_later():
    pass
