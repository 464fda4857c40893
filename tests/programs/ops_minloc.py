# ranks: 1 2 3 5
"""MAXLOC and MINLOC on the pair types, and their objects."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

for name, mpi_type, code in (
    ("DOUBLE_INT", MPI.DOUBLE_INT, "f8"),
    ("FLOAT_INT", MPI.FLOAT_INT, "f4"),
    ("INT_INT", MPI.INT_INT, "i4"),
    ("LONG_INT", MPI.LONG_INT, "i8"),
    ("SHORT_INT", MPI.SHORT_INT, "i2"),
):
    pair = np.dtype([("value", code), ("place", "i4")], align=True)
    mine = np.zeros(3, dtype=pair)
    mine["value"] = [(3 * rank) % 4, -rank, 5]  # the last is a tie, which the lowest rank wins
    mine["place"] = rank
    for op_name, op in (("MAXLOC", MPI.MAXLOC), ("MINLOC", MPI.MINLOC)):
        box = np.zeros(3, dtype=pair)
        comm.Allreduce([mine, 3, mpi_type], [box, 3, mpi_type], op=op)
        print(f"rank {rank}: {name} {op_name} {box.tolist()}")
    print(f"rank {rank}: {name} size {mpi_type.Get_size()}, extent {mpi_type.Get_extent()}")

print(f"rank {rank}: objects {comm.allreduce((rank % 2, rank), op=MPI.MAXLOC)}")
print(f"rank {rank}: smallest {comm.reduce((rank % 2, rank), op=MPI.MINLOC, root=0)}")
print(f"rank {rank}: words {comm.allreduce(('ba'[rank % 2], rank), op=MPI.MINLOC)}")
print(f"rank {rank}: prefix {comm.scan((-(rank % 3), rank), op=MPI.MINLOC)}")
