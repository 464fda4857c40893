"""Switches with ports and a backbone, nodes with ports and memories, and links with figures of their own."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from xsim_py.config import load_machine
from xsim_py.errors import ConfigError
from xsim_py.machine import Machine

MEMORY = {"memory": {"bandwidth": "1Tbps"}, "same_node": {"latency": "1us"}}


def machine(topology: dict[str, Any], *, ranks: int = 4, latency: str = "1us", **more: Any) -> Machine:
    costs = {"latency": latency, "per_hop": "100ns", "bandwidth": "8Gbps"}
    return Machine(load_machine({"topology": topology, "network": costs, **more}), ranks=ranks)


def way(machine: Machine, a: int, b: int) -> str:
    topology = machine.topology
    return " ".join(map(topology.link_name, topology.route(a, b)))


@pytest.mark.parametrize(
    ("topology", "more", "across", "within"),
    [
        ({"type": "switch"}, {}, "n0>sw sw>n1", ""),
        ({"type": "switch", "duplex": "half"}, {}, "n0.port n1.port", ""),
        ({"type": "switch", "links": {"backbone": {"bandwidth": "80Gbps"}}}, {}, "n0>sw sw sw>n1", ""),
        ({"type": "switch"}, MEMORY, "n0>sw sw>n1", "n0.mem"),
        ({"type": "torus", "dims": [4]}, {"nic": {}}, "n0.out n0>n1 n1.in", ""),
        ({"type": "torus", "dims": [4]}, {"nic": {"duplex": "half"}, **MEMORY}, "n0.port n0>n1 n1.port", "n0.mem"),
        (
            {"type": "torus", "dims": [4]},
            {"nic": {"both_ways": 0.75}},
            "n0.out n0.port n0>n1 n1.port n1.in",
            "",
        ),
        ({"type": "switch", "duplex": "half"}, {"nic": {"duplex": "half"}}, "n0.nic n0.port n1.port n1.nic", ""),
        ({"type": "dragonfly", "hosts_per_router": 2}, {"nic": {}}, "h0.out h0>r0.0 r0.0>h1 h1.in", ""),
    ],
)
def test_routes_go_through_the_links_of_the_nodes(
    topology: dict[str, Any], more: dict[str, Any], across: str, within: str
) -> None:
    built = machine(topology, **more)
    assert (way(built, 0, 1), way(built, 0, 0)) == (across, within)
    assert sum(built.topology.links_per_layer(0, 1)) == len(across.split())
    assert built.topology.links_per_layer(0, 0).count(1) == len(within.split())
    own = sum(link[2:] in (".out", ".in", ".nic", ".port") for link in across.split()) if "nic" in more else 0
    own -= 2 * (topology.get("duplex") == "half") if own else 0
    assert built.topology.least_hops == built.topology.hops(0, 1) == len(across.split()) - own


NODES = {"cores_per_node": 8, "sockets_per_node": 2, "nics_per_node": 4}


def test_ranks_have_the_nic_and_the_memory_of_their_cores() -> None:
    built = machine({"type": "switch"}, ranks=16, machine=NODES, nic={}, **MEMORY)
    name = built.topology.link_name
    assert [name(built.shared_route(rank, 8)[-1]) for rank in range(8)] == [
        *("n0.out", "n0.out", "n0.out1", "n0.out1", "n0.out2", "n0.out2", "n0.out3", "n0.out3"),
    ]
    assert [name(link) for link in built.shared_route(0, 14)] == ["n1.in3", "n0.out"]
    assert [name(link) for link in built.shared_route(0, 3)] == ["n0.mem"]
    assert [name(link) for link in built.shared_route(7, 2)] == ["n0.mem1", "n0.mem"]
    dealt = machine({"type": "switch"}, ranks=16, machine={**NODES, "placement": "round_robin", "nodes": 2}, nic={})
    outs = [name(dealt.shared_route(rank, 1)[-1]) for rank in (0, 4, 8, 14)]
    assert outs == ["n0.out", "n0.out1", "n0.out2", "n0.out3"]
    dealt.add_ranks(16, [1, 0])
    assert list(dealt.core_of) == [*(rank // 2 for rank in range(16)), 0, 0]


def test_a_switch_that_grows_keeps_the_names_of_its_links() -> None:
    built = machine({"type": "switch"}, ranks=2, nic={})
    built.topology.grow(4)
    assert way(built, 3, 0) == "n3.out n3>sw sw>n0 n0.in"
    assert built.topology.nodes == 4


def test_layers_have_the_figures_of_the_description_and_else_those_of_the_network() -> None:
    links = {"every": {"latency": "50ns"}, "global": {"bandwidth": "4Gbps", "latency": "1us"}}
    dragonfly = {"type": "dragonfly", "hosts_per_router": 2, "links": links}
    figures = machine(dragonfly, nic={"both_ways": 0.8}).topology.link_parameters
    usual = Fraction(1000)
    assert figures == ((usual, 50_000), (usual, 50_000), (2 * usual, 1_000_000), (usual, 0), (usual * 5 / 8, 0))
    cascade = machine({"type": "cascade", "shape": "4,4;2,2;4,1;2"}).topology
    assert cascade.link_parameters == ((usual, 100_000), (usual, 100_000), (usual / 2, 100_000), (usual / 4, 100_000))
    assert machine({"type": "torus", "dims": [4, 4]}).topology.link_parameters is None
    edges = [["a", "b"], {"ends": ["b", "c"], "bandwidth": "16Gbps"}, {"ends": ["b", "c"], "latency": "1ns"}]
    graph = machine({"type": "graph", "edges": edges}, ranks=1).topology
    assert {graph.link_name(link): (graph.link_parameters or ())[graph.layer(link)] for link in graph.wires()} == {
        "a>b": (usual, 100_000),
        "b>c": (usual, 1000),
        "b>c#1": (usual / 2, 100_000),
    }
    for name in ("link", "every"):
        graph = machine({"type": "graph", "edges": edges, "links": {name: {"latency": "7ns"}}}, ranks=1).topology
        assert [latency_ps for _, latency_ps in graph.link_parameters or ()] == [7000, 1000, 7000]


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ({"type": "torus", "dims": [4], "links": {"y": {"latency": 1}}}, "unknown layer of links: known: every, x"),
        ({"type": "fattree", "arity": 2, "levels": 2, "links": {"level3": {"latency": 1}}}, "did you mean level"),
        ({"type": "switch", "links": {"nod": {"latency": 1}}}, "topology.links.nod: unknown key; did you mean node?"),
        ({"type": "switch", "links": {"node": {}}}, "missing key: bandwidth or latency"),
        ({"type": "switch", "links": 3}, "expected a section, got 3; write a section such as"),
        ({"type": "torus", "dims": [4], "twist": "half", "ties": "simgrid"}, "SimGrid has no twisted torus"),
    ],
)
def test_what_cannot_be_is_refused(topology: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        machine(topology)


def test_a_message_needs_some_time() -> None:
    links = {"every": {"latency": "1us"}, "global": {"latency": "0s"}}
    with pytest.raises(ConfigError, match=r"network.latency: 0 is out of range: some links have no latency either,"):
        machine({"type": "dragonfly", "hosts_per_router": 2, "links": links}, latency="0s")
    assert machine({"type": "dragonfly", "hosts_per_router": 2, "links": links}).topology.link_parameters is not None
