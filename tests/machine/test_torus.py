"""Tori: distances and routes against breadth-first search, and against the published tables."""

from __future__ import annotations

import itertools
import math
import timeit

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from xsim_py.machine.torus import Torus, Twist, fitting_dims, half_twists

# Computed by breadth-first search over all pairs, in the project's reference notes: dims, twisted, diameter, mean.
TABLE = [
    ((8, 4), False, 6, 3.0968),
    ((8, 4), True, 4, 2.7097),
    ((16, 8), False, 12, 6.0472),
    ((16, 8), True, 8, 5.3543),
    ((8, 4, 4), False, 8, 4.0315),
    ((8, 4, 4), True, 6, 3.4646),
    ((16, 8, 8), False, 16, 8.0078),
    ((16, 8, 8), True, 12, 6.9756),
    ((8, 8), False, 8, 4.0635),
    ((4, 4, 4), False, 6, 3.0476),
    ((8, 8, 8), False, 12, 6.0117),
    ((25, 16, 24), False, 32, 16.2417),
    ((16, 12, 24), False, 26, 13.0028),
    ((25, 32, 24), False, 40, 20.2411),
]


@st.composite
def tori(draw: st.DrawFn) -> Torus:
    dims = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4).filter(lambda dims: math.prod(dims) <= 250))
    order = draw(st.permutations(range(len(dims))))
    wrapped, shifted = order[: len(dims) // 2], order[len(dims) // 2 :]
    pairs = [(wrap, shift) for wrap, shift in itertools.product(wrapped, shifted) if dims[shift] > 1]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return Torus(dims, twists=[Twist(w, s, draw(st.integers(1, dims[s] - 1))) for w, s in chosen])


def as_graph(torus: Torus) -> networkx.Graph[tuple[int, ...]]:
    """The torus link by link, from the definition of its wrap-around links and nothing in Torus but its figures."""
    graph: networkx.Graph[tuple[int, ...]] = networkx.Graph()
    for place in itertools.product(*map(range, torus.dims)):
        graph.add_node(place)
        for dimension, length in enumerate(torus.dims):
            to = list(place)
            to[dimension] += 1
            if to[dimension] == length:
                to[dimension] = 0
                for twist in torus.twists:
                    if twist.wrap == dimension:
                        to[twist.shift] = (to[twist.shift] + twist.by) % torus.dims[twist.shift]
            graph.add_edge(place, tuple(to))
    return graph


@pytest.mark.parametrize(("dims", "twisted", "diameter", "mean"), TABLE)
def test_diameter_and_mean_distance_are_those_of_the_table(
    dims: tuple[int, ...], twisted: bool, diameter: int, mean: float
) -> None:
    torus = Torus(dims, twists=half_twists(dims) if twisted else ())
    assert torus.diameter() == diameter
    assert round(torus.mean_distance(), 4) == mean


@given(tori())
def test_hops_are_those_of_breadth_first_search(torus: Torus) -> None:
    distances = networkx.single_source_shortest_path_length(as_graph(torus), torus.coordinates(0))
    assert [torus.hops(0, node) for node in range(torus.nodes)] == [
        distances[torus.coordinates(node)] for node in range(torus.nodes)
    ]


@given(tori(), st.data())
def test_hops_between_any_two_nodes_are_those_of_breadth_first_search(torus: Torus, data: st.DataObject) -> None:
    graph = as_graph(torus)
    node = st.integers(0, torus.nodes - 1)
    for a, b in data.draw(st.lists(st.tuples(node, node), max_size=10)):
        far = networkx.shortest_path_length(graph, torus.coordinates(a), torus.coordinates(b))
        assert torus.hops(a, b) == torus.hops(b, a) == far


@given(tori(), st.data())
def test_a_route_is_a_shortest_way_in_dimension_order(torus: Torus, data: st.DataObject) -> None:
    graph = as_graph(torus)
    node = st.integers(0, torus.nodes - 1)
    a, b = data.draw(node), data.draw(node)
    route = torus.route(a, b)
    assert len(route) == torus.hops(a, b)
    assert [a, *(to for _, to in route)] == [*(at for at, _ in route), b]
    assert all(graph.has_edge(torus.coordinates(at), torus.coordinates(to)) for at, to in route)
    steps = torus.steps(a, b)
    at = a
    for dimension, count in enumerate(steps):
        for _ in range(abs(count)):
            at = torus.neighbour(at, dimension, 1 if count > 0 else -1)
    assert at == b


@given(tori().filter(lambda torus: not torus.twists), st.data())
def test_links_are_those_of_the_route_the_last_one_first(torus: Torus, data: st.DataObject) -> None:
    node = st.integers(0, torus.nodes - 1)
    numbers: dict[tuple[int, int], int] = {}
    for a, b in data.draw(st.lists(st.tuples(node, node), max_size=20)):
        for pair, number in zip(torus.route(a, b)[::-1], torus.links(a, b), strict=True):
            assert 0 <= number < torus.many_links
            assert numbers.setdefault(pair, number) == number
    assert len(set(numbers.values())) == len(numbers)


@given(tori())
def test_diameter_and_mean_distance_are_those_of_all_nodes(torus: Torus) -> None:
    distances = [torus.hops(0, node) for node in range(torus.nodes)]
    assert torus.diameter() == max(distances)
    assert torus.mean_distance() == sum(distances) / max(torus.nodes - 1, 1)


def test_going_around_often_is_found_where_the_twist_pays() -> None:
    torus = Torus((100, 2), twists=[Twist(1, 0, 10)])
    distances = networkx.single_source_shortest_path_length(as_graph(torus), (0, 0))
    assert [torus.hops(0, node) for node in range(200)] == [distances[torus.coordinates(node)] for node in range(200)]
    assert torus.steps(0, 50) == (0, 10)


def test_of_two_ways_around_an_even_ring_the_route_goes_up() -> None:
    assert Torus((4,)).route(3, 1) == [(3, 0), (0, 1)]
    assert Torus((4, 4)).route(0, 10) == [(0, 1), (1, 2), (2, 6), (6, 10)]


def test_nodes_are_numbered_along_x_first() -> None:
    assert Torus((4, 3, 2)).coordinates(1) == (1, 0, 0)
    assert Torus((4, 3, 2)).coordinates(4) == (0, 1, 0)
    assert Torus((4, 3, 2)).coordinates(23) == (3, 2, 1)


@given(st.integers(1, 300))
def test_a_torus_that_fits_is_the_smallest_that_is_not_too_long(nodes: int) -> None:
    longest = range(1, 3 * math.ceil(nodes ** (1 / 3)) + 3)
    allowed = [(a, b, c) for c in longest for b in range(c, 2 * c + 1) for a in range(b, 2 * c + 1)]
    best = min((math.prod(dims), sum(dims)) for dims in allowed if math.prod(dims) >= nodes)
    found = fitting_dims(nodes)
    assert (math.prod(found), sum(found)) == best
    assert found in allowed


@pytest.mark.parametrize(
    ("nodes", "dims"), [(1, (1, 1, 1)), (64, (4, 4, 4)), (512, (8, 8, 8)), (1024, (16, 8, 8)), (16384, (32, 32, 16))]
)
def test_the_torus_of_a_power_of_two_is_full(nodes: int, dims: tuple[int, int, int]) -> None:
    assert fitting_dims(nodes) == dims


@settings(max_examples=20 if CAMPAIGN else 10)
@given(st.integers(1, 10**6))
def test_a_torus_for_the_half_twist_is_twice_as_long_as_wide(nodes: int) -> None:
    a, b, c = fitting_dims(nodes, half=True)
    assert a == 2 * b == 2 * c
    assert 2 * (b - 1) ** 3 < nodes <= 2 * b**3


def test_a_distance_that_is_known_costs_less_than_a_microsecond() -> None:
    torus = Torus((16, 8, 8), twists=half_twists((16, 8, 8)))
    torus.hops(0, 777)
    assert min(timeit.repeat(lambda: torus.hops(0, 777), number=10_000, repeat=5)) < 10_000 * 1e-6
