import numpy as np
import pytest
from mpi4py import MPI


@pytest.fixture(scope="module")
def data():
    return np.arange(10.0)


@pytest.mark.ranks(4)
@pytest.mark.parametrize("number", range(25))
def test_it(comm, data, number, tmp_path, monkeypatch):
    assert comm.allreduce(data[0] + 1) == MPI.COMM_WORLD.size
