"""The lock of a rank's memory: never two that exclude each other, nobody waits for ever, first come, first served."""

from hypothesis import given
from hypothesis import strategies as st

from xsim_py.mpi.constants import LOCK_EXCLUSIVE, LOCK_SHARED
from xsim_py.mpi.rma.locks import LockQueue

MODES = st.lists(st.sampled_from([LOCK_SHARED, LOCK_EXCLUSIVE]), min_size=1, max_size=12)


@given(MODES, st.randoms(use_true_random=False))
def test_whoever_asks_gets_it_in_turn_and_nobody_is_in_the_way(modes, random):
    queue = LockQueue()
    order, asked, released = [], 0, 0
    while released < len(modes):
        if asked < len(modes) and random.random() < 0.6:
            if queue.request(asked, modes[asked]):
                order.append(asked)
            asked += 1
        elif queue.holders:
            who = random.choice(sorted(queue.holders))
            order += queue.release(who)
            released += 1
        assert queue.holders or asked == released
        held = [modes[who] for who in queue.holders]
        assert len(held) == 1 or LOCK_EXCLUSIVE not in held
    assert order == list(range(len(modes)))


def test_a_shared_request_does_not_overtake_an_exclusive_one():
    queue = LockQueue()
    assert queue.request(0, LOCK_SHARED)
    assert queue.request(1, LOCK_SHARED)
    assert not queue.request(2, LOCK_EXCLUSIVE)
    assert not queue.request(3, LOCK_SHARED)
    assert queue.release(0) == []
    assert queue.release(1) == [2]
    assert queue.release(2) == [3]
