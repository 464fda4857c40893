import unittest

import library
import pytest
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.Get_rank()


@pytest.fixture(scope="session")
def copy_of_world():
    made = comm.Dup()
    yield made
    made.Free()


@pytest.mark.mpi
def test_fixture_of_session(copy_of_world):
    assert copy_of_world.allreduce(1) == comm.size == library.world_size()


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("k", [1, 2])
def test_parameters(k, mpi_tmp_path, tmp_path, monkeypatch):
    monkeypatch.setattr(library, "VALUE", rank)
    common = comm.bcast(str(mpi_tmp_path))
    assert common == str(mpi_tmp_path)
    assert (tmp_path == mpi_tmp_path) == (rank == 0)
    assert rank == library.VALUE


@pytest.mark.mpi(min_size=20)
def test_needs_more():
    raise AssertionError


@pytest.mark.mpi_skip
def test_not_under_mpi():
    raise AssertionError


@pytest.mark.mpi_xfail
def test_fails_under_mpi():
    raise AssertionError


@pytest.mark.ranks(7)
def test_for_seven():
    raise AssertionError


def test_some_skip():
    if rank:
        pytest.skip("not here")


def test_captures(capfd):
    print("said by", rank)
    comm.barrier()
    assert capfd.readouterr().out == f"said by {rank}\n"


class TestUnit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.total = comm.allreduce(rank)

    def test_total(self):
        self.assertEqual(self.total, sum(range(comm.size)))
