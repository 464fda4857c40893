# ranks: 2 3 4 5
"""Graph communicators: a star with rank 0 in the middle, and collectives along its edges."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

edges = list(range(1, size)) + [0] * (size - 1)
index = [size - 1 + number for number in range(size)]
star = comm.Create_graph(index, edges, reorder=False)
print(f"rank {rank}: {type(star).__name__} {star.Get_topology() == MPI.GRAPH} {star.Get_dims()} {star.Get_topo()}")
print(f"rank {rank}: neighbours {[star.Get_neighbors(other) for other in range(size)]}")
print(f"rank {rank}: counts {[star.Get_neighbors_count(other) for other in range(size)]}")
print(f"rank {rank}: attributes {star.nneighbors} {star.neighbors} {star.nnodes} {star.nedges}")

degree = star.nneighbors
box = np.full(degree, -1)
star.Neighbor_allgather(np.array([rank * rank]), box)
print(f"rank {rank}: allgather {box.tolist()}")
box[:] = -1
star.Neighbor_alltoall(np.arange(degree) + 10 * rank, box)
print(f"rank {rank}: alltoall {box.tolist()}")
print(f"rank {rank}: objects {star.neighbor_allgather({'rank': rank})}")

# Parts of different sizes: rank r gives r + 1 numbers.
counts = [other + 1 for other in star.neighbors]
box = np.full(sum(counts), -1)
star.Neighbor_allgatherv(np.full(rank + 1, rank), [box, counts])
print(f"rank {rank}: allgatherv {box.tolist()}")
star.Ineighbor_allgatherv(np.full(rank + 1, -rank), [box, counts]).Wait()
print(f"rank {rank}: Ineighbor_allgatherv {box.tolist()}")
print(f"rank {rank}: in and out {star.inedges} {star.outedges}")

copy = star.Dup()
print(f"rank {rank}: copy {copy.Get_topo()}, map {comm.Graph_map(index, edges)}")
copy.Free()
star.Free()

# Fewer nodes than ranks: the rest gets nothing.
if size > 1:
    pair = comm.Create_graph([1, 2], [1, 0])
    print(f"rank {rank}: pair {pair != MPI.COMM_NULL}")
    if pair != MPI.COMM_NULL:
        print(f"rank {rank}: across {pair.neighbor_alltoall([rank])}")
        pair.Free()
