# ranks: 1 2 4
"""Error handlers: predefined ones, one's own, their inheritance, and error codes of the user."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD.Dup()
rank, size = comm.rank, comm.size
names = {getattr(MPI, name): name for name in dir(MPI) if name.startswith("ERR_")}
calls: list[str] = []


def note(handle: MPI.Comm, code: int) -> None:
    """Write down what went wrong."""
    calls.append(f"{names[MPI.Get_error_class(code)]} on {handle.Get_name() or 'no name'}")


print(f"rank {rank}: return by default {comm.Get_errhandler() == MPI.ERRORS_RETURN}")
comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)
print(f"rank {rank}: fatal {comm.Get_errhandler() == MPI.ERRORS_ARE_FATAL}")
child = comm.Dup()
print(f"rank {rank}: inherited {child.Get_errhandler() == MPI.ERRORS_ARE_FATAL}")
child.Free()

handler = MPI.Comm.Create_errhandler(note)
comm.Set_errhandler(handler)
comm.Set_name("noisy")
try:
    comm.Send(np.zeros(1), dest=size)
except MPI.Exception as error:
    calls.append(f"raised {names[error.Get_error_class()]}")
print(f"rank {rank}: calls {calls}")
calls.clear()
try:
    comm.Bcast(np.zeros(1), root=size + 5)
except MPI.Exception as error:
    calls.append(f"raised {names[error.Get_error_class()]}")
print(f"rank {rank}: calls {calls}")
calls.clear()
comm.Call_errhandler(MPI.ERR_OTHER)
print(f"rank {rank}: called by hand {calls}")
comm.Set_errhandler(MPI.ERRORS_RETURN)
comm.Call_errhandler(MPI.ERR_OTHER)
handler.Free()
print(f"rank {rank}: freed {handler == MPI.ERRHANDLER_NULL}, calls {len(calls)}")

# Classes, codes and strings of one's own.
error_class = MPI.Add_error_class()
code = MPI.Add_error_code(error_class)
MPI.Add_error_string(code, "the soup is cold")
print(f"rank {rank}: own class {MPI.Get_error_class(code) == error_class}, string {MPI.Get_error_string(code)!r}")
print(f"rank {rank}: last {error_class > MPI.ERR_LASTCODE}, text {len(MPI.Get_error_string(MPI.ERR_RANK)) > 0}")
problem = MPI.Exception(MPI.ERR_TAG)
same = (problem == MPI.ERR_TAG, problem.Get_error_code() == MPI.ERR_TAG)
print(f"rank {rank}: exception {names[problem.Get_error_class()]} {same}")
try:
    raise MPI.Exception(MPI.ERR_COUNT)
except RuntimeError as error:
    print(f"rank {rank}: a RuntimeError {isinstance(error, MPI.Exception)} {hash(error) == hash(MPI.ERR_COUNT)}")
comm.Free()
