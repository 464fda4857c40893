"""A request that `Get_status` finds complete has its data where they belong, and is not freed (MPI 4.1, 3.7.6)."""

import numpy as np

from tests.mpi4py.ranks import values_of


def test_the_data_are_there_when_a_look_finds_a_request_complete():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        peer, box, found = 1 - comm.rank, np.zeros(2), []
        send = comm.Isend(np.full(2, 5.0), peer)
        for begin in (
            lambda: comm.Irecv(box, peer),
            lambda: comm.Ibcast(box, 0),
            lambda: comm.Iallreduce(np.full(2, 3.0), box),
        ):
            box[:] = 1 - comm.rank
            request = begin()
            while not request.Get_status():
                pass
            found.append(box.tolist())
            box[:] = 9
            request.Wait()
            found.append((box.tolist(), bool(request)))
        send.Wait()
        return found

    kept = ([9.0, 9.0], False)
    assert values_of(program, ranks=2) == [[[5.0, 5.0], kept, [1.0, 1.0], kept, [6.0, 6.0], kept]] * 2


def test_each_turn_of_a_persistent_request_delivers_once_whoever_looks():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        box, found = np.zeros(1), []
        receive = comm.Recv_init(box, 1 - comm.rank)
        for turn in range(3):
            receive.Start()
            comm.Send(np.full(1, float(turn)), 1 - comm.rank)
            while turn != 1 and not MPI.Request.Get_status_all([receive]):
                pass
            found.append(box[0])
            box[0] += 10
            receive.Wait()
            found.append(box[0])
        receive.Free()
        return found

    assert values_of(program, ranks=2) == [[0.0, 10.0, 10.0, 1.0, 2.0, 12.0]] * 2


def test_an_object_and_an_error_are_kept_for_the_call_that_completes():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        peer, found = 1 - comm.rank, []
        comm.send({"of": comm.rank}, peer)
        comm.Send(np.ones(4), peer, tag=1)
        for request in (comm.irecv(source=peer), comm.Irecv(np.zeros(2), peer, tag=1)):
            while not request.Get_status():
                pass
            try:
                found.append(request.wait())
            except MPI.Exception as error:
                found.append(error.Get_error_class() == MPI.ERR_TRUNCATE)
        return found

    assert values_of(program, ranks=2) == [[{"of": 1 - rank}, True] for rank in range(2)]
