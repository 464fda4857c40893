import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.ranks(3)


@settings(max_examples=20, deadline=None, database=None)
@given(number=st.integers(0, 99), data=st.data())
def test_alike(comm, number, data):
    assert comm.allgather(number) == [number] * 3
    assume(number != 5)
    assert comm.bcast(data.draw(st.integers())) is not None


@settings(max_examples=60, deadline=None, database=None)
@given(number=st.integers(0, 99))
def test_falsified(comm, number):
    assert comm.allreduce(number) < 3 * 42


@settings(max_examples=20, deadline=None, database=None)
@given(number=st.integers(0, 99))
def test_one_rank_fails(comm, number):
    comm.bcast(number)
    if number > 20 and comm.rank == 1:
        raise ValueError(number)
    comm.barrier()


@settings(max_examples=20, deadline=None, database=None)
@given(number=st.integers(0, 99))
def test_one_rank_fails_and_the_others_go_on(comm, number):
    if number > 20 and comm.rank > 0:
        raise ValueError(number)
