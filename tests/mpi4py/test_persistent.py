"""Persistent collectives can be started again and again, in an order that differs between the ranks."""

import gc
import weakref
from array import array

import numpy as np
import pytest

from tests.mpi4py.ranks import values_of
from xsim_py import simulate


def totals(request, rank, mine, total):
    """What `total` holds after each of three starts, with other numbers in `mine` for each."""
    found = []
    for turn in range(3):
        mine[:] = 10 * turn + rank
        request.Start()
        request.Wait()
        found.append(total.tolist())
    return found


def test_each_start_sends_what_the_buffer_holds_then():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        mine, total = np.zeros(3, np.int64), np.zeros(3, np.int64)
        request = comm.Allreduce_init(mine, total, MPI.MAX)
        found = totals(request, comm.rank, mine, total)
        request.Free()
        return found, bool(request)

    assert values_of(program, ranks=3) == [([[2] * 3, [12] * 3, [22] * 3], False)] * 3


def test_an_object_is_asked_once_where_its_memory_is():
    class Shown:
        asked = 0

        def __init__(self, array):
            self.array = array

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __dlpack__(self, **options):
            type(self).asked += 1
            return self.array.__dlpack__(**options)

    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        mine, total = np.zeros(3, np.int64), np.zeros(3, np.int64)
        request = comm.Allreduce_init(Shown(mine), Shown(total))
        return totals(request, comm.rank, mine, total)

    assert values_of(program, ranks=2) == [[[1] * 3, [21] * 3, [41] * 3]] * 2
    asked = 4 if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else 8  # older ones refuse options, and are asked again
    assert Shown.asked == asked


def test_ranks_may_start_in_different_orders_and_call_others_between():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        low, high = np.zeros(1, np.int64), np.zeros(1, np.int64)
        mine = np.array([comm.rank])
        requests = [comm.Allreduce_init(mine, low, MPI.MIN), comm.Allreduce_init(mine, high, MPI.MAX)]
        for turn in range(2):
            order = requests if (comm.rank + turn) % 2 else requests[::-1]
            MPI.Prequest.Startall(order)
            total = comm.allreduce(1)
            MPI.Request.Waitall(requests)
        return int(low[0]), int(high[0]), total

    assert values_of(program, ranks=4) == [(0, 3, 4)] * 4


def test_counts_that_are_not_given_are_asked_for_once():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        count = comm.rank + 1
        part = np.zeros(count, np.int64)
        request = comm.Reduce_scatter_init(np.arange(6), part)
        for _ in range(2):
            request.Start()
            request.Wait()
        return part.tolist()

    assert values_of(program, ranks=3) == [[0], [3, 6], [9, 12, 15]]


def test_a_wrong_argument_is_refused_at_once():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        try:
            comm.Bcast_init(np.zeros(1), root=comm.size)
        except MPI.Exception as error:
            return error.Get_error_class() == MPI.ERR_ROOT
        return False

    assert values_of(program, ranks=2) == [True, True]


class Numbers(array):
    """An array that can be referred to weakly."""


def reduced_at_once(comm, mine, total):
    comm.Iallreduce(mine, total).Wait()


def reduced_again(comm, mine, total):
    request = comm.Allreduce_init(mine, total)
    request.Start()
    request.Wait()
    request.Free()


def passed_around(comm, mine, total):
    send, receive = comm.Send_init(mine, 1 - comm.rank), comm.Recv_init(total, 1 - comm.rank)
    for request in (receive, send):
        request.Start()
    for request in (receive, send):
        request.Wait()
        request.Free()


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("use", [reduced_at_once, reduced_again, passed_around])
def test_what_a_request_has_used_goes_when_the_program_lets_it_go(use, check):
    def program():
        from mpi4py import MPI

        mine, total = Numbers("i", [1]), Numbers("i", [0])
        refs = weakref.ref(mine), weakref.ref(total)
        use(MPI.COMM_WORLD, mine, total)
        del mine, total
        MPI.COMM_WORLD.Barrier()
        return [ref() for ref in refs]

    gc.disable()  # which would find it, sooner or later
    try:
        assert simulate(program, ranks=2, check=check).values == [[None, None]] * 2
    finally:
        gc.enable()
