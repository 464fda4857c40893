# ranks: 1 2
"""What a datatype knows about itself, and packing by hand."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.rank

for name in ("BYTE", "CHAR", "SHORT", "INT", "LONG", "DOUBLE", "C_BOOL", "INT8_T", "UINT64_T", "C_DOUBLE_COMPLEX"):
    datatype = getattr(MPI, name)
    print(f"rank {rank}: {name} size {datatype.Get_size()} extent {datatype.Get_extent()} {datatype.is_predefined}")

vector = MPI.INT.Create_vector(3, 2, 5)
old, combiner, parameters = vector.decode()
print(f"rank {rank}: vector of ints {old == MPI.INT}, {combiner}, {parameters}")
print(f"rank {rank}: combiner {vector.Get_envelope()[4] == MPI.COMBINER_VECTOR}")
print(f"rank {rank}: size {vector.size}, extent {vector.extent}, true {vector.true_extent}, named {vector.is_named}")
struct = MPI.Datatype.Create_struct([1, 1], [0, 8], [MPI.INT, MPI.DOUBLE])
print(f"rank {rank}: struct {struct.decode()[1]}, {struct.decode()[2]['blocklengths']}, {struct.Get_size()}")
copy = vector.Dup()
print(f"rank {rank}: copy {copy.decode()[1]} {copy.Get_size()} {copy != vector}")

vector.Commit()
data = np.arange(15, dtype="i4") + rank
space = bytearray(vector.Pack_size(1, comm) + MPI.DOUBLE.Pack_size(2, comm))
position = vector.Pack(data, space, 0, comm)
position = MPI.DOUBLE.Pack(np.array([0.5, 1.5]), space, position, comm)
print(f"rank {rank}: packed {position} bytes")
if comm.size > 1:
    peer = 1 - rank
    other = bytearray(len(space))
    comm.Sendrecv([space, position, MPI.PACKED], dest=peer, recvbuf=[other, position, MPI.PACKED], source=peer)
    space = other
numbers, real = np.zeros(6, dtype="i4"), np.zeros(2)
place = MPI.INT.Unpack(space, 0, numbers, comm)
MPI.DOUBLE.Unpack(space, place, real, comm)
print(f"rank {rank}: unpacked {numbers.tolist()} {real.tolist()}")

outside = bytearray(MPI.INT.Pack_external_size("external32", 2))
MPI.INT.Pack_external("external32", np.array([1, 258], dtype="i4"), outside, 0)
print(f"rank {rank}: external32 {outside.hex()}")
print(f"rank {rank}: codes {MPI.DOUBLE.tocode()} {MPI.Datatype.fromcode('i4') == MPI.INT32_T} {MPI.INT.typechar}")
print(f"rank {rank}: numpy {np.dtype(MPI.FLOAT.tocode())} {MPI.Datatype.fromcode('d') == MPI.DOUBLE}")
vector.Set_name("my vector")
print(f"rank {rank}: name {vector.Get_name()}, {MPI.DOUBLE.Get_name()}")
for datatype in (vector, copy, struct):
    datatype.Free()
print(f"rank {rank}: null {vector == MPI.DATATYPE_NULL}, addresses {MPI.Get_address(data) != 0}")
