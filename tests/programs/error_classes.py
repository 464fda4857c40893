# ranks: 1 2 3
"""Wrong arguments are refused with the error class that belongs to them."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
names = {getattr(MPI, name): name for name in dir(MPI) if name.startswith("ERR_")}
data = np.zeros(4, dtype="i4")
freed = MPI.INT.Create_contiguous(2)
freed.Free()
uncommitted = MPI.INT.Create_contiguous(2)
dead = comm.Dup()
dead.Free()


def attempt(label: str, function: object, *arguments: object, **keywords: object) -> None:
    """Call something that must fail, and print how."""
    try:
        function(*arguments, **keywords)
    except MPI.Exception as error:
        code = MPI.Get_error_class(error.Get_error_code())
        print(f"rank {rank}: {label} {names[error.Get_error_class()]} {code == error.error_class} {int(error) != 0}")
    except Exception as error:
        print(f"rank {rank}: {label} {type(error).__name__}")
    else:
        print(f"rank {rank}: {label} no error")


attempt("rank too large", comm.Send, data, dest=size)
attempt("rank negative", comm.Isend, data, dest=-17)
attempt("source too large", comm.Recv, data, source=size + 3)
attempt("object to nowhere", comm.send, None, dest=size)
attempt("tag negative", comm.Send, data, dest=0, tag=-5)
attempt("tag of a receive", comm.Irecv, data, source=0, tag=-77)
attempt("count negative", comm.Send, [data, -1, MPI.INT], dest=0)
attempt("type null", comm.Send, [data, 4, MPI.DATATYPE_NULL], dest=0)
attempt("type freed", comm.Send, [data, 2, freed], dest=0)
attempt("type not committed", comm.Send, [data, 2, uncommitted], dest=0)
attempt("root too large", comm.Bcast, data, root=size)
attempt("root negative", comm.Reduce, data, data.copy(), root=-1)
attempt("root of an object", comm.bcast, 1, root=size + 1)
attempt("op null", comm.Allreduce, data, data.copy(), op=MPI.OP_NULL)
attempt("op not for the type", comm.Allreduce, np.zeros(2), np.zeros(2), op=MPI.BAND)
attempt("communicator null", MPI.COMM_NULL.Get_size)
attempt("communicator freed", dead.Barrier)
attempt("group rank", comm.Get_group().Incl, [size])
attempt("dims", MPI.Compute_dims, size, [size + 1, 0])
attempt("cart too large", comm.Create_cart, [size + 1])
attempt("keyval", comm.Get_attr, MPI.KEYVAL_INVALID)
attempt("probe rank", comm.Probe, source=size)
attempt("type blocklength", MPI.INT.Create_vector, 1, -1, 1)
attempt("predefined free", MPI.INT.Free)
attempt("world free", comm.Free)
attempt("op free", MPI.SUM.Free)
attempt("info key", MPI.Info.Create().Set, "", "value")
print(f"rank {rank}: still alive {comm.allreduce(1)}")
uncommitted.Free()
