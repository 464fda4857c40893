# ranks: 1 2 3
"""Indexed types in their four forms."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size
data = np.arange(16, dtype="i4") + 100 * rank

types = {
    "indexed": MPI.INT.Create_indexed([2, 0, 3, 1], [10, 4, 0, 15]),
    "indexed_block": MPI.INT.Create_indexed_block(2, [12, 1, 6]),
    "hindexed": MPI.INT.Create_hindexed([1, 2, 3], [4 * 9, 0, 4 * 3]),
    "hindexed_block": MPI.INT.Create_hindexed_block(2, [4 * 7, 4 * 3, 4 * 5]),
}
for name, datatype in types.items():
    datatype.Commit()
    count = datatype.Get_size() // 4
    packed = np.zeros(count, dtype="i4")
    comm.Sendrecv([data, 1, datatype], dest=right, recvbuf=packed, source=left)
    print(f"rank {rank}: {name} gathered {packed.tolist()}")
    spread = np.full(16, -1, dtype="i4")
    status = MPI.Status()
    comm.Sendrecv(packed, dest=right, recvbuf=[spread, 1, datatype], source=left, status=status)
    print(f"rank {rank}: {name} scattered {spread.tolist()}, count {status.Get_count(datatype)}")
    print(f"rank {rank}: {name} extent {datatype.Get_extent()}, true {datatype.Get_true_extent()}")

# The upper triangle of a matrix.
triangle = MPI.DOUBLE.Create_indexed([4, 3, 2, 1], [0, 5, 10, 15]).Commit()
matrix = np.arange(16.0).reshape(4, 4) * (rank + 1)
upper = np.zeros((4, 4))
comm.Sendrecv([matrix, 1, triangle], dest=right, recvbuf=[upper, 1, triangle], source=left)
print(f"rank {rank}: triangle {upper.tolist()}")

# A type of types.
outer = types["indexed_block"].Create_contiguous(1).Commit()
packed = np.zeros(6, dtype="i4")
comm.Sendrecv([data, 1, outer], dest=right, recvbuf=packed, source=left)
print(f"rank {rank}: nested {packed.tolist()}")
for datatype in (*types.values(), triangle, outer):
    datatype.Free()
