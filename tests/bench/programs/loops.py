"""Typical loops of MPI programs, one by its name, so many times: ``loops.py halo 200``."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
left, right = (rank - 1) % size, (rank + 1) % size


def halo(rounds):
    """Exchange both edges of a row with the neighbours, and average."""
    row = np.full(1002, float(rank))
    for _ in range(rounds):
        comm.Sendrecv(row[-2:-1], right, 1, row[:1], left, 1)
        comm.Sendrecv(row[1:2], left, 2, row[-1:], right, 2)
        row[1:-1] = (row[:-2] + row[1:-1] + row[2:]) / 3
    return comm.allreduce(row[1:-1].sum())


def nonblocking(rounds):
    """Exchange a buffer without blocking, compute on it, and add up over all."""
    mine, other = np.full(64, float(rank)), np.zeros(64)
    part, whole = np.zeros(1), np.zeros(1)
    for _ in range(rounds):
        MPI.Request.Waitall([comm.Irecv(other, left, 3), comm.Isend(mine, right, 3)])
        mine = 0.5 * (mine + other)
        part[0] = mine.sum()
        comm.Allreduce(part, whole)
    return float(whole[0])


def objects(rounds):
    """Pass a dictionary on, with send and recv."""
    thing = {"from": rank, "values": [1.5, 2.5]}
    for _ in range(rounds):
        if rank % 2:
            got = comm.recv(source=left)
            comm.send(thing, right)
        else:
            comm.send(thing, right)
            got = comm.recv(source=left)
        thing = got
    return comm.allreduce(thing["from"])


def polls(rounds):
    """Ask again and again whether both requests are complete, and compute meanwhile."""
    mine, other, work = np.full(64, float(rank)), np.zeros(64), np.ones(200)
    for _ in range(rounds):
        requests = [comm.Irecv(other, left, 4), comm.Isend(mine, right, 4)]
        while not MPI.Request.Testall(requests):
            work = np.sqrt(work + 1.0)
        mine = other.copy()
    return comm.allreduce(mine.sum())


def collectives(rounds):
    """Call one collective after the other."""
    mine, all_of_them = np.full(4, float(rank)), np.zeros(4 * size)
    total = np.zeros(4)
    for i in range(rounds):
        comm.Bcast(mine, root=i % size)
        comm.Allgather(mine, all_of_them)
        comm.Reduce(mine, total, root=0)
        comm.barrier()
        mine = mine + comm.allreduce(1)
    return float(mine[0])


def fences(rounds):
    """Put into the window of the next rank, between fences."""
    shown = np.zeros(8)
    win = MPI.Win.Create(shown, comm=comm)
    mine = np.full(8, float(rank))
    win.Fence()
    for _ in range(rounds):
        win.Put(mine, right)
        win.Fence()
        mine = shown + 1.0
        win.Fence()
    win.Free()
    return comm.allreduce(mine[0])


def gets(rounds):
    """Get from the window of the next rank, between fences."""
    shown, got = np.full(8, float(rank)), np.zeros(8)
    win = MPI.Win.Create(shown, comm=comm)
    win.Fence()
    for _ in range(rounds):
        win.Get(got, right)
        win.Fence()
        shown += got
        win.Fence()
    win.Free()
    return comm.allreduce(got[0])


def accumulates(rounds):
    """Have all ranks accumulate in the window of one of them after the other, between fences."""
    shown, mine = np.zeros(8), np.full(8, float(rank))
    win = MPI.Win.Create(shown, comm=comm)
    win.Fence()
    for i in range(rounds):
        win.Accumulate(mine, i % size)
        win.Fence()
    win.Free()
    return comm.allreduce(shown[0])


def locks(rounds):
    """Put into the window of the next rank, which is locked for that."""
    mine = np.full(8, float(rank))
    win = MPI.Win.Allocate(64, 8, comm=comm)
    for _ in range(rounds):
        win.Lock(right)
        win.Put(mine, right)
        win.Unlock(right)
        mine = mine + 1.0
    comm.barrier()
    win.Free()
    return comm.allreduce(mine[0])


def posts(rounds):
    """Put into the window of the next rank, which says when it is ready for that."""
    shown, mine = np.zeros(8), np.full(8, float(rank))
    win = MPI.Win.Create(shown, comm=comm)
    before, after = (comm.group.Incl([each]) for each in (left, right))
    for _ in range(rounds):
        win.Post(before)
        win.Start(after)
        win.Put(mine, right)
        win.Complete()
        win.Wait()
        mine = shown + 1.0
    before.Free()
    after.Free()
    win.Free()
    return comm.allreduce(mine[0])


def tasks(rounds):
    """Have a master give numbers to workers, in the order in which they ask for them."""
    status = MPI.Status()
    if rank == 0:
        total, given, busy = 0, 0, size - 1
        while busy:
            total += comm.recv(source=MPI.ANY_SOURCE, tag=5, status=status)
            more = given < rounds * (size - 1)
            comm.send(given if more else None, dest=status.Get_source(), tag=6)
            given, busy = given + more, busy - (not more)
        return total
    done = 0
    while True:
        comm.send(done, dest=0, tag=5)
        task = comm.recv(source=0, tag=6)
        if task is None:
            return None
        done = sum(i * i for i in range(task % 100))


answer = globals()[sys.argv[1]](int(sys.argv[2]))
if rank == 0:
    print(answer)
