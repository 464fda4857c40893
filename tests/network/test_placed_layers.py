"""Layers that go by where ranks are: cores, sockets, nodes and cabinets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.config import load_machine
from xsim_py.errors import ConfigError
from xsim_py.machine import Machine
from xsim_py.network import make_network

CORES, NODES = 8, 12
SIZES = {"pair": 2, "socket": 4, "chassis": 2, "cabinet": 6}


def machine(layers: list[str], **more: Any) -> dict[str, Any]:
    """Describe a machine in which a message of each layer has a latency of 1 us for each rank that it holds."""
    entries: list[dict[str, Any]] = []
    for name in layers:
        size = {"cores": SIZES[name]} if name == "pair" else {} if name == "socket" else {"nodes": SIZES[name]}
        ranks = SIZES[name] * (1 if name in ("pair", "socket") else CORES)
        entries.append({"name": name, **size, "latency": f"{ranks}us", "bandwidth": f"{ranks}GB/s"})
    return {
        "machine": {"cores_per_node": CORES, "sockets_per_node": 2, "nodes": NODES},
        "network": {"latency": "1ms", "bandwidth": "1GB/s"},
        "same_node": {"latency": f"{CORES}us", "bandwidth": f"{CORES}GB/s"},
        "layers": entries,
        **more,
    }


@given(
    st.permutations(list(SIZES)),
    st.integers(0, len(SIZES)),
    st.sampled_from(["block", "round_robin"]),
    st.lists(st.tuples(st.integers(0, CORES * NODES - 1), st.integers(0, CORES * NODES - 1)), min_size=1),
)
def test_a_message_costs_what_the_smallest_layer_says_that_holds_both_ranks(
    order: list[str], count: int, placement: str, pairs: list[tuple[int, int]]
) -> None:
    described = machine(order[:count])
    described["machine"]["placement"] = placement
    spec = load_machine(described)
    network = make_network(spec, places=Machine(spec, ranks=CORES * NODES))
    for pair in pairs:
        spread = [divmod(rank, CORES) if placement == "block" else divmod(rank, NODES)[::-1] for rank in pair]
        (a, core_a), (b, core_b) = spread
        holding = [CORES] if a == b else []
        for name in order[:count]:
            size = SIZES[name]
            if name in ("pair", "socket"):
                holding += [size] * (a == b and core_a // size == core_b // size)
            else:
                holding += [size * CORES] * (a // size == b // size)
        link = network.link(*pair)
        assert link.latency_ps == (min(holding) * 10**6 if holding else 10**9)
        assert link is network.link(*pair)
        assert link.latency_ps == network.link(*pair[::-1]).latency_ps
    latencies = {network.link(0, rank).latency_ps for rank in range(CORES * NODES)}
    assert network.longest().latency_ps == max(latencies)
    assert network.min_latency_ps() == min(latencies)
    assert network.nearest_ps == min([10**9, *(SIZES[n] * CORES * 10**6 for n in order[:count] if n[0] == "c")])


def test_hops_count_in_layers_of_nodes_as_elsewhere() -> None:
    described = machine(["cabinet"], topology={"type": "torus", "dims": [12]})
    del described["machine"]["nodes"]
    described["network"]["per_hop"] = "100ns"
    spec = load_machine(described)
    network = make_network(spec, places=Machine(spec, ranks=CORES * NODES))
    assert network.link(0, 5 * CORES).latency_ps == 48_000_000 + 5 * 100_000
    assert network.link(0, 6 * CORES).latency_ps == 10**9 + 6 * 100_000
    assert (network.link(0, CORES).layer, network.link(0, 6 * CORES).layer) == ("cabinet", "network")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"machine": {}}, "it divides the cores of a node; add machine.cores_per_node"),
        ({"machine": {"cores_per_node": 7, "sockets_per_node": 2}}, "7 cores cannot be divided equally among 2"),
        ({"machine": {"cores_per_node": 8}}, "missing key: cores or nodes, the number that form one"),
        ({"layers": [{"name": "pair", "cores": 3, "latency": "1us"}]}, "8 cores of a node cannot be divided into"),
        ({"layers": [{"name": "same_node", "cores": 4, "latency": "1us"}]}, "a second layer named same_node; rename"),
        ({"layers": [{"name": "a", "cores": 4, "nodes": 2, "latency": "1us"}]}, "cores cannot be combined with nodes"),
        ({"layers": [{"name": "a", "nodes": 2}]}, r"layers\[0\].latency: missing"),
        ({"layers": [{"nodes": 2, "latency": "1us"}]}, r"layers\[0\].name: missing"),
        ({"nic": {"both_ways": 0.4}}, "out of range: below 0.5 it is slower than half duplex"),
        ({"nic": {"both_ways": 0.9, "duplex": "half"}}, "nic.both_ways: cannot be combined with duplex half"),
        ({"nic": {"message_rate": "many"}}, "nic.message_rate: expected a number of messages per second, got 'many'"),
        ({"machine": {"cores_per_node": 8, "sockets_per_node": 2, "nics_per_node": 2}}, "missing key: nic,"),
        ({"same_node": None, "memory": {"bandwidth": "1GB/s"}}, "memory: missing key: same_node, the other costs of"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], message: str) -> None:
    described = {key: value for key, value in {**machine(["socket"]), **change}.items() if value is not None}
    with pytest.raises(ConfigError, match=message):
        Machine(load_machine(described), ranks=8)
