# ranks: 1 2 4 5
"""Distributed graphs: directed edges with weights, and exchanges along them."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

# Everyone listens to the rank before and to the one two before, and so sends to the next two.
sources = [(rank - 1) % size, (rank - 2) % size]
destinations = [(rank + 1) % size, (rank + 2) % size]
ring = comm.Create_dist_graph_adjacent(sources, destinations, sourceweights=[1, 2], destweights=[1, 2])
print(f"rank {rank}: {type(ring).__name__} {ring.Get_topology() == MPI.DIST_GRAPH}")
print(f"rank {rank}: counts {ring.Get_dist_neighbors_count()[:2]}, neighbours {ring.Get_dist_neighbors()}")
box = np.full(2, -1)
ring.Neighbor_allgather(np.array([rank]), box)
print(f"rank {rank}: allgather {box.tolist()}")
ring.Neighbor_alltoall(np.array([rank, 100 + rank]), box)
print(f"rank {rank}: alltoall {box.tolist()}")
print(f"rank {rank}: objects {ring.neighbor_alltoall([('one', rank), ('two', rank)])}")
ring.Ineighbor_alltoall(np.array([-rank, -100 - rank]), box).Wait()
print(f"rank {rank}: Ineighbor_alltoall {box.tolist()}")
box = np.full(3, -1)
ring.Neighbor_alltoallv([np.array([rank, 7, 8]), [1, 2]], [box, [1, 2]])
print(f"rank {rank}: alltoallv {box.tolist()}")
ring.Ineighbor_alltoallv([np.array([rank, 9, 10]), [1, 2]], [box, [1, 2]]).Wait()
print(f"rank {rank}: Ineighbor_alltoallv {box.tolist()}")
types, places = [MPI.LONG] * 2, [0, 8]
box[:] = -1
ring.Ineighbor_alltoallw([np.array([rank, 3]), [1, 1], places, types], [box, [1, 1], places, types]).Wait()
print(f"rank {rank}: Ineighbor_alltoallw {box.tolist()}")
ring.Free()

# Edges that others declare: rank 0 draws a star from itself to all the others.
targets = list(range(1, size))
edges = ([0], [len(targets)], targets) if rank == 0 else ([], [], [])
star = comm.Create_dist_graph(*edges)
incoming, outgoing, weights = star.Get_dist_neighbors()
print(f"rank {rank}: star in {incoming} out {sorted(outgoing)} weights {weights}")
got = np.full(len(incoming), -1)
star.Neighbor_allgather(np.array([rank + 42]), got)
print(f"rank {rank}: from the middle {got.tolist()}")
star.Free()

nobody = comm.Create_dist_graph_adjacent([], [])
print(f"rank {rank}: nobody {nobody.Get_dist_neighbors()[:2]} {nobody.neighbor_allgather(rank)}")
nobody.Free()
