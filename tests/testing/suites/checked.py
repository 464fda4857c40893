import pytest

pytestmark = pytest.mark.ranks(2)


def test_right(comm):
    comm.Dup().Free()


def test_leaks(comm):
    comm.Dup()


def test_leaks_and_fails(comm):
    comm.Dup()
    assert comm.rank == 2
