# ranks: 1 2 4
"""Attributes on communicators and datatypes, with copy and delete callbacks."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
log: list[str] = []


def copy_more(handle: MPI.Comm, keyval: int, value: list[int]) -> list[int]:
    """Hand a longer list to the copy."""
    log.append(f"copy {value}")
    return [*value, rank]


def refuse(handle: MPI.Comm, keyval: int, value: object) -> object:
    """Do not hand the attribute to the copy."""
    log.append("refuse")
    return NotImplemented


def dropped(handle: MPI.Comm, keyval: int, value: object) -> None:
    """Note what is deleted."""
    log.append(f"delete {value}")


copied = MPI.Comm.Create_keyval(copy_fn=copy_more, delete_fn=dropped)
private = MPI.Comm.Create_keyval(copy_fn=refuse, delete_fn=dropped)
silent = MPI.Comm.Create_keyval()
base = comm.Dup()
print(f"rank {rank}: unset {base.Get_attr(copied)}")
base.Set_attr(copied, [1])
base.Set_attr(private, "secret")
base.Set_attr(silent, {"a": 1})
print(f"rank {rank}: set {base.Get_attr(copied)} {base.Get_attr(private)} {base.Get_attr(silent)}")
copy = base.Dup()
print(f"rank {rank}: copy {copy.Get_attr(copied)} {copy.Get_attr(private)} {copy.Get_attr(silent)}")
print(f"rank {rank}: log {sorted(log)}")
log.clear()
base.Set_attr(copied, [2])  # the old value is deleted first
base.Delete_attr(private)
print(f"rank {rank}: changed {base.Get_attr(copied)} {base.Get_attr(private)}, log {sorted(log)}")
log.clear()
copy.Free()
base.Free()
print(f"rank {rank}: after free {sorted(log)}")
print(f"rank {rank}: keyvals {[MPI.Comm.Free_keyval(one) == MPI.KEYVAL_INVALID for one in (copied, private, silent)]}")

# Split makes a new communicator without attributes.
keyval = MPI.Comm.Create_keyval(copy_fn=lambda handle, key, value: value)
parent = comm.Dup()
parent.Set_attr(keyval, rank)
half = parent.Split(rank % 2)
print(f"rank {rank}: split {half.Get_attr(keyval)}, dup {parent.Dup().Get_attr(keyval)}")
half.Free()
parent.Free()
MPI.Comm.Free_keyval(keyval)

# What the implementation itself has to say.
upper = comm.Get_attr(MPI.TAG_UB)
print(f"rank {rank}: tag bound {upper is not None and upper >= 32767}")
print(f"rank {rank}: global clock {comm.Get_attr(MPI.WTIME_IS_GLOBAL) in (None, 0, 1)}")
print(f"rank {rank}: io {comm.Get_attr(MPI.IO) is not None}")

log.clear()
keyval = MPI.Datatype.Create_keyval(copy_fn=copy_more, delete_fn=dropped)
datatype = MPI.INT.Create_contiguous(2)
datatype.Set_attr(keyval, [5])
other = datatype.Dup()
print(f"rank {rank}: datatype {datatype.Get_attr(keyval)} {other.Get_attr(keyval)}")
datatype.Delete_attr(keyval)
other.Free()
datatype.Free()
MPI.Datatype.Free_keyval(keyval)
print(f"rank {rank}: datatype log {sorted(log)}")
