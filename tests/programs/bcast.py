# ranks: 1 2 3 5
"""Bcast from every root, of many types and sizes."""

import zlib

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

for root in range(size):
    data = np.arange(5) * (root + 1) if rank == root else np.zeros(5, dtype=int)
    comm.Bcast(data, root=root)
    print(f"rank {rank}: root {root} {data.tolist()}")
    print(f"rank {rank}: object {comm.bcast({'root': root, 'data': (1, None)} if rank == root else None, root=root)}")

for size_bytes in (0, 1, 2047, 2048, 12288, 100_000, 600_001):
    data = np.zeros(size_bytes, dtype=np.uint8)
    if rank == 0:
        data[:] = np.random.default_rng(size_bytes).integers(0, 256, size_bytes)
    comm.Bcast(data)
    print(f"rank {rank}: {size_bytes} bytes, crc {zlib.crc32(data):08x}")

for code in ("i1", "u2", "i4", "f4", "f8", "c16", "?"):
    data = np.arange(4).astype(code) if rank == 0 else np.zeros(4, dtype=code)
    comm.Bcast(data, 0)
    print(f"rank {rank}: {code} {data.tolist()}")

text = bytearray(b"from the root" if rank == size - 1 else b"." * 13)
comm.Bcast([text, MPI.CHAR], root=size - 1)
print(f"rank {rank}: {text.decode()}")

# The root's object stays its own; the others get copies.
mine = [rank]
got = comm.bcast(mine, root=0)
got.append("changed")
print(f"rank {rank}: identity {got is mine}, {mine}")
