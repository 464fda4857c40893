import pytest

pytestmark = pytest.mark.ranks(2)


def test_right(comm):
    comm.Dup().Free()


def test_leaks(comm):
    comm.Dup()


def test_leaks_and_fails(comm):
    comm.Dup()
    assert comm.rank == 2


def test_stalls(comm):
    if comm.rank == 0:
        comm.send(1, 1, tag=3)
    else:
        comm.recv(source=0, tag=4)
