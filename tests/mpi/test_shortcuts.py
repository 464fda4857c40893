"""What is used again or left out on the hot paths of a message is never seen by a program."""

from typing import Any

import numpy as np
import pytest

from xsim_py import simulate
from xsim_py.mpi4py.bufspec import plain_size, receiver, store

LARGE = 1 << 20  # by rendezvous


def test_what_a_background_exchange_has_received_is_not_sent_on_as_something_else() -> None:
    def program() -> list[int]:
        import time

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        me, other = comm.rank, 1 - comm.rank
        mine, theirs, next_one = np.full(4, me + 10), np.zeros(4, int), np.zeros(4, int)
        request = comm.Isendrecv(mine, other, 1, theirs, other, 1)
        time.sleep(1)
        comm.Send(np.full(4, me + 20), other, 2)
        request.Wait()
        comm.Recv(next_one, other, 2)
        return [int(theirs[0]), int(next_one[0])]

    assert simulate(program, ranks=2).values == [[11, 21], [10, 20]]


def test_a_message_is_the_callers_until_its_own_large_send_has_left() -> None:
    def program() -> list[int]:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        me, other = comm.rank, 1 - comm.rank
        large, small = np.full(LARGE, me, np.uint8), np.full(2, me + 5)
        got_large, got_small, total = np.zeros(LARGE, np.uint8), np.zeros(2, int), np.zeros(1, int)
        status = MPI.Status()
        request = comm.Iallreduce(np.array([me + 1]), total)
        if me == 0:
            comm.Sendrecv(large, other, 1, got_small, other, 2, status)
        else:
            comm.Sendrecv(small, other, 2, got_large, other, 1, status)
        again = comm.sendrecv(bytes(LARGE) if me == 0 else b"short", other, 3, None, other, 3)
        request.Wait()
        return [status.tag, int(got_small[0]), int(got_large[-1]), len(again), int(total[0])]

    first, second = simulate(program, ranks=2).values
    assert first == [2, 6, 0, 5, 3]
    assert second == [1, 0, 0, LARGE, 3]


def test_a_wildcard_after_many_receives_from_a_named_rank_takes_what_came_first() -> None:
    def program() -> list[Any]:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank:
            for step in range(6):
                comm.send((comm.rank, step), dest=0, tag=step)
            return []
        named = [comm.recv(source=1, tag=step) for step in range(3)]
        posted = [comm.irecv(source=2, tag=0), comm.irecv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)]
        taken = MPI.Request.waitall(posted)
        rest = sorted(comm.recv(source=MPI.ANY_SOURCE) for _ in range(7))
        return [named, taken[0], sorted([*rest, taken[1]])]

    named, exact, others = simulate(program, ranks=3).values[0]
    assert named == [(1, 0), (1, 1), (1, 2)]
    assert exact == (2, 0)
    assert others == [(1, 3), (1, 4), (1, 5), *((2, step) for step in range(1, 6))]


def test_traced_runs_which_take_no_shortcut_have_the_same_answer() -> None:
    def program() -> float:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        me, size = comm.rank, comm.size
        data, got = np.full(16, me, float), np.empty(16)
        for step in range(5):
            comm.Sendrecv(data, (me + step) % size, step, got, (me - step) % size, step)
            comm.Allreduce(got, data)
            data += comm.sendrecv(me, (me + 1) % size, 0, None, MPI.ANY_SOURCE, 0)
        return float(data.sum())

    plain, traced = simulate(program, ranks=7), simulate(program, ranks=7, trace=True)
    assert (plain.values, plain.digest, plain.events) == (traced.values, traced.digest, traced.events)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("code", "?bBhiqdFD")
def test_the_simplest_buffers_are_filled_at_once(code: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    array, other = np.zeros(shape, code), np.zeros(shape, code)
    data = rng.integers(0, 2, array.nbytes, np.uint8).tobytes()
    assert plain_size(array) == array.nbytes
    store(array, data)
    receiver(other).unpack(data)
    assert array.tobytes() == other.tobytes() == data


def test_all_other_buffers_are_not() -> None:
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    others: list[Any] = [frozen, np.zeros(0), np.zeros((4, 4))[:, 1], np.zeros((3, 2)).T, np.zeros(3, "U2")]
    others += [np.zeros(2, "i4,f8"), np.zeros(3, ">i4"), np.zeros(4).data, bytearray(3), [np.zeros(2), 2], None]
    assert not [other for other in others if plain_size(other)]
