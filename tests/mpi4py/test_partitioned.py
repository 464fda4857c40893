"""Partitioned sends and receives: parts go when they are ready, and the two sides may cut the whole differently."""

import numpy as np
import pytest

from tests.mpi4py.ranks import values_of


@pytest.mark.parametrize("length", [12, 120_000])  # the latter goes by rendezvous
@pytest.mark.parametrize(("leaving", "arriving"), [(3, 3), (4, 2), (2, 6), (3, 4)])
def test_the_sides_may_have_different_partitions(leaving, arriving, length):
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            request = comm.Psend_init(np.arange(length), leaving, 1, 7)
            request.Start()
            request.Pready_list(range(1, leaving))
            comm.Barrier()
            request.Pready(0)
            request.Wait()
            return None
        target = np.zeros(length, np.int64)
        request = comm.Precv_init(target, arriving, 0, 7)
        request.Start()
        comm.Barrier()
        while not request.Parrived(0):
            pass
        first = bool((target[: length // arriving] == np.arange(length // arriving)).all())
        request.Wait()
        return first, bool((target == np.arange(length)).all()), request.Parrived(0)

    assert values_of(program, ranks=2)[1] == (True, True, True)


def test_a_partition_is_not_there_before_it_is_ready():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            request = comm.Psend_init(np.arange(2), 2, 1, 0)
            request.Start()
            request.Pready(1)
            comm.recv(source=1)
            request.Pready(0)
            request.Wait()
            return None
        target = np.zeros(2, np.int64)
        request = comm.Precv_init(target, 2, 0, 0)
        request.Start()
        while not request.Parrived(1):
            pass
        early = request.Parrived(0), target.tolist()
        comm.send(None, 0)
        request.Wait()
        return early, target.tolist()

    assert values_of(program, ranks=2)[1] == ((False, [0, 1]), [0, 1])


def test_equal_operations_are_matched_in_the_order_of_their_initialisation():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            requests = [comm.Psend_init(np.array([value]), 1, 1, 0) for value in (5, 6)]
            for request in reversed(requests):
                request.Start()
                request.Pready(0)
            MPI.Request.Waitall(requests)
            return None
        targets = np.zeros((2, 1), np.int64)
        requests = [comm.Precv_init(target, 1, 0, 0) for target in targets]
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        return targets.ravel().tolist()

    assert values_of(program, ranks=2)[1] == [5, 6]


def test_what_mpi_forbids_is_refused():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_SELF
        send = comm.Psend_init(bytearray(4), 2, 0, 0)

        def refused(function, *args):
            with pytest.raises(MPI.Exception) as caught:
                function(*args)
            return caught.value.Get_error_class()

        found = [refused(send.Pready, 0), refused(comm.Precv_init, bytearray(4), 2)]
        send.Start()
        found += [refused(send.Pready, 2), refused(comm.Send_init(b"", MPI.PROC_NULL).Parrived, 0)]
        wanted = [MPI.ERR_REQUEST, MPI.ERR_TAG, MPI.ERR_ARG, MPI.ERR_REQUEST]
        receive = comm.Precv_init(bytearray(2), 1, 0, 0)
        receive.Start()
        send.Pready_range(0, 1)
        send.Wait()
        return found == wanted, refused(receive.Wait) == MPI.ERR_TRUNCATE

    assert values_of(program, ranks=1) == [(True, True)]


@pytest.mark.parametrize("shards", [1, 2])
def test_what_has_arrived_in_all_parts_is_complete(shards):
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            request = comm.Psend_init(np.arange(12.0), 4, 1, 7)
            request.Start()
            request.Pready_range(0, 3)
            request.Wait()
            return None
        target = np.zeros(12)
        request = comm.Precv_init(target, 6, 0, 7)
        request.Start()
        while not all(request.Parrived(part) for part in range(6)):
            pass
        return request.Test(), target.tolist()

    assert values_of(program, ranks=2, shards=shards)[1] == (True, list(range(12)))
