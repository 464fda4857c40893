"""Topologies against the real MPI, and grids against networkx and plain arithmetic."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.mpi import constants as c
from xsim_py.mpi.errors import Exception as MpiError
from xsim_py.mpi.topology import Cartesian, DistGraph, Graph, check_edges, dims_create, gather_edges, weights_of

SIZES = [*range(1, 200), 720, 1008, 1024, 4096, 5040, 46080, 65076, 119952, 590520]
DIMENSIONS = [(n, [0] * k) for k in range(1, 6) for n in SIZES]
CONSTRAINED = [
    (n, list(dims))
    for n in (1, 6, 12, 24, 36, 60)
    for k in (1, 2, 3)
    for dims in itertools.product((0, 1, 2, 3, -1), repeat=k)
]

REAL_MPI = """
import json, sys
from mpi4py import MPI
def dims(n, d):
    try:
        return MPI.Compute_dims(n, d)
    except MPI.Exception as problem:
        return "ERR_DIMS" if problem.error_class == MPI.ERR_DIMS else str(problem)
json.dump([dims(n, d) for n, d in json.load(sys.stdin)], sys.stdout)
"""


def test_dimensions_are_those_of_a_real_mpi():
    cases = DIMENSIONS + CONSTRAINED
    real = subprocess.run(
        [sys.executable, "-c", REAL_MPI], input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    ours = [outcome(n, dims) for n, dims in cases]
    assert ours == json.loads(real.stdout)


def outcome(nnodes: int, dims: list[int]) -> list[int] | str:
    try:
        return dims_create(nnodes, dims)
    except MpiError as problem:
        return "ERR_DIMS" if problem.error_class == c.ERR_DIMS else str(problem)


@pytest.mark.parametrize("nnodes", [0, -4])
def test_no_processes_have_no_dimensions(nnodes):
    assert outcome(nnodes, [0, 0]) == "ERR_DIMS"


grids = st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=4).map(
    lambda sides: Cartesian(tuple(n for n, _ in sides), tuple(ring for _, ring in sides))
)


@given(grids)
def test_the_last_coordinate_is_the_fastest(grid):
    places = list(itertools.product(*map(range, grid.dims)))
    assert [tuple(grid.coords(rank)) for rank in range(grid.size)] == places
    assert [grid.rank(place) for place in places] == list(range(grid.size))


@given(grids)
def test_neighbours_are_those_of_the_lattice(grid):
    lattice = nx.Graph()
    lattice.add_nodes_from(itertools.product(*map(range, grid.dims)))
    for place in list(lattice):
        for direction, (dim, ring) in enumerate(zip(grid.dims, grid.periods, strict=True)):
            above = place[direction] + 1
            if ring or above < dim:
                lattice.add_edge(place, (*place[:direction], above % dim, *place[direction + 1 :]))
    for rank in range(grid.size):
        sources, destinations = grid.neighbors(rank)
        assert sources == destinations
        found = {tuple(grid.coords(neighbor)) for neighbor in sources if neighbor != c.PROC_NULL}
        assert found == set(lattice[tuple(grid.coords(rank))])


@given(grids, st.integers(-9, 9), st.data())
def test_a_shift_is_undone_by_its_opposite(grid, disp, data):
    if not grid.dims:
        return
    direction = data.draw(st.sampled_from(range(len(grid.dims))))
    for rank in range(grid.size):
        source, destination = grid.shift(rank, direction, disp)
        assert grid.shift(rank, direction, -disp) == (destination, source)
        if destination != c.PROC_NULL:
            assert grid.shift(destination, direction, disp)[0] == rank


def test_neighbours_come_dimension_by_dimension_first_below_then_above():
    grid = Cartesian((3, 4), (False, True))
    assert grid.neighbors(grid.rank([1, 0]))[0] == [grid.rank(place) for place in ([0, 0], [2, 0], [1, 3], [1, 1])]
    assert grid.neighbors(0)[0] == [c.PROC_NULL, 4, 3, 1]


def test_coordinates_wrap_around_a_ring_only():
    grid = Cartesian((2, 3), (True, False))
    assert grid.rank([-1, 2]) == grid.rank([5, 2]) == 5
    with pytest.raises(MpiError) as caught:
        grid.rank([0, 3])
    assert caught.value.error_class == c.ERR_ARG


@given(grids, st.data())
def test_the_parts_of_a_grid_cover_it(grid, data):
    remain = data.draw(st.lists(st.booleans(), min_size=len(grid.dims), max_size=len(grid.dims)))
    parts: dict[int, list[int]] = {}
    for rank in range(grid.size):
        part, place, topology = grid.sub(rank, remain)
        parts.setdefault(part, []).append(place)
        kept = [coord for coord, stays in zip(grid.coords(rank), remain, strict=True) if stays]
        assert topology.coords(place) == kept
        assert topology.dims == tuple(dim for dim, stays in zip(grid.dims, remain, strict=True) if stays)
    assert all(sorted(places) == list(range(len(places))) for places in parts.values())


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: Cartesian((2, 4), (False, False)).check(6), c.ERR_ARG),
        (lambda: Cartesian((-1, 2), (False, False)).check(6), c.ERR_DIMS),
        (lambda: Cartesian((2,), (True,)).shift(0, 1, 1), c.ERR_ARG),
        (lambda: Cartesian((2,), (True,)).shift(0, -1, 1), c.ERR_ARG),
        (lambda: Cartesian((2,), (True,)).coords(2), c.ERR_RANK),
        (lambda: Graph((2, 1), (0, 1)).check(4), c.ERR_ARG),
        (lambda: Graph((1, 2), (0,)).check(4), c.ERR_ARG),
        (lambda: Graph((1, 2), (0, 4)).check(4), c.ERR_ARG),
        (lambda: Graph((1, 2), (0, 2)).check(4), c.ERR_ARG),
        (lambda: Graph((1, 2), (0, -1)).check(4), c.ERR_ARG),
        (lambda: Graph((0,) * 5, ()).check(4), c.ERR_ARG),
        (lambda: Graph((1, 2), (1, 0)).of(2), c.ERR_RANK),
        (lambda: Graph((1, 2), (1, 0)).of(-1), c.ERR_RANK),
        (lambda: DistGraph((4,), ()).check(4), c.ERR_ARG),
        (lambda: DistGraph((1,), (2,), (3,), (-1,)).check(4), c.ERR_ARG),
        (lambda: check_edges([0, 9], 4), c.ERR_ARG),
        (lambda: check_edges([0], 4, (-2,)), c.ERR_ARG),
    ],
)
def test_what_is_no_topology_is_an_error(call, error):
    with pytest.raises(MpiError) as caught:
        call()
    assert caught.value.error_class == error


def test_the_neighbours_in_a_graph():
    graph = Graph((2, 3, 4, 6), (1, 3, 0, 3, 0, 2))
    graph.check(4)
    assert [graph.of(rank) for rank in range(4)] == [[1, 3], [0], [3], [0, 2]]


def test_scattered_edges_keep_the_order_of_those_who_gave_them():
    given_by_rank = [[(2, 3, 10)], [(0, 3, 11), (3, 1, 12)], [], [(2, 3, 13), (3, 3, 14)]]
    assert gather_edges(3, given_by_rank, weighted=True) == DistGraph((2, 0, 2, 3), (1, 3), (10, 11, 13, 14), (12, 14))
    assert gather_edges(2, given_by_rank, weighted=False) == DistGraph((), (3, 3))


def test_weights_are_a_list_or_nothing():
    assert weights_of(None, 2) is weights_of(c.UNWEIGHTED, 2) is None
    assert weights_of([3, 4], 2) == (3, 4)
    assert weights_of(c.WEIGHTS_EMPTY, 0) == weights_of([], 0) == ()
    with pytest.raises(ValueError, match="expecting 2 items, got 1"):
        weights_of([3], 2)
    with pytest.raises(ValueError, match="empty weights but nonzero degree"):
        weights_of(c.WEIGHTS_EMPTY, 1)
