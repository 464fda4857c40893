# ranks: 1 2 3 5
"""Prefix reductions: Scan and Exscan, buffers and objects."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

for name, op in (("SUM", MPI.SUM), ("PROD", MPI.PROD), ("MAX", MPI.MAX), ("BOR", MPI.BOR)):
    value = np.array([rank + 1, (rank * 3) % 4], dtype="i8")
    box = np.zeros(2, dtype="i8")
    comm.Scan(value, box, op=op)
    print(f"rank {rank}: Scan {name} {box.tolist()}")
    box[:] = -1
    comm.Exscan(value, box, op=op)
    if rank > 0:  # undefined on rank 0
        print(f"rank {rank}: Exscan {name} {box.tolist()}")

box = np.array([rank + 1.5])
comm.Scan(MPI.IN_PLACE, box)
print(f"rank {rank}: in place {box.tolist()}")
box = np.array([rank + 1.5])
comm.Exscan(MPI.IN_PLACE, box)
if rank > 0:
    print(f"rank {rank}: Exscan in place {box.tolist()}")

print(f"rank {rank}: scan {comm.scan(rank)}, exscan {comm.exscan(rank)}")
print(f"rank {rank}: words {comm.scan(chr(97 + rank))} {comm.exscan(chr(97 + rank))}")
print(f"rank {rank}: largest {comm.scan((rank * 2) % 5, op=MPI.MAX)} {comm.exscan((rank * 2) % 5, op=MPI.MAX)}")
print(f"rank {rank}: lists {comm.scan([rank], op=lambda left, right: left + right)}")

box = np.zeros(1, dtype=int)
comm.Iscan(np.array([rank]), box).Wait()
print(f"rank {rank}: Iscan {box[0]}")
comm.Iexscan(np.array([rank]), box).Wait()
if rank > 0:
    print(f"rank {rank}: Iexscan {box[0]}")
