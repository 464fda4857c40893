# ranks: 1 2 3 5
"""Operations the user defines: commutative, not commutative, and on derived types."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size


def complex_product(a: object, b: object, datatype: MPI.Datatype) -> None:
    """Multiply pairs of doubles as complex numbers."""
    left, right = np.frombuffer(a, dtype="c16"), np.frombuffer(b, dtype="c16")
    right *= left


def matrix_product(a: object, b: object, datatype: MPI.Datatype) -> None:
    """Multiply 2 x 2 integer matrices, which does not commute: b = a @ b."""
    left = np.frombuffer(a, dtype="i8").reshape(-1, 2, 2)
    right = np.frombuffer(b, dtype="i8").reshape(-1, 2, 2)
    right[:] = left @ right


commutative = MPI.Op.Create(complex_product, commute=True)
ordered = MPI.Op.Create(matrix_product, commute=False)
print(f"rank {rank}: commute {commutative.Is_commutative()} {ordered.Is_commutative()} {MPI.SUM.Is_commutative()}")

box = np.zeros(2, dtype="c16")
comm.Allreduce(np.array([rank + 1j, 1 - 1j]), box, op=commutative)
print(f"rank {rank}: complex {np.round(box, 6).tolist()}")

matrix = MPI.INT64_T.Create_contiguous(4).Commit()
mine = np.array([[1, rank + 1], [rank % 2, 1]], dtype="i8")
box = np.zeros((2, 2), dtype="i8")
comm.Allreduce([mine, 1, matrix], [box, 1, matrix], op=ordered)
print(f"rank {rank}: matrix {box.tolist()}")
for root in range(size):
    box[:] = 0
    comm.Reduce([mine, 1, matrix], [box, 1, matrix], op=ordered, root=root)
    if rank == root:
        print(f"rank {rank}: matrix at root {box.tolist()}")
comm.Scan([mine, 1, matrix], [box, 1, matrix], op=ordered)
print(f"rank {rank}: prefix {box.tolist()}")
comm.Exscan([mine, 1, matrix], [box, 1, matrix], op=ordered)
print(f"rank {rank}: before {box.tolist() if rank else None}")
many = np.tile(mine, (3 * size, 1, 1)).astype("i8")
box = np.zeros((3, 2, 2), dtype="i8")
comm.Reduce_scatter_block([many, 3, matrix], [box, 3, matrix], op=ordered)
print(f"rank {rank}: scattered {box[2].tolist()}")

# Locally, and called as a function on objects.
inout = np.array([2.0, 3.0])
MPI.PROD.Reduce_local(np.array([5.0, 7.0]), inout)
print(f"rank {rank}: local {inout.tolist()}, called {MPI.SUM('a', 'b')} {MPI.MAX(2, 3)} {MPI.LXOR(True, True)}")
inout = np.array([0, 1, 1, 0], dtype="i8")
ordered.Reduce_local([mine, 1, matrix], [inout, 1, matrix])
print(f"rank {rank}: local product {inout.tolist()}")
matrix.Free()
commutative.Free()
ordered.Free()
print(f"rank {rank}: freed {ordered == MPI.OP_NULL}")
