# ranks: 1 2 4 5
"""Neighbourhood collectives on Cartesian grids, blocking and not, v and w forms."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

for periodic in (False, True):
    grid = comm.Create_cart(MPI.Compute_dims(size, 2), periods=[periodic, periodic])
    kind = "torus" if periodic else "grid"
    degree = 4
    box = np.full(degree, -1, dtype="i4")
    grid.Neighbor_allgather(np.array([rank], dtype="i4"), box)
    print(f"rank {rank}: {kind} allgather {box.tolist()}")
    box[:] = -1
    grid.Neighbor_alltoall(np.arange(degree, dtype="i4") + 10 * rank, box)
    print(f"rank {rank}: {kind} alltoall {box.tolist()}")
    print(f"rank {rank}: {kind} neighbours {grid.indegree} {grid.outdegree} {len(grid.inedges)} {len(grid.outedges)}")
    box = np.full(2 * degree, -1, dtype="i4")
    grid.Neighbor_allgatherv(np.array([rank, rank], dtype="i4"), [box, [2] * degree])
    print(f"rank {rank}: {kind} allgatherv {box.tolist()}")
    counts = [2, 1, 1, 2]
    incoming = [1, 2, 2, 1]
    data = np.arange(6, dtype="i4") + 100 * rank
    if periodic:  # what leaves towards one side arrives from the other
        box = np.full(6, -1, dtype="i4")
        grid.Neighbor_alltoallv([data, counts], [box, incoming])
        print(f"rank {rank}: {kind} alltoallv {box.tolist()}")
    ones, starts, types = [1] * degree, [0, 4, 8, 12], [MPI.INT] * degree
    box = np.full(degree, -1, dtype="i4")
    grid.Neighbor_alltoallw([data, ones, starts, types], [box, ones, starts, types])
    print(f"rank {rank}: {kind} alltoallw {box.tolist()}")
    box[:] = -1
    grid.Ineighbor_allgather(np.array([rank + 50], dtype="i4"), box).Wait()
    print(f"rank {rank}: {kind} Ineighbor_allgather {box.tolist()}")
    box[:] = -1
    grid.Ineighbor_alltoall(data[:degree].copy(), box).Wait()
    print(f"rank {rank}: {kind} Ineighbor_alltoall {box.tolist()}")
    print(f"rank {rank}: {kind} objects {grid.neighbor_allgather(chr(65 + rank))}")
    print(f"rank {rank}: {kind} objects {grid.neighbor_alltoall([(rank, side) for side in range(degree)])}")
    grid.Free()
