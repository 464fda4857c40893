# ranks: 1 3 4
"""Files: opening, sizes, individual pointers, explicit offsets, requests, split collectives, and what open() sees."""

import os
import tempfile

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
folder = comm.bcast(tempfile.mkdtemp() if rank == 0 else None)
path = os.path.join(folder, "data")


def said(what, *values):
    print(f"rank {rank}: {what}: {' '.join(map(str, values))}")


def counted(call, *args):
    status = MPI.Status()
    call(*args, status)
    return status.Get_count(MPI.BYTE), status.Get_elements(MPI.INT)


file = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_RDWR)
said("new", file.size, file.amode == MPI.MODE_CREATE | MPI.MODE_RDWR, file.group_size, file.group_rank, file.atomicity)
file.Set_size(40)
file.Preallocate(10)
said("sizes", file.Get_size())
file.Preallocate(50)
said("sizes", file.Get_size())
file.Set_size(0)

mine = np.arange(6, dtype="i4") + 100 * rank
said("write_at", counted(file.Write_at, 24 * rank, mine))
file.Sync()
comm.Barrier()
other = np.zeros(6, "i4")
said("read_at", counted(file.Read_at, 24 * ((rank + 1) % size), other), other)
with open(path, "rb") as plain:
    said("open() finds", np.frombuffer(plain.read(), "i4").sum(), os.path.getsize(path))

file.Seek(24 * rank)
said("read", counted(file.Read, [other, 3, MPI.INT]), other, file.Get_position())
file.Seek(-4, MPI.SEEK_CUR)
said("position", file.Get_position(), file.Get_byte_offset(file.Get_position()))
file.Seek(-8, MPI.SEEK_END)
other[:] = -1
said("the end", counted(file.Read, other), other)
file.Seek(0, MPI.SEEK_END)
said("behind it", counted(file.Read, other), other)
file.Seek(0)
comm.Barrier()

requests = [file.Iwrite_at(24 * rank, mine + 1), file.Iread_at(24 * rank, np.zeros(0, "i4"))]
MPI.Request.Waitall(requests)
status = MPI.Status()
request = file.Iread_at(24 * rank, [other, 2, MPI.INT])
while not request.Test(status):
    pass
said("iread_at", status.Get_count(MPI.INT), other)
file.Seek(24 * rank)
file.Iwrite(mine).Wait()
file.Seek(24 * rank)
file.Iread(other).Wait(status)
said("iread", status.Get_count(MPI.INT), other, file.Get_position())
comm.Barrier()

file.Write_at_all(24 * (size - 1 - rank), mine)
file.Seek(0)
everything = np.zeros(6 * size, "i4")
said("read_all", counted(file.Read_all, everything), everything)
file.Iwrite_at_all(24 * rank, mine).Wait()
file.Iread_at_all(0, everything).Wait()
said("iread_at_all", everything)
file.Seek(0)
file.Iread_all([everything, 6, MPI.INT]).Wait(status)
said("iread_all", status.Get_count(MPI.INT), file.Get_position())

file.Write_at_all_begin(24 * rank, mine * 2)
file.Write_at_all_end(mine)
file.Read_at_all_begin(0, everything)
file.Read_at_all_end(everything, status)
said("split", status.Get_count(MPI.INT), everything)
file.Seek(24 * rank)
file.Write_all_begin(mine)
file.Write_all_end(mine, status)
file.Seek(24 * rank)
file.Read_all_begin(other)
file.Read_all_end(other)
said("split", status.Get_count(MPI.INT), other, file.Get_position())

every_second = MPI.INT.Create_vector(3, 1, 2).Commit()
spread = np.full(6, -1, "i4")
file.Read_at(24 * rank, [spread, 1, every_second])
said("into a vector", spread)
file.Write_at(24 * rank, [spread, 1, every_second])
file.Read_at(24 * rank, other)
said("out of a vector", other)
every_second.Free()
file.Set_atomicity(True)
said("atomic", file.Get_atomicity())
file.Write_at_all(0, mine[:2])
comm.Barrier()
file.Read_at_all(8, other)
said("atomic", other)
file.Close()
said("closed", bool(file))

file = MPI.File.Open(comm, path, MPI.MODE_WRONLY | MPI.MODE_APPEND)
said("append", file.Get_position(), file.Get_position_shared())
file.Close()
alone = MPI.File.Open(MPI.COMM_SELF, f"{path}.{rank}", MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE)
alone.Write(b"12345")
said("alone", alone.size, alone.group_size, os.path.exists(f"{path}.{rank}"))
alone.Close()
said("deleted", os.path.exists(f"{path}.{rank}"))
comm.Barrier()
if rank == 0:
    MPI.File.Delete(path)
    said("left", os.listdir(folder))
    os.rmdir(folder)
