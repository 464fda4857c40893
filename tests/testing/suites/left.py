import pytest

TIMES = range(30)


@pytest.mark.parametrize("time", TIMES)
def test_without_ranks(time):
    assert time < 0


@pytest.mark.ranks(4)
@pytest.mark.parametrize("time", TIMES)
def test_one_raises(comm, time):
    assert comm.rank != 1


@pytest.mark.ranks(4)
@pytest.mark.parametrize("time", TIMES)
def test_others_wait(comm, time):
    assert comm.rank != 1
    comm.barrier()
