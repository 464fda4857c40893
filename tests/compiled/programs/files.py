"""The twin of files.c."""

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

world = MPI.COMM_WORLD
me, size = world.rank, world.size
INT = MPI.INT


def show(what: str, values: NDArray[np.int32]) -> None:
    print(f"{me}: {what} {' '.join(map(str, values))}")


def ints(*values: int) -> NDArray[np.int32]:
    return np.array(values, "i")


def views(file: MPI.File) -> None:
    mine, got, status = ints(me, me + 10, me + 20), ints(-1, -1, -1), MPI.Status()
    part = INT.Create_vector(3, 1, size).Commit()
    file.Set_view(me * 4, INT, part)
    file.Write_all(mine, status)
    displacement, etype, filetype, name = file.Get_view()
    wrote = status.Get_count(INT)
    where = f"position {file.Get_position()}, byte {file.Get_byte_offset(1)}"
    print(f"{me}: wrote {wrote}, view {displacement} {name} {int(etype == INT)}, {where}")
    filetype.Free()
    file.Seek(-2, MPI.SEEK_CUR)
    file.Read(got[:2], status)
    print(f"{me}: read {status.Get_count(INT)}")
    show("view", got)
    file.Set_view(0, INT, INT)
    file.Read_at_all(me, got)
    show("flat", got)
    part.Free()


def background(file: MPI.File) -> None:
    mine, got, statuses = ints(me + 100, me + 200), ints(-1, -1, -1, -1), [MPI.Status(), MPI.Status()]
    gaps = INT.Create_vector(2, 1, 3).Commit()
    file.Iwrite_at(2 * me, mine).Wait()
    file.Sync()
    world.Barrier()
    requests = [file.Iread_at(2 * me, [got, 1, gaps]), file.Iread_at_all(0, [mine, 1, INT])]
    MPI.Request.Waitall(requests, statuses)
    print(f"{me}: background {statuses[0].Get_count(INT)} {statuses[1].Get_count(INT)}")
    show("gaps", got)
    show("first", mine)
    file.Write_at_all_begin(2 * me, [got, 1, INT])
    file.Write_at_all_end(got, statuses[0])
    file.Read_all_begin(mine)
    file.Read_all_end(mine, statuses[1])
    print(f"{me}: split {statuses[0].Get_count(INT)} {statuses[1].Get_count(INT)}")
    gaps.Free()


def shared(file: MPI.File) -> None:
    got = ints(-1)
    file.Seek_shared(0)
    file.Write_ordered(ints(me + 1000))
    position = file.Get_position_shared()
    world.Barrier()
    file.Seek_shared(0)
    file.Read_ordered(got)
    print(f"{me}: ordered {got[0]}, position {position}")
    file.Seek_shared(0)
    file.Read_shared(got)
    world.Barrier()


def representations(file: MPI.File) -> None:
    raw = bytearray(4)
    file.Set_view(0, INT, INT, "external32")
    file.Write_at(me, ints(0x01020304 + me))
    extent = file.Get_type_extent(INT)
    file.Set_view(0, MPI.BYTE, MPI.BYTE)
    file.Read_at(4 * me, raw)
    print(f"{me}: external {raw[0]} {raw[1]} {raw[2]} {raw[3] - me}, extent {extent}")
    file.Set_size(400)
    total, amode = file.Get_size(), int(file.Get_amode() == MPI.MODE_CREATE | MPI.MODE_RDWR)
    file.Set_atomicity(True)
    print(f"{me}: size {total}, amode {amode}, atomic {int(file.Get_atomicity())}")


try:
    MPI.File.Open(world, "missing")
except MPI.Exception:
    print(f"{me}: missing 1")
opened = MPI.File.Open(world, "file.dat", MPI.MODE_CREATE | MPI.MODE_RDWR)
views(opened)
background(opened)
shared(opened)
representations(opened)
opened.Close()
print(f"{me}: closed {int(opened == MPI.FILE_NULL)}")
world.Barrier()
if me == 0:
    MPI.File.Delete("file.dat")
