"""The twin of topologies.c."""

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
me, size = world.rank, world.size


def show(what: str, values: object) -> None:
    print(f"{me}: {what} {' '.join(map(str, np.asarray(values).ravel()))}")


def grids() -> None:
    dims = MPI.Compute_dims(size, 2)
    grid = world.Create_cart(dims, [True, False])
    coords = grid.Get_coords(me)
    rank, ends = grid.Get_cart_rank(coords), grid.Shift(1, 1)
    print(f"{me}: grid {dims[0]} {dims[1]}, rank {rank}, coords {coords[0]} {coords[1]}, 1")
    show("periods", grid.Get_topo()[1])
    show("ends", ends)
    values = np.full(4, -1, "i")
    grid.Neighbor_allgather(np.array([me], "i"), values)
    show("neighbours", values)
    row = grid.Sub([True, False])
    print(f"{me}: row of {row.size}")
    print(f"{me}: mapped {world.Cart_map(dims, [True, False])}")
    row.Free()
    grid.Free()


def graphs() -> None:
    rank = world.Graph_map([1, 2], [1, 0])
    graph = world.Create_graph([1, 2], [1, 0])
    print(f"{me}: graph {int(graph == MPI.COMM_NULL)} {int(rank == MPI.UNDEFINED)}")
    if graph == MPI.COMM_NULL:
        return
    nodes, edges = graph.Get_dims()
    neighbours = graph.Get_neighbors(me)
    print(f"{me}: {nodes} nodes, {edges} edges, {graph.Get_neighbors_count(me)} neighbours: {neighbours[0]}")
    index, ends = graph.Get_topo()
    show("index", index)
    show("edges", ends)
    graph.Free()


def distributed() -> None:
    left, right = (me - 1) % size, (me + 1) % size
    graph = world.Create_dist_graph_adjacent([left], [right])
    arriving, leaving, weighted = graph.Get_dist_neighbors_count()
    sources, destinations, _ = graph.Get_dist_neighbors()
    print(f"{me}: adjacent {arriving} {leaving} {int(weighted)}: {sources[0]} {destinations[0]}")
    graph.Free()
    graph = world.Create_dist_graph([me], [2], [left, right], [me, me + 1])
    sources, destinations, weights = graph.Get_dist_neighbors()
    show("to", destinations)
    show("weights", [] if weights is None else weights[1])
    arriving, leaving, weighted = graph.Get_dist_neighbors_count()
    print(f"{me}: counts {arriving} {leaving} {int(weighted)}")
    graph.Neighbor_alltoall(np.array(destinations, "i"), np.array(sources, "i"))
    graph.Free()


grids()
graphs()
distributed()
