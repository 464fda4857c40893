import pytest
from mpi4py import MPI


@pytest.mark.parallel
def test_parallel():
    assert MPI.COMM_WORLD.size == 3


@pytest.mark.parallel(nprocs=4)
def test_parallel_on_four():
    assert MPI.COMM_WORLD.size == 4


@pytest.mark.parallel([1, 2])
def test_parallel_on_several():
    assert MPI.COMM_WORLD.size in (1, 2)


@pytest.mark.mpi(ranks=[2, 4], timeout=60)
def test_isolated(mpi_ranks, comm, mpi_tmp_path):
    assert comm.size == mpi_ranks
    assert comm.bcast(mpi_tmp_path) == mpi_tmp_path


@pytest.mark.mpi(min_size=3)
def test_at_least(mpi_tmpdir, mpi_file_name):
    assert MPI.COMM_WORLD.size == 5
    assert mpi_file_name.endswith(".hdf5")


@pytest.mark.mpi(min_size=6)
def test_too_few():
    raise AssertionError


@pytest.mark.mpi
def test_any():
    assert MPI.COMM_WORLD.size == 5


@pytest.mark.mpi(ranks=2, timeout=0.2)
def test_isolated_for_too_long(comm):
    while comm.rank >= 0:
        pass


@pytest.mark.mpi
@pytest.mark.mpi_xfail
def test_mpi_xfail():
    assert MPI.COMM_WORLD.size == 1


@pytest.mark.mpi_xfail
def test_mpi_xfail_alone():
    assert MPI.COMM_WORLD.size == 1


@pytest.mark.mpi_skip
def test_mpi_skip():
    assert MPI.COMM_WORLD.size == 1


@pytest.mark.mpi_break
def test_mpi_break():
    assert MPI.COMM_WORLD.size == 1


def test_without_a_mark():
    assert MPI.COMM_WORLD.size in (1, 4)
