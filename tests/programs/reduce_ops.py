# ranks: 1 2 3 5
"""Reduce and Allreduce with every predefined operation and many types."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
root = size // 2

arithmetic = {"SUM": MPI.SUM, "PROD": MPI.PROD, "MAX": MPI.MAX, "MIN": MPI.MIN}
logical = {"LAND": MPI.LAND, "LOR": MPI.LOR, "LXOR": MPI.LXOR}
bitwise = {"BAND": MPI.BAND, "BOR": MPI.BOR, "BXOR": MPI.BXOR}
values = np.array([rank + 1, (7 * rank) % 5, 2 - rank, 3])

for code in ("i1", "i2", "i4", "i8", "u4", "f4", "f8"):
    for name, op in arithmetic.items():
        result = np.zeros(4, dtype=code)
        comm.Allreduce(np.abs(values).astype(code), result, op=op)
        print(f"rank {rank}: Allreduce {name} {code} {result.tolist()}")
for name, op in {**logical, **bitwise}.items():
    result = np.zeros(4, dtype="i4")
    comm.Reduce((values % 4).astype("i4"), result if rank == root else None, op=op, root=root)
    if rank == root:
        print(f"rank {rank}: Reduce {name} {result.tolist()}")
for name, op in (("SUM", MPI.SUM), ("PROD", MPI.PROD)):
    result = np.zeros(2, dtype="c16")
    comm.Allreduce(np.array([rank + 1j, 1 - rank * 1j]), result, op=op)
    print(f"rank {rank}: complex {name} {result.tolist()}")
for name, op in logical.items():
    result = np.zeros(2, dtype="?")
    comm.Allreduce(np.array([rank == 0, rank < size]), result, op=op)
    print(f"rank {rank}: bool {name} {result.tolist()}")

for one in range(size):
    box = np.zeros(3, dtype="i8")
    comm.Reduce(np.arange(3) * (rank + 1), box, op=MPI.SUM, root=one)
    print(f"rank {rank}: root {one} {box.tolist() if rank == one else None}")

# In place.
box = np.array([rank, rank + 1])
comm.Allreduce(MPI.IN_PLACE, box, op=MPI.MAX)
print(f"rank {rank}: in place {box.tolist()}")
box = np.array([rank, 1])
comm.Reduce(MPI.IN_PLACE if rank == 0 else box, box if rank == 0 else None, op=MPI.SUM, root=0)
print(f"rank {rank}: Reduce in place {box.tolist()}")

for length in (1, 1000, 30_000):
    box = np.zeros(length, dtype="i8")
    comm.Allreduce(np.arange(length) % 7 + rank, box)
    print(f"rank {rank}: length {length}, {box.sum()} {box[-1]}")
