import pytest
from mpi4py import MPI

comm = MPI.COMM_WORLD


@pytest.mark.ranks(2)
@pytest.mark.timeout(1.5)  # the ranks have begun by then, on a busy machine, too
def test_computes_for_ever(comm):
    while comm:
        pass


@pytest.mark.ranks(2)
@pytest.mark.timeout(0.3)
def test_polls_for_ever(comm):
    while not comm.iprobe():
        pass


@pytest.mark.ranks(2)
@pytest.mark.timeout(100)
def test_in_time(comm):
    comm.barrier()
