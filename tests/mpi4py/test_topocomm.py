"""Communicators with a virtual topology: what they say of themselves, and exchanges between neighbours."""

from itertools import product
from math import prod

import numpy as np
import pytest

from tests.mpi4py.ranks import values_of

GRIDS = [[1], [2], [3], [1, 2], [2, 2], [3, 1], [2, 3], [1, 1, 2], []]


@pytest.mark.parametrize("dims", GRIDS, ids=str)
def test_neighbours_on_a_grid_get_what_shift_and_sendrecv_give(dims):
    """Also where both neighbours are the same rank (rings of 2) or the rank itself (rings of 1)."""

    def program(periods):
        from mpi4py import MPI

        comm = MPI.COMM_WORLD.Create_cart(dims, periods=periods)
        edges = 2 * len(dims)
        mine = np.arange(edges) + 100 * comm.rank
        expected = np.full(edges, -1)
        for direction in range(len(dims)):
            below, above = 2 * direction, 2 * direction + 1
            source, dest = comm.Shift(direction, 1)
            comm.Sendrecv(mine[above : above + 1], dest, 0, expected[below : below + 1], source)
            comm.Sendrecv(mine[below : below + 1], source, 0, expected[above : above + 1], dest)
        got = []
        for name in ("Neighbor_alltoall", "Ineighbor_alltoall"):
            got.append(np.full(edges, -1))
            request = getattr(comm, name)(mine, got[-1])
            if request is not None:
                request.Wait()
        got.append(np.full(edges, -1))
        comm.Neighbor_alltoallv([mine, [1] * edges], [got[-1], [1] * edges])
        got.append(np.full(edges, -1))
        places = [8 * edge for edge in range(edges)]
        spec = ([1] * edges, places), [MPI.INT64_T] * edges
        comm.Neighbor_alltoallw([mine, *spec], [got[-1], *spec])
        objects = comm.neighbor_alltoall(mine.tolist())
        got.append(np.array([-1 if item is None else item for item in objects], int))
        return expected, got, comm.inedges, comm.outedges, comm.neighbor_allgather(comm.rank)

    for periods in product([False, True], repeat=len(dims)):
        for expected, got, inedges, outedges, ranks in values_of(program, list(periods), ranks=prod(dims)):
            for each in got:
                np.testing.assert_array_equal(each, expected)
            assert inedges == outedges
            assert ranks == [None if rank < 0 else rank for rank in inedges]


def test_a_grid_knows_its_shape_and_places():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD.Create_cart([2, 3], periods=[True, False])
        if comm == MPI.COMM_NULL:
            return type(comm).__name__
        row, column = comm.Sub([False, True]), comm.Sub([True, False])
        copy = comm.Dup()
        return {
            "topo": comm.topo,
            "kind": (comm.topology == MPI.CART, comm.is_topo, comm.degrees, type(comm).__name__),
            "places": [comm.Get_coords(rank) for rank in range(comm.size)],
            "ranks": [comm.Get_cart_rank([row, column]) for row in range(-1, 3) for column in range(3)],
            "row": (row.topo, row.rank, row.allgather(comm.rank)),
            "column": (column.topo, column.rank, column.allgather(comm.rank)),
            "copy": (type(copy).__name__, copy.topo, copy.Compare(comm) == MPI.CONGRUENT),
            "split": (type(comm.Split()).__name__, comm.Split().topology == MPI.UNDEFINED),
        }

    values = values_of(program, ranks=7)
    assert values[6] == "Cartcomm"
    for rank, value in enumerate(values[:6]):
        at = divmod(rank, 3)
        topo = ([2, 3], [1, 0], list(at))
        assert value["topo"] == topo
        assert value["kind"] == (True, True, (4, 4), "Cartcomm")
        assert value["places"] == [list(divmod(other, 3)) for other in range(6)]
        assert value["ranks"] == [3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2]
        assert value["row"] == (([3], [0], [at[1]]), at[1], [3 * at[0], 3 * at[0] + 1, 3 * at[0] + 2])
        assert value["column"] == (([2], [1], [at[0]]), at[0], [at[1], 3 + at[1]])
        assert value["copy"] == ("Cartcomm", topo, True)
        assert value["split"] == ("Intracomm", True)


def test_a_graph_that_all_know():
    def program():
        from mpi4py import MPI

        index, edges = [2, 3, 4, 6], [1, 3, 0, 3, 0, 2]  # the example of the standard
        comm = MPI.COMM_WORLD.Create_graph(index, edges)
        same = MPI.COMM_WORLD.Create_graph([0, *index], edges)
        told = np.full(comm.indegree, -1)
        comm.Ineighbor_allgather(np.array([comm.rank]), told).Wait()
        return comm.topo == (index, edges) == same.topo, comm.dims, comm.neighbors, comm.nneighbors, told.tolist()

    for rank, value in enumerate(values_of(program, ranks=4)):
        neighbors = [[1, 3], [0], [3], [0, 2]][rank]
        assert value == (True, (4, 6), neighbors, len(neighbors), neighbors)


def test_a_graph_whose_edges_each_rank_knows():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        me, size = comm.rank, comm.size
        ring = comm.Create_dist_graph_adjacent([(me - 1) % size], [(me + 1) % size], [me], [(me + 1) % size])
        got = np.zeros(1, int)
        ring.Neighbor_alltoall(np.array([me]), got)
        twice = comm.Create_dist_graph_adjacent([(me - 1) % size] * 2, [(me + 1) % size] * 2)
        both = np.zeros(2, int)
        twice.Neighbor_alltoall(np.array([me, 10 + me]), both)
        count = ring.Get_dist_neighbors_count()
        return ring.Get_dist_neighbors(), count, got[0], twice.Get_dist_neighbors(), both.tolist()

    for rank, (edges, count, got, same, both) in enumerate(values_of(program, ranks=5)):
        before, after = (rank - 1) % 5, (rank + 1) % 5
        assert edges == ([before], [after], ([rank], [after]))
        assert count == (1, 1, True)
        assert got == before
        assert same == ([before] * 2, [after] * 2, None)
        assert both == [before, 10 + before]


@pytest.mark.parametrize("size", [1, 2, 3, 6, 8])
def test_a_graph_whose_edges_anybody_knows(size):
    def edges_given_by(rank):
        chance = np.random.default_rng(rank)
        return [(*map(int, chance.integers(0, size, 2)), 10 * rank + place) for place in range(rank % 4 + 1)]

    def program():
        from mpi4py import MPI

        given = edges_given_by(MPI.COMM_WORLD.rank)
        starts, ends, weights = map(list, zip(*given, strict=True))
        comm = MPI.COMM_WORLD.Create_dist_graph(starts, [1] * len(starts), ends, weights)
        return comm.Get_dist_neighbors()

    edges = [edge for rank in range(size) for edge in edges_given_by(rank)]
    for rank, (sources, dests, (source_weights, dest_weights)) in enumerate(values_of(program, ranks=size)):
        arriving = [(start, weight) for start, end, weight in edges if end == rank]
        leaving = [(end, weight) for start, end, weight in edges if start == rank]
        assert sorted(zip(sources, source_weights, strict=True)) == sorted(arriving)
        assert sorted(zip(dests, dest_weights, strict=True)) == sorted(leaving)


def test_weights_are_plain_integers_whatever_they_were():
    class Two:
        def __index__(self) -> int:
            return 2

    def program():
        from mpi4py import MPI

        graph = MPI.COMM_WORLD.Create_dist_graph_adjacent([0, 0], [0], [np.int64(2), True], [Two()])
        return [type(weight) for weights in graph.Get_dist_neighbors()[2] for weight in weights]

    assert values_of(program, ranks=1) == [[int, int, int]]


@pytest.mark.parametrize("edges", [[], [0], [0, 1]])
def test_arrays_name_edges_whatever_their_truth_would_be(edges):
    def program():
        from mpi4py import MPI

        given = np.array(edges, dtype=np.int32)
        return MPI.COMM_WORLD.Create_dist_graph_adjacent(given, given).Get_dist_neighbors()

    assert values_of(program, ranks=2) == [(edges, edges, None)] * 2


def wrong(name):
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    grid, graph = world.Create_cart([world.size]), world.Create_graph([1], [0])
    call = {
        "too large": lambda: world.Create_cart([world.size + 1]),
        "periods": lambda: world.Create_cart([1], [True, False]),
        "index": lambda: world.Create_graph([2, 1], [0, 0]),
        "coords": lambda: grid.Get_cart_rank([world.size]),
        "dimensions": lambda: grid.Get_cart_rank([0, 0]),
        "rank": lambda: grid.Get_coords(world.size),
        "direction": lambda: grid.Shift(1, 1),
        "remain": lambda: grid.Sub([True, False]),
        "source": lambda: world.Create_dist_graph_adjacent([world.size], [0]),
        "weights": lambda: world.Create_dist_graph_adjacent([0], [0], [1, 2], [1]),
        "empty": lambda: world.Create_dist_graph_adjacent([0], [0], MPI.WEIGHTS_EMPTY, MPI.WEIGHTS_EMPTY),
        "none": lambda: MPI.Cartcomm(world),
        "other": lambda: MPI.Graphcomm(grid),
        "null": lambda: MPI.Cartcomm().Get_dim(),
        "graph": lambda: graph.Get_neighbors(world.size) if graph else grid.Get_coords(-1),
    }[name]
    try:
        call()
    except MPI.Exception as error:
        names = {getattr(MPI, each): each for each in dir(MPI) if each.startswith("ERR_")}
        return names[error.Get_error_class()]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    ("name", "raised"),
    [  # as mpi4py with MPICH, and with Open MPI where that breaks down
        ("too large", "ERR_ARG"),
        ("periods", "ValueError: expecting 1 items, got 2"),
        ("index", "ERR_ARG"),
        ("coords", "ERR_ARG"),
        ("dimensions", "ValueError: expecting 1 items, got 2"),
        ("rank", "ERR_RANK"),
        ("direction", "ERR_ARG"),
        ("remain", "ValueError: expecting 1 items, got 2"),
        ("source", "ERR_ARG"),
        ("weights", "ValueError: expecting 1 items, got 2"),
        ("empty", "ValueError: empty weights but nonzero degree"),
        ("none", "TypeError: expecting a topology communicator"),
        ("other", "TypeError: expecting a general graph communicator"),
        ("null", "ERR_COMM"),
        ("graph", "ERR_RANK"),
    ],
)
def test_wrong_topologies_raise_what_mpi4py_raises(name, raised):
    assert values_of(wrong, name, ranks=3) == [raised] * 3


def test_edges_behind_the_last_end_do_not_count():
    def program():
        from mpi4py import MPI

        graph = MPI.COMM_WORLD.Create_graph([1, 2], [1, 0, 5, 7])
        return graph.Get_dims(), graph.Get_topo(), graph.neighbor_allgather(graph.rank)

    assert values_of(program, ranks=2) == [((2, 2), ([1, 2], [1, 0]), [1]), ((2, 2), ([1, 2], [1, 0]), [0])]


def test_where_ranks_would_be():
    def program():
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        return world.Cart_map([2]), world.Graph_map([1], [0]), MPI.UNDEFINED

    (first, one, out), second, third = values_of(program, ranks=3)
    assert (first, one) == (0, 0)
    assert second[:2] == (1, out)
    assert third[:2] == (out, out)


def test_a_graph_of_one_rank_without_edges_is_no_communicator():
    """Found by tests/fuzz: mpi4py takes the leading 0 of the usual adjacency arrays away, and nothing is left."""

    def program():
        from mpi4py import MPI

        return MPI.COMM_SELF.Create_graph([0], []) == MPI.COMM_NULL, MPI.COMM_SELF.Create_graph([0, 0], []).nnodes

    assert values_of(program, ranks=1) == [(True, 1)]
