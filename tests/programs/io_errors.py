# ranks: 1 2
# alone
"""What the calls of files refuse, by error class; handles, hints and error handlers."""

import os
import pickle
import tempfile

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.rank
CLASSES = {getattr(MPI, name): name for name in dir(MPI) if name.startswith("ERR_") and name != "ERR_LASTCODE"}
folder = comm.bcast(tempfile.mkdtemp() if rank == 0 else None)
path = os.path.join(folder, "data")
READ, WRITE, BOTH, NEW = MPI.MODE_RDONLY, MPI.MODE_WRONLY, MPI.MODE_RDWR, MPI.MODE_CREATE
four = np.zeros(4, "u1")
File = MPI.File


def refused(what, function, *args):
    try:
        function(*args)
    except MPI.Exception as error:
        print(f"rank {rank}: {what}: {CLASSES[error.Get_error_class()]}")
    except (TypeError, ValueError, BufferError) as error:
        print(f"rank {rank}: {what}: {type(error).__name__}")
    else:
        print(f"rank {rank}: {what}: accepted")


refused("Open what is not there", File.Open, comm, path, BOTH)
refused("Delete what is not there", File.Delete, path)
refused("Delete a folder", File.Delete, folder)
refused("Open without access", File.Open, comm, path, NEW)
refused("Open with two accesses", File.Open, comm, path, NEW | BOTH | WRITE)
refused("Create to read", File.Open, comm, path, NEW | READ)
refused("Read a new one", File.Open, comm, path, MPI.MODE_EXCL | READ)
refused("Read and write in sequence", File.Open, comm, path, NEW | BOTH | MPI.MODE_SEQUENTIAL)
refused("Open a folder", File.Open, comm, folder, BOTH)
refused("Open in no folder", File.Open, comm, f"{folder}/no/file", BOTH | NEW)
refused("Open a long name", File.Open, comm, f"{folder}/{'x' * 300}", BOTH | NEW)
refused("Open on nobody", File.Open, MPI.COMM_NULL, path, BOTH)
refused("Open a number", File.Open, comm, 3, BOTH)
if rank == 0:
    with open(path, "w") as plain:
        plain.write("hello, world")
comm.Barrier()
refused("Open anew", File.Open, MPI.COMM_SELF, path, BOTH | NEW | MPI.MODE_EXCL)

file = File.Open(comm, path, BOTH)
for name in ("Read_at", "Write_at", "Iread_at", "Iwrite_at"):
    refused(f"{name} before the begin", getattr(file, name), -1, four)
refused("Seek before the begin", file.Seek, -1)
refused("Seek before the begin", file.Seek, -1, MPI.SEEK_CUR)
refused("Seek before the begin", file.Seek, -100, MPI.SEEK_END)
refused("Seek somehow", file.Seek, 0, 77)
refused("Byte before the begin", file.Get_byte_offset, -1)
refused("Set_size to less than nothing", file.Set_size, -1)
refused("Preallocate less than nothing", file.Preallocate, -1)
refused("Set_view before the begin", file.Set_view, -1, MPI.BYTE)
refused("Set_view of no etype", file.Set_view, 0, MPI.DATATYPE_NULL)
refused("Set_view of no filetype", file.Set_view, 0, MPI.BYTE, MPI.DATATYPE_NULL)
unfinished = MPI.INT.Create_contiguous(3)
refused("Set_view with an uncommitted type", file.Set_view, 0, MPI.INT, unfinished)
refused("Set_view of parts of etypes", file.Set_view, 0, MPI.DOUBLE, MPI.INT)
backwards = MPI.INT.Create_hindexed([1], [-4]).Commit()
refused("Set_view before its origin", file.Set_view, 0, MPI.INT, backwards)
falling = MPI.INT.Create_indexed([1, 1], [3, 0]).Commit()
refused("Set_view that goes back", file.Set_view, 0, MPI.INT, falling)
double = MPI.INT.Create_indexed([2, 2], [0, 1]).Commit()
refused("Set_view of the same twice", file.Set_view, 0, MPI.INT, double)
refused("Set_view in nonsense", file.Set_view, 0, MPI.INT, None, "nonsense")
refused("Set_view where it was, not in sequence", file.Set_view, MPI.DISPLACEMENT_CURRENT, MPI.BYTE)
refused("Extent of nothing", file.Get_type_extent, MPI.DATATYPE_NULL)
file.Set_view(0, MPI.INT)
refused("Write of half an etype", file.Write_at, 0, four[:2])
refused("Read of half an etype", file.Read_at, 0, four[:2])
file.Set_view()
refused("Write of an uncommitted type", file.Write, [four, 1, unfinished])
refused("Write of no type", file.Write, [four, 1, MPI.DATATYPE_NULL])
refused("Write of nothing", file.Write, None)
refused("Read into bytes", file.Read, b"abc")
refused("End of nothing", file.Write_all_end, four)
refused("End of nothing", file.Read_ordered_end, four)
file.Read_at_all_begin(0, four)
refused("Two at once", file.Write_all_begin, four)
refused("Two at once", file.Read_at_all_begin, 0, four)
file.Read_at_all_end(four)
print(f"rank {rank}: {bytes(four)}")
refused("Pickle", pickle.dumps, file)
print(f"rank {rank}: handles {File.fromint(file.toint()) == file} {File(file) == file} {file != MPI.FILE_NULL}")
hints = [file.info[key] for key in ("cb_buffer_size", "ind_rd_buffer_size", "romio_cb_write")]
print(f"rank {rank}: hints {hints}")
handler = File.Create_errhandler(
    lambda found, code: print(f"rank {rank}: handler {found == file} {CLASSES[MPI.Get_error_class(code)]}")
)
print(f"rank {rank}: returns {file.Get_errhandler() == MPI.ERRORS_RETURN}")
file.Set_errhandler(handler)
file.Seek(-1)
file.Call_errhandler(MPI.ERR_OTHER)
file.Set_errhandler(MPI.ERRORS_RETURN)
handler.Free()
file.Close()
for name in ("Get_size", "Close", "Sync", "Get_position", "Get_group", "Get_info", "Get_view"):
    refused(f"{name} of what is closed", getattr(file, name))
refused("Write to nothing", MPI.FILE_NULL.Write, four)

file = File.Open(comm, path, READ)
for name in ("Write", "Write_all", "Iwrite"):
    refused(f"{name} where one may read", getattr(file, name), four)
refused("Set_size where one may read", file.Set_size, 3)
file.Close()
file = File.Open(comm, path, WRITE)
for name in ("Read", "Read_all", "Iread", "Read_shared"):
    refused(f"{name} where one may write", getattr(file, name), four)
file.Close()
file = File.Open(comm, path, WRITE | MPI.MODE_SEQUENTIAL)
for name in ("Write", "Write_all"):
    refused(f"{name} in sequence", getattr(file, name), four)
for name in ("Seek", "Seek_shared", "Set_size", "Get_byte_offset"):
    refused(f"{name} in sequence", getattr(file, name), 0)
for name in ("Get_position", "Get_position_shared"):
    refused(f"{name} in sequence", getattr(file, name))
refused("Set_view in sequence", file.Set_view, 0, MPI.BYTE)
refused("Set_view in sequence", file.Set_view, MPI.DISPLACEMENT_CURRENT, MPI.BYTE)
file.Close()


def nothing(*args):
    """Convert nothing."""


refused("A representation", MPI.Register_datarep, "mine", None, None, nothing)
refused("A representation twice", MPI.Register_datarep, "mine", None, None, nothing)
refused("A representation with functions", MPI.Register_datarep, "other", nothing, nothing, nothing)
refused("A long name", MPI.Register_datarep, "x" * 200, None, None, nothing)
file = File.Open(comm, path, BOTH | MPI.MODE_DELETE_ON_CLOSE)
refused("Set_view in one's own", file.Set_view, 0, MPI.INT, None, "mine")
file.Close()
comm.Barrier()
if rank == 0:
    os.rmdir(folder)
