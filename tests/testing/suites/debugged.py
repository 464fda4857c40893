import pytest


@pytest.mark.ranks(3)
def test_post_mortem(comm):
    number = comm.rank * 10
    assert number < 20


@pytest.mark.ranks(2)
def test_breakpoint(comm):
    breakpoint()
    comm.barrier()
