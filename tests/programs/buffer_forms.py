# ranks: 2 3
"""The ways to describe a buffer: arrays, slices, bytes, array.array, memoryview, and lists with count and type."""

import array

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size


def swap(label: str, outgoing: object, incoming: object) -> None:
    """Send to the right, receive from the left."""
    comm.Sendrecv(outgoing, dest=right, recvbuf=incoming, source=left)
    print(f"rank {rank}: {label}", end=" ")


base = np.arange(8, dtype="f8") + 100 * rank
box = np.zeros(8)
swap("array", base, box)
print(box.tolist())
box[:] = 0
swap("slices", base[2:5], box[1:4])
print(box.tolist())
box[:] = 0
swap("type", [base, MPI.DOUBLE], [box, MPI.DOUBLE])
print(box.tolist())
box[:] = 0
swap("count", [base, 3], [box, 3])
print(box.tolist())
box[:] = 0
swap("count and type", [base, 2, MPI.DOUBLE], [box, 5, MPI.DOUBLE])
print(box.tolist())
box[:] = 0
swap("count, displacement, type", [base, 2, 3, MPI.DOUBLE], [box, (2, 6), MPI.DOUBLE])
print(box.tolist())
box[:] = 0
swap("type code", [base, "d"], (box, "d"))
print(box.tolist())

data = bytearray(b"hello %d" % rank)
swap("bytes", bytes(data), data)
print(data.decode())
numbers = array.array("i", [rank, rank + 1, rank + 2])
received = array.array("i", [0, 0, 0])
swap("array.array", numbers, received)
print(received.tolist())
swap("memoryview", memoryview(numbers)[1:], memoryview(received)[:2])
print(received.tolist())
swap("scalar array", np.array(rank + 0.5), scalar := np.array(0.0))
print(scalar.item())
square = np.zeros((2, 2), dtype="i2")
swap("two dimensions", np.full((2, 2), rank, dtype="i2"), square)
print(square.tolist())
column_major = np.zeros((2, 3), order="F")
swap("column major", np.asfortranarray(np.arange(6.0).reshape(2, 3) + rank), column_major)
print(column_major.tolist())
for code in ("?", "i1", "u2", "u8", "f4", "c8", "c16"):
    swap(f"dtype {code}", (np.arange(3) + rank).astype(code), target := np.zeros(3, dtype=code))
    print(target.tolist())
swap("None with zero bytes", [None, 0, MPI.INT], [None, 0, MPI.INT])
print("ok")
memory = MPI.memory.allocate(4)
memory[:] = b"\x00\x01\x02\x03"
swap("MPI.memory", memory, copy := bytearray(4))
print(list(copy))

try:
    comm.Send(base[::2], dest=right)
except (ValueError, BufferError) as error:
    print(f"rank {rank}: a strided array is refused with {type(error).__name__}")
try:
    comm.Send([base, MPI.INT, 3, 4, 5], dest=right)
except ValueError as error:
    print(f"rank {rank}: a wrong form is refused with {type(error).__name__}")
