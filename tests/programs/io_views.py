# ranks: 1 2 4
"""Views of files: derived filetypes, etypes, displacements, data representations, collective and independent access."""

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


def contents(what, dtype="i4"):
    comm.Barrier()
    if rank == 0:
        with open(path, "rb") as plain:
            data = plain.read()
        said(what, len(data), np.frombuffer(data, dtype, len(data) // np.dtype(dtype).itemsize))
    comm.Barrier()


def blank(values):
    """Set all bytes, for a real MPI may leave anything in the holes behind the end of a file."""
    file.Set_view()
    file.Set_size(0)
    if rank == 0:
        file.Write_at(0, np.zeros(values, "i4"))
    comm.Barrier()


# A matrix of which each rank has the columns rank, rank + size, ...
rows, columns = 3, 2 * size
column = MPI.INT.Create_vector(columns // size, 1, size)
mine = column.Create_resized(0, 4 * columns).Commit()
values = np.arange(rows * columns // size, dtype="i4") + 100 * rank
file.Set_view(4 * rank, MPI.INT, mine)
file.Write_all(values)
contents("columns")
said("pointer", file.Get_position(), [file.Get_byte_offset(place) for place in range(5)])
file.Seek(1)
found = np.zeros(3, "i4")
file.Read(found)
said("columns again", found, file.Get_position())
file.Seek(0, MPI.SEEK_END)
said("the end", file.Get_position())
status = MPI.Status()
comm.Barrier()
file.Write_at(rows * columns // size + 1, np.array([7], "i4"))
comm.Barrier()
contents("one more")
displacement, etype, filetype, representation = file.Get_view()
said("view", displacement, etype == MPI.INT, filetype.extent, filetype.size, representation)
filetype.Free()
mine.Free()
column.Free()

# Blocks of a two-dimensional array, independently and together.
blank(12 * size + 5)
grid = (6, 4 * size)
part = MPI.SHORT.Create_subarray(grid, (6, 4), (0, 4 * rank)).Commit()
file.Set_view(10, MPI.SHORT, part)
block = np.arange(24, dtype="i2").reshape(6, 4) + 1000 * rank
file.Write(block)
contents("blocks", "i2")
back = np.zeros((6, 4), "i2")
file.Seek(0)
file.Read_all(back)
said("blocks", (back == block).all())
file.Write_at_all(5, block[:2])
file.Read_at(0, back)
said("shifted", back.ravel())
contents("shifted", "i2")
part.Free()

# Pieces of different lengths, and a hole at the end of each copy.
blank(40 * size)
pieces = MPI.INT.Create_indexed([1, 3, 2], [2, 4, 9])
padded = pieces.Create_resized(0, 4 * 12 * size).Commit()
file.Set_view(4 * 12 * rank, MPI.INT, padded)
file.Write_all(np.arange(9, dtype="i4") + 50 * rank)
contents("pieces")
file.Write_at(7, np.array([-1, -2, -3, -4], "i4"))
contents("more pieces")
read = np.zeros(11, "i4")
file.Read_at_all(0, read, status)
said("pieces", read, status.Get_count(MPI.INT))
file.Iread_at(3, [read, 4, MPI.INT]).Wait()
said("pieces", read)
padded.Free()
pieces.Free()

structure = MPI.Datatype.Create_struct([2, 1], [0, 16], [MPI.INT, MPI.DOUBLE])
pair = structure.Create_resized(0, 24).Commit()
blank(6 * size)
file.Set_view(24 * rank, MPI.BYTE, pair)
file.Write_all(np.arange(16, dtype="u1") + 16 * rank)
file.Seek(0)
octets = np.zeros(16, "u1")
file.Read_all(octets)
said("struct", octets, file.Get_byte_offset(8), file.Get_byte_offset(15))
contents("struct", "u1")
pair.Free()
structure.Free()

# A part of the ranks has nothing to say.
blank(4 * size)
nothing = MPI.INT.Create_vector(1, 1, 1).Commit()
file.Set_view(8 * rank, MPI.INT, nothing)
file.Write_all(np.full(2 if rank % 2 == 0 else 0, rank, "i4"))
contents("some")
file.Set_view(0, MPI.INT, MPI.INT)
file.Write_at_all(rank, np.full(2, rank, "i4") if size == 1 else np.full(1, rank, "i4"))
contents("all")
nothing.Free()

# Data representations.
file.Set_view()
file.Set_size(0)
file.Set_view(0, MPI.INT, MPI.INT, "external32")
file.Write_at_all(3 * rank, np.arange(3, dtype="i4") + rank)
said("extents", file.Get_type_extent(MPI.INT), file.Get_type_extent(MPI.DOUBLE), file.Get_type_extent(MPI.SHORT))
comm.Barrier()
read = np.zeros(3 * size, "i4")
file.Read_at(0, read, status)
said("external32", read, status.Get_count(MPI.INT), file.Get_view()[3])
contents("external32", ">i4")
file.Set_view(0, MPI.DOUBLE, MPI.DOUBLE, "external32")
file.Write_at_all(rank, np.array([rank + 0.5]))
contents("doubles", ">f8")
file.Close()
if rank == 0:
    MPI.File.Delete(path)
    os.rmdir(folder)
