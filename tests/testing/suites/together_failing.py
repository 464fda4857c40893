import os

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.Get_rank()


def test_before():
    assert comm.allreduce(1) == comm.size


def test_one_fails():
    print("said by", rank)
    assert rank != 1


def test_one_raises_while_others_wait():
    if rank == 2:
        raise ValueError("alone")
    comm.barrier()


def test_after_a_failure():
    assert comm.allreduce(1) == comm.size


def test_all_fail_alike():
    assert comm.size == 3


def test_deadlock():
    comm.recv(source=(rank + 1) % comm.size)


def test_who_is_ahead_is_not_to_blame():
    if rank:
        comm.recv(source=0)


def test_where_the_others_were():
    comm.barrier()


def test_abort():
    if rank == 3:
        comm.Abort(3)
    comm.barrier()


def test_exit():
    if rank == 0:
        os._exit(7)
    comm.barrier()


def test_last():
    assert comm.allreduce(rank) == sum(range(comm.size))
