# ranks: 1 2 4
"""Shared file pointers: whoever comes first, in the order of ranks, with views, with requests, split."""

import os
import tempfile

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
folder = comm.bcast(tempfile.mkdtemp() if rank == 0 else None)
path = os.path.join(folder, "data")
file = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_RDWR)


def said(what, *values):
    print(f"rank {rank}: {what}: {' '.join(map(str, values))}")


def contents(what, in_order):
    comm.Barrier()
    if rank == 0:
        with open(path, "rb") as plain:
            numbers = np.frombuffer(plain.read(), "i4")
        said(what, numbers if in_order else sorted(numbers.tolist()))
    comm.Barrier()


record = np.full(3, rank, "i4")
for _ in range(2):
    file.Write_shared(record)
comm.Barrier()
said("position", file.Get_position_shared(), file.Get_position())
comm.Barrier()
contents("records", in_order=False)
with open(path, "rb") as plain:
    rows = np.frombuffer(plain.read(), "i4").reshape(-1, 3)
    said("whole records", bool((rows == rows[:, :1]).all()))
comm.Barrier()

file.Seek_shared(0)
taken = np.zeros(3, "i4")
counts = []
for _ in range(2):
    status = MPI.Status()
    file.Read_shared(taken, status)
    counts.append((status.Get_count(MPI.INT), int(taken[0]) == int(taken[2])))
said("read", counts)
comm.Barrier()
status = MPI.Status()
file.Read_shared(taken, status)
said("at the end", status.Get_count(MPI.INT))
comm.Barrier()

file.Set_size(0)
file.Set_view(0, MPI.INT, MPI.INT)
for turn in range(3):
    file.Write_ordered(np.full(rank + 1, 10 * turn + rank, "i4"))
contents("ordered", in_order=True)
said("position", file.Get_position_shared())
comm.Barrier()
file.Seek_shared(-size * (size + 1) // 2, MPI.SEEK_CUR)
mine = np.zeros(rank + 1, "i4")
file.Read_ordered(mine, status)
said("ordered", mine, status.Get_count(MPI.INT))
file.Seek_shared(0, MPI.SEEK_END)
said("the end", file.Get_position_shared())
comm.Barrier()
file.Write_ordered_begin(np.full(2, -rank, "i4"))
file.Write_ordered_end(mine)
comm.Barrier()
file.Seek_shared(-2 * size, MPI.SEEK_END)
two = np.zeros(2, "i4")
file.Read_ordered_begin(two)
file.Read_ordered_end(two, status)
said("split", two, status.Get_count(MPI.INT))
comm.Barrier()

file.Set_size(0)
file.Seek_shared(2)
comm.Barrier()
file.Iwrite_shared(np.full(1, 5, "i4")).Wait()
comm.Barrier()
said("iwrite", file.Get_position_shared())
comm.Barrier()
file.Seek_shared(0)
file.Iread_shared(two).Wait(status)
comm.Barrier()
said("iread", file.Get_position_shared())
contents("iwritten", in_order=True)

if rank == 0:
    file.Write_at(0, np.zeros(4 * size + 2, "i4"))
every_second = MPI.INT.Create_resized(0, 8).Commit()
file.Set_view(4, MPI.INT, every_second)
said("position", file.Get_position_shared())
comm.Barrier()
file.Write_ordered(np.full(2, rank + 1, "i4"))
contents("with a hole", in_order=True)
file.Seek_shared(1)
one = np.zeros(1, "i4")
file.Read_ordered(one)
said("with a hole", one, file.Get_position_shared())
every_second.Free()
file.Close()

file = MPI.File.Open(comm, path, MPI.MODE_WRONLY | MPI.MODE_SEQUENTIAL | MPI.MODE_DELETE_ON_CLOSE)
file.Write_ordered(np.full(1, 9, "i4"))
contents("sequential", in_order=True)
file.Set_view(MPI.DISPLACEMENT_CURRENT, MPI.INT)
said("view", file.Get_view()[0])
file.Close()
said("deleted", os.path.exists(path))
comm.Barrier()
if rank == 0:
    os.rmdir(folder)
