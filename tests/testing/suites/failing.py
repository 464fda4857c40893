import sys

import pytest
from mpi4py import MPI


@pytest.mark.ranks(4)
def test_one_raises(comm):
    print("said by", comm.rank)
    number = comm.rank
    if comm.rank == 1:
        assert number == 5
    comm.barrier()


@pytest.mark.ranks(4)
def test_all_raise(comm):
    assert comm.size == 5


@pytest.mark.ranks(3)
def test_different(comm):
    assert comm.rank == 5


@pytest.mark.ranks(3)
def test_deadlock(comm):
    comm.recv(source=(comm.rank + 1) % comm.size)


@pytest.mark.ranks(2)
def test_mismatch(comm):
    comm.barrier() if comm.rank else comm.bcast(1)


@pytest.mark.ranks(2)
def test_polling(comm):
    if comm.rank == 0:
        raise KeyError("first")
    while not comm.Iprobe():
        pass


@pytest.mark.ranks(2)
def test_skip_while_another_waits(comm):
    if comm.rank:
        pytest.skip("not here")
    comm.barrier()


@pytest.mark.ranks(2)
def test_abort(comm):
    if comm.rank:
        comm.Abort(3)
    comm.barrier()


@pytest.mark.ranks(2)
def test_exit(comm):
    sys.exit(3)


@pytest.mark.ranks(2)
def test_error_of_mpi(comm):
    comm.send(1, dest=7)


@pytest.mark.ranks(2, wall_limit=0.2)
def test_late(comm):
    while True:
        MPI.Wtime()


@pytest.mark.ranks(2)
def test_teardown(comm, request):
    request.addfinalizer(lambda: 1 / comm.rank)


@pytest.mark.ranks(2)
@pytest.mark.filterwarnings("ignore:coroutine")
async def test_async(comm):
    pass


@pytest.mark.ranks(2, fail="rank=7@1s")
def test_a_rank_that_is_not_there(comm):
    pass


def test_passes():
    pass


@pytest.fixture
def refused(comm):
    if comm.rank == 1:
        raise KeyError("refused")
    comm.barrier()


@pytest.fixture
def left(comm):
    yield
    if comm.rank == 1:
        raise LookupError("left")
    comm.barrier()


@pytest.mark.ranks(2)
def test_set_up(refused):
    pass


@pytest.mark.ranks(2)
def test_torn_down(left):
    pass


@pytest.mark.ranks(2)
def test_raises_and_is_torn_down(comm, left):
    assert comm.size == 5
