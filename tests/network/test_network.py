"""Which link two ranks share, and how far a shard may look ahead."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.config import load_machine
from xsim_py.machine import Machine
from xsim_py.network import Network, make_network
from xsim_py.network.layered import LayeredNetwork

PLAIN: dict[str, dict[str, Any]] = {
    "torus": {"topology": {"type": "torus", "dims": [4, 3]}, "network": {"latency": "3us", "per_hop": "1us"}},
    "switch": {"network": {"latency": "1us", "per_hop": "1us"}, "same_node": {"latency": "500ns"}},
    "single": {"topology": {"type": "single"}, "same_node": {"latency": "6us"}},
    "fattree": {
        "topology": {"type": "fattree", "leaves": 3, "nodes_per_leaf": 4, "spines": 2},
        "network": {"latency": "1us", "per_hop": "1us"},
    },
    "graph": {
        "topology": {
            "type": "graph",
            "edges": [[f"n{i}", f"s{i % 2}"] for i in range(12)] + [["s0", "s1"]],
            "hosts": "n*",
        },
        "network": {"latency": 0, "per_hop": "1us"},
    },
    "layers": {
        "topology": {
            "type": "dragonfly",
            "hosts_per_router": 2,
            "routing": "valiant",
            "links": {"host": {"latency": "10ns"}, "global": {"latency": "1us", "bandwidth": "1Gbps"}},
        },
        "nic": {},
        "network": {"latency": "100ns", "per_hop": "50ns", "bandwidth": "8Gbps"},
    },
    "dims": {
        "topology": {"type": "torus", "dims": [4, 3], "links": {"y": {"latency": "3us"}}},
        "network": {"latency": 0, "per_hop": "1us"},
        "same_node": {"latency": "700ns"},
        "memory": {"bandwidth": "1GB/s"},
    },
    "backbone": {
        "topology": {"type": "switch", "links": {"backbone": {"bandwidth": "1Gbps"}}},
        "memory": {"bandwidth": "8Gbps", "latency": "1us"},
        "network": {"latency": 0, "per_hop": "1us", "bandwidth": "8Gbps"},
        "same_node": {"latency": "500ns"},
    },
}


def built(name: str, *, ranks: int, cores: int | None = None, placement: str = "block") -> tuple[Network, Machine]:
    changes = {"machine.cores_per_node": cores, "machine.placement": placement}
    spec = load_machine(PLAIN[name], overrides=changes)
    machine = Machine(spec, ranks=ranks)
    return make_network(spec, places=machine), machine


@given(st.sampled_from(["block", "round_robin"]), st.integers(1, 3), st.data())
def test_the_quick_way_to_a_link_of_a_torus_finds_what_the_slow_one_does(
    placement: str, cores: int, data: st.DataObject
) -> None:
    network, machine = built("torus", ranks=12 * cores, cores=cores, placement=placement)
    rank = st.integers(0, 12 * cores - 1)
    for _ in range(2):
        for a, b in data.draw(st.lists(st.tuples(rank, rank), max_size=20)):
            assert network.link(a, b) is LayeredNetwork.link(network, a, b)
        network.update_nodes([*machine.node_of[::-1]])


def test_links_are_few_and_shared() -> None:
    network, _ = built("torus", ranks=12)
    links = {network.link(a, b) for a in range(12) for b in range(12) if a != b}
    assert sorted(link.hops for link in links) == [1, 2, 3]
    assert {link.layer for link in links} == {"network"}


def test_ranks_of_one_node_use_its_own_layer() -> None:
    network, _ = built("switch", ranks=4, cores=2)
    assert (network.link(0, 1).layer, network.link(0, 1).latency_ps) == ("same_node", 500_000)
    assert (network.link(0, 2).layer, network.link(0, 2).latency_ps) == ("network", 3_000_000)
    assert network.link(3, 3) is network.link(0, 1)


def test_without_figures_of_its_own_a_node_costs_what_its_neighbour_does() -> None:
    network, _ = built("torus", ranks=24, cores=2)
    assert network.link(0, 1) is network.link(0, 2)
    assert network.link(0, 1).latency_ps == 4_000_000


@given(
    st.sampled_from(
        [
            ("torus", 1),
            ("torus", 4),
            ("switch", 1),
            ("switch", 3),
            ("single", None),
            ("fattree", 1),
            ("graph", 1),
            ("graph", 2),
            ("layers", 1),
            ("layers", 2),
            ("dims", 1),
            ("dims", 2),
            ("backbone", 1),
            ("backbone", 3),
        ]
    ),
    st.integers(1, 12),
    st.integers(1, 7),
    st.sampled_from(["block", "round_robin"]),
)
def test_nothing_is_faster_than_the_smallest_latency(
    kind: tuple[str, int | None], ranks: int, shards: int, placement: str
) -> None:
    network, machine = built(kind[0], ranks=ranks, cores=kind[1], placement=placement)
    blocks = machine.shard_blocks(shards)
    across = [
        network.link(a, b).latency_ps for one, other in itertools.permutations(blocks, 2) for a in one for b in other
    ]
    pairs = [network.link(a, b).latency_ps for a, b in itertools.permutations(range(ranks), 2)]
    assert network.min_latency_ps(blocks) > 0
    assert network.min_latency_ps(blocks) <= min(across, default=10**12)
    assert network.min_latency_ps() <= min(pairs, default=10**12)
    assert network.longest().latency_ps >= max(pairs, default=0)
    if kind[0] == "switch":  # all nodes are equally near, so that the bound is reached
        assert network.min_latency_ps(blocks) == min(across, default=500_000)
        assert network.min_latency_ps() == min(pairs, default=500_000)


def test_whole_nodes_in_a_shard_let_it_look_far_ahead() -> None:
    network, machine = built("switch", ranks=12, cores=3)
    assert network.min_latency_ps() == 500_000
    assert network.min_latency_ps(machine.shard_blocks(4)) == 3_000_000
    assert network.min_latency_ps(machine.shard_blocks(5)) == 500_000


@pytest.mark.parametrize(("name", "latency_ps"), [("gige", 20_000_000), ("shmem", 6_000_000), ("torus3d", 7_000_000)])
def test_the_presets_look_ahead_as_far_as_their_latency(name: str, latency_ps: int) -> None:
    spec = load_machine(name)
    machine = Machine(spec, ranks=64)
    assert make_network(spec, places=machine).min_latency_ps(machine.shard_blocks(7)) == latency_ps


def test_links_with_figures_of_their_own_add_latency_and_bound_the_bandwidth() -> None:
    network, machine = built("layers", ranks=24)
    for a, b in itertools.permutations(range(24), 2):
        route = machine.topology.route(a, b)
        layers = [machine.topology.layers[machine.topology.layer(link)] for link in route]
        added = sum({"host": 10_000, "local": 50_000, "global": 1_000_000, "nic": 0}[layer] for layer in layers)
        assert network.link(a, b).latency_ps == 100_000 + added
        cost = network.link(a, b).cost(1000)
        assert cost.wire_ps == cost.busy_ps == (8_000_000 if "global" in layers else 1_000_000)
    lengths = [machine.topology.links_per_layer(0, node) for node in (8, 9)]
    assert network.link(0, 8) is network.link(0, 9) or lengths[0] != lengths[1]


def test_a_backbone_bounds_all_and_a_memory_those_of_a_node() -> None:
    network, _ = built("backbone", ranks=6, cores=3)
    assert network.link(0, 1).latency_ps == 1_500_000
    assert (network.link(0, 3).latency_ps, network.link(0, 3).cost(1000).wire_ps) == (2_000_000, 8_000_000)
    uniform, _ = built("backbone", ranks=6)
    assert uniform.equally_far
    assert uniform.link(0, 3).cost(1000).wire_ps == 8_000_000


def test_the_twisted_preset_is_the_paper_s_7_us_on_the_mean_and_shorter_than_the_plain_torus() -> None:
    means = {}
    for twist, hops in (("half", 6.9756), ("none", 8.0078)):
        spec = load_machine("torus3dtt", overrides={"topology.twist": twist, "network.contention": "none"})
        machine = Machine(spec, ranks=1024)
        network = make_network(spec, places=machine)
        means[twist] = sum(network.link(0, other).latency_ps for other in range(1, 1024)) / 1023
        assert machine.topology.mean_distance() == pytest.approx(hops, abs=5e-5)
    assert means["half"] == pytest.approx(7_000_000, abs=1)
    assert means["none"] - means["half"] == pytest.approx((8.0078 - 6.9756) * 98_400, rel=1e-3)
