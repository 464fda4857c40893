# ranks: 1 2 4
"""Struct types: records of an int, two doubles and a character."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size

record = np.dtype([("key", "i4"), ("place", "f8", (2,)), ("letter", "S1")], align=True)
offsets = [record.fields[name][1] for name in record.names]
plain = MPI.Datatype.Create_struct([1, 2, 1], offsets, [MPI.INT, MPI.DOUBLE, MPI.CHAR])
datatype = plain.Create_resized(0, record.itemsize).Commit()
print(f"rank {rank}: size {datatype.Get_size()}, extent {datatype.Get_extent()}, record {record.itemsize}")

mine = np.zeros(3, dtype=record)
for number in range(3):
    mine[number] = (10 * rank + number, (rank + 0.5, -number), b"abc"[number : number + 1])
theirs = np.zeros(3, dtype=record)
status = MPI.Status()
comm.Sendrecv([mine, 3, datatype], dest=right, recvbuf=[theirs, 3, datatype], source=left, status=status)
print(f"rank {rank}: {theirs.tolist()}")
print(f"rank {rank}: count {status.Get_count(datatype)}, elements {status.Get_elements(datatype)}")

everyone = np.zeros(size, dtype=record) if rank == 0 else None
comm.Gather([mine, 1, datatype], [everyone, 1, datatype] if rank == 0 else None, root=0)
if rank == 0:
    print(f"rank {rank}: keys {everyone['key'].tolist()}")

# A struct of other derived types.
pair = MPI.INT.Create_contiguous(2)
stride = MPI.INT.Create_vector(2, 1, 2)
mixed = MPI.Datatype.Create_struct([1, 1], [0, 16], [pair, stride]).Commit()
data = np.arange(8, dtype="i4") + 10 * rank
packed = np.zeros(4, dtype="i4")
comm.Sendrecv([data, 1, mixed], dest=right, recvbuf=packed, source=left)
print(f"rank {rank}: mixed {packed.tolist()}")
for one in (plain, datatype, pair, stride, mixed):
    one.Free()
