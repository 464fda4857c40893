import numpy as np
import pytest

pytestmark = pytest.mark.ranks(2)


def test_right(comm):
    comm.Dup().Free()


def test_leaks(comm):
    comm.Dup()


def test_mistakes_and_fails(comm):
    if comm.rank == 0:
        comm.Send(np.ones(2), 1)
    else:
        comm.Recv(np.zeros(2, "i8"), 0)
    assert comm.rank == 2


def test_fails_midway(comm):
    other = comm.Dup()
    receive = other.Irecv(np.zeros(2), 1 - comm.rank)
    send = other.Isend(np.ones(2), 1 - comm.rank)
    assert comm.rank == 2
    receive.Wait()
    send.Wait()
    other.Free()


def test_stalls(comm):
    if comm.rank == 0:
        comm.send(1, 1, tag=3)
    else:
        comm.recv(source=0, tag=4)


def test_races_and_fails(comm):
    from mpi4py import MPI

    window = MPI.Win.Allocate(8, comm=comm)
    comm.Barrier()
    window.Lock(0, MPI.LOCK_SHARED)
    window.Put(np.ones(1), 0)
    window.Unlock(0)
    assert comm.rank == 2
    window.Free()
