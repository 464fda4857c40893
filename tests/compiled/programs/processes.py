"""The twin of processes.c."""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
me, size = world.rank, world.size


def total(comm: MPI.Intracomm, value: int) -> int:
    found = np.zeros(1, "i")
    comm.Allreduce(np.array([value], "i"), found)
    return int(found[0])


def child(parent: MPI.Intercomm) -> None:
    app = world.Get_attr(MPI.APPNUM)
    everyone = parent.Merge(True)
    where = f"{sys.argv[1]}, child {me}: of {size}, app {app}"
    print(f"{where}, sum {total(everyone, me)}, remote {parent.remote_size}")
    everyone.Free()
    parent.Disconnect()


def merged(children: MPI.Intercomm, codes: list[int]) -> None:
    everyone = children.Merge(False)
    print(f"{me}: spawned {' '.join(map(str, codes))}, sum {total(everyone, me)}")
    everyone.Free()
    children.Disconnect()


def spawn() -> None:
    words, others = [__file__, "one"], [__file__, "two"]
    codes: list[int] = []
    merged(world.Spawn(sys.executable, words, 2, errcodes=codes), codes)
    both: list[list[int]] = []
    children = world.Spawn_multiple([sys.executable] * 2, [words, others], [1, 2], errcodes=both)
    merged(children, [*both[0], *both[1]])
    print(f"{me}: disconnected 1")


def ports() -> None:
    port = ""
    half = world.Split(me % 2, me)
    if me == 0:
        port = MPI.Open_port()
        MPI.Publish_name("service", port)
    world.Barrier()
    if me % 2 == 0:
        other = half.Accept(port)
    else:
        other = half.Connect(MPI.Lookup_name("service"))
    print(f"{me}: connected to {other.remote_size}")
    other.Disconnect()
    if me == 0:
        MPI.Unpublish_name("service", port)
        MPI.Close_port(port)
    half.Free()


def partitions() -> None:
    sent, received = np.arange(me, me + 4, dtype="i"), np.full(4, -1, "i")
    sending = world.Psend_init(sent, 4, (me + 1) % size, 5)
    receiving = world.Precv_init(received, 2, (me - 1) % size, 5)
    for _ in range(2):
        MPI.Prequest.Startall([sending, receiving])
        sending.Pready(0)
        sending.Pready_list([2])
        sending.Pready(1)
        sending.Pready_range(3, 3)
        while not receiving.Parrived(0):
            pass
        MPI.Request.Waitall([sending, receiving])
        print(f"{me}: partitions {' '.join(map(str, received))}")
    sending.Free()
    receiving.Free()


parent = MPI.Comm.Get_parent()
if parent:
    child(parent)
else:
    spawn()
    ports()
    partitions()
