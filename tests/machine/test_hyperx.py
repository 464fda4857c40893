"""HyperX: routes against the graph of its links, and the closed forms."""

from __future__ import annotations

from collections import Counter
from typing import Any

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from xsim_py.config import load_machine
from xsim_py.errors import ConfigError
from xsim_py.machine import Machine
from xsim_py.machine.cuts import flow_between_halves
from xsim_py.machine.hyperx import HyperX


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(1, 2),
    st.sampled_from(["dimension_order", "ecmp", "valiant"]),
)
@settings(max_examples=30 if CAMPAIGN else 10)
def test_routes_take_links_that_are_there(dims: list[int], hosts: int, routing: str) -> None:
    hyperx = HyperX(dims, hosts, range(1, len(dims) + 1), routing=routing)
    graph: networkx.MultiGraph[Any] = networkx.MultiGraph()
    for link in hyperx.wires():
        graph.add_edge(link[0], link[1], key=link[2] if len(link) > 2 else 0)
    assert len(graph) == hyperx.nodes + hyperx.switches
    far = []
    for a in range(hyperx.nodes):
        distances = networkx.single_source_shortest_path_length(graph, a)
        for b in range(hyperx.nodes):
            route = hyperx.route(a, b)
            assert [a, *(link[1] for link in route)] == [*(link[0] for link in route), b]
            assert all(graph.has_edge(*link[:2], key=link[2] if len(link) > 2 else 0) for link in route)
            counts = Counter(hyperx.layer(link) for link in route)
            assert hyperx.links_per_layer(a, b) == tuple(counts[layer] for layer in range(len(hyperx.layers)))
            assert len(route) == hyperx.hops(a, b)
            if routing != "valiant":
                assert len(route) == distances[b]
            far += [len(route)] * (a != b)
    assert hyperx.diameter() >= max(far, default=0)
    if routing != "valiant":
        assert hyperx.diameter() == max(far, default=0)
        assert hyperx.mean_distance() == pytest.approx(sum(far) / max(len(far), 1))


@pytest.mark.parametrize(("dims", "hosts"), [([4], 2), ([2, 4], 3), ([4, 4], 9), ([2, 2, 2], 1)])
def test_half_of_the_bandwidth_is_what_the_last_dimension_carries(dims: list[int], hosts: int) -> None:
    hyperx = HyperX(dims, hosts, [1] * len(dims))
    bandwidths = [1.0, *[2.0] * (len(dims) - 1), 1.0]
    assert hyperx.bisection(bandwidths) == pytest.approx(flow_between_halves(hyperx, bandwidths))


def test_shortest_ways_in_drawn_orders_use_more_links_than_one_order() -> None:
    for routing, ways in (("dimension_order", 1), ("ecmp", 2)):
        hyperx = HyperX([4, 4], 4, routing=routing)
        found = {tuple(link[0] for link in hyperx.route(a, b)[1:]) for a in range(4) for b in range(20, 24)}
        assert len(found) == ways


def test_a_description_names_its_figures() -> None:
    given = {"type": "hyperx", "dims": [4, 2], "parallel": [1, 2], "routing": "valiant"}
    network = {"latency": "1us"}
    built = Machine(load_machine({"topology": given, "network": network}), ranks=20).topology
    assert str(built) == "4x2 HyperX with 3 nodes per router, 1x2 links, valiant"
    assert built.link_name((24, 28, 1)) == "r0.0>r0.1#1"
    for key, value, message in (
        ("dims", None, "missing key of a HyperX"),
        ("parallel", [1], "machine description: topology.parallel: expected 2 numbers, one per dimension"),
        ("dims", [5000, 5000], "such a HyperX has more than"),
        ("twist", "half", "cannot be combined with topology.type hyperx: only a torus has twist"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_machine({"topology": {**given, key: value}, "network": network})
