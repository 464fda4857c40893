"""What a message costs, against closed forms over fractions."""

from __future__ import annotations

import math
import re
from dataclasses import astuple
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.config import NetworkSpec, load_machine
from xsim_py.errors import ConfigError
from xsim_py.machine import Machine
from xsim_py.network import Cost, Link, Network, make_network

SIZES = [0, 1, 2, 7, 8, 1000, 1024, 65_535, 65_536, 131_071, 131_072, 131_073, 10**6, 2**20 - 1, 2**20, 4 * 2**20]
US = 10**6
HALF = Fraction(1, 2)
# The figures again, as the papers print them and independent of models/: overhead, latency, ps a byte, threshold.
FIGURES = {
    "gige": (0, 20 * US, Fraction(8 * 10**12, 10**9), 131_072),
    "shmem": (0, 6 * US, Fraction(8 * 10**12, 3200 * 10**6), 131_072),
    "torus3d": (0, 7 * US, Fraction(8 * 10**12, 8800 * 10**6), 131_072),
    "logp": (130_000, 1_530_000, Fraction(0), math.inf),
}


def network(source: str | dict[str, object], *, ranks: int, **changes: object) -> Network:
    spec = load_machine(source, overrides={key.replace("__", "."): value for key, value in changes.items()})
    return make_network(spec, places=Machine(spec, ranks=ranks))


@pytest.mark.parametrize("name", sorted(FIGURES))
@pytest.mark.parametrize("size_bytes", SIZES)
def test_the_times_of_a_preset_are_those_of_its_paper(name: str, size_bytes: int) -> None:
    overhead, latency, ps_per_byte, threshold = FIGURES[name]
    wire = math.floor(size_bytes * ps_per_byte + HALF)
    expected = Cost(overhead, wire, wire, latency, overhead, size_bytes <= threshold)
    for dst in (1, 5, 63):
        assert network(name, ranks=64).link(0, dst).cost(size_bytes) == expected


@pytest.mark.parametrize("size_bytes", [0, 1, 131_072, 131_073, 2**22])
def test_every_distance_on_an_8x8x8_torus_has_its_latency(size_bytes: int) -> None:
    torus = network("torus3d", ranks=512, topology__dims=[8, 8, 8], network__per_hop="100ns")
    seen = set()
    for dst in range(1, 512):
        x, y, z = dst % 8, dst // 8 % 8, dst // 64
        hops = sum(min(d, 8 - d) for d in (x, y, z))
        seen.add(hops)
        assert torus.link(0, dst).hops == hops
        wire = math.floor(size_bytes * Fraction(10000, 11) + HALF)
        expected = Cost(0, wire, wire, 7 * US + hops * 100_000, 0, size_bytes <= 131_072)
        assert torus.link(0, dst).cost(size_bytes) == expected
    assert seen == set(range(1, 13))


def test_loggops_gives_the_figures_of_its_simulator() -> None:
    """Finish times that LogGOPSim's manual prints for a binomial tree's reduction of 1024 B on 8 hosts, in ns."""
    cost = network("loggops", ranks=8).link(0, 1).cost(1024)
    assert cost.eager
    send, recv = cost.send_ps, cost.receive_ps
    message_ns = (send + cost.wire_ps + cost.latency_ps + recv) // 1000
    assert message_ns == 11_638
    finish = [0] * 8
    for rank in (7, 6, 5, 3, 4, 2, 1, 0):  # those that wait for others come after them
        children = [rank + bit for bit in (1, 2, 4) if rank % (2 * bit) == 0]
        for child in children:
            sent = finish[child] - send // 1000
            finish[rank] = max(finish[rank] + recv // 1000, sent + message_ns)
        finish[rank] += send // 1000 if rank else 0
    assert sorted(finish, reverse=True) == [34_914, 24_776, 13_138, 13_138, 1500, 1500, 1500, 1500]


@pytest.mark.parametrize(("size_bytes", "eager"), [(0, True), (65_535, True), (65_536, False)])
def test_loggops_has_its_own_threshold_and_first_byte(size_bytes: int, eager: bool) -> None:
    wire = 6000 * max(size_bytes - 1, 0)
    expected = Cost(1_500_000, wire, max(wire, 1_000_000), 2_500_000, 1_500_000, eager)
    assert network("loggops", ranks=2).link(0, 1).cost(size_bytes) == expected


FRACTION = st.fractions(0, 10**4, max_denominator=1000)


@given(
    size_bytes=st.integers(0, 2**32),
    latency=st.integers(1, 10**9),
    per_hop=st.integers(0, 10**9),
    hops=st.integers(0, 50),
    overhead=st.integers(0, 10**9),
    per_byte=FRACTION,
    send=FRACTION,
    gap=st.integers(0, 10**9),
    first=st.booleans(),
)
def test_any_figures_give_the_closed_form(
    size_bytes: int,
    latency: int,
    per_hop: int,
    hops: int,
    overhead: int,
    per_byte: Fraction,
    send: Fraction,
    gap: int,
    first: bool,
) -> None:
    costs = NetworkSpec(
        latency_ps=latency,
        per_hop_ps=per_hop,
        gap_ps=gap,
        send_overhead_ps=overhead,
        ps_per_byte=per_byte,
        send_overhead_ps_per_byte=send,
        recv_overhead_ps_per_byte=per_byte,
        count_first_byte=first,
    )
    link = Link(costs, layer="network", hops=hops, route_ps=hops * per_hop)
    wire = math.floor(max(size_bytes - (not first), 0) * per_byte + HALF)
    send_ps, recv_ps = (math.floor(size_bytes * each + HALF) for each in (send, per_byte))
    expected = Cost(overhead + send_ps, wire, max(gap, wire), latency + hops * per_hop, recv_ps, True)
    assert link.cost(size_bytes) == expected
    assert all(type(part) is int for part in astuple(link.cost(size_bytes))[:5])


def test_a_link_remembers_and_does_not_fill_the_memory() -> None:
    link = network("gige", ranks=2).link(0, 1)
    assert link.cache == {}
    first = link.cost(17)
    assert link.cache[17] is link.cost(17) is first
    for size_bytes in range(20_000):
        link.cost(size_bytes)
    assert len(link.cache) <= 4096
    assert link.cost(17) == first


SEGMENTS = {
    "name": "by size",
    "network": {
        "eager_threshold": "1000B",
        "send_overhead": "10ns",
        "per_hop": "5ns",
        "segments": [
            {"from": "0B", "latency": "1us", "bandwidth": "1ns/B"},
            {"from": "100B", "latency": "3us", "bandwidth": "2ns/B", "recv_overhead": "50ns"},
            {"from": "1001B", "latency": "2us", "bandwidth": "3ns/B", "send_overhead": "0s", "gap": "9us"},
        ],
    },
}


@pytest.mark.parametrize(
    ("size_bytes", "ns"),
    [
        (0, 10 + 1000 + 10),
        (99, 10 + 1000 + 10 + 99),
        (100, 10 + 3000 + 10 + 200 + 50),
        (1000, 10 + 3000 + 10 + 2000 + 50),
        (1001, 2 * (1000 + 10) + 2000 + 10 + 3003),
        (2000, 2 * (1000 + 10) + 2000 + 10 + 6000),
    ],
)
def test_each_size_has_the_figures_of_its_segment(size_bytes: int, ns: int) -> None:
    link = network(SEGMENTS, ranks=4).link(0, 1)
    assert link.one_way_ps(size_bytes) == ns * 1000
    assert link.latency_ps == 1_010_000  # of control messages
    busy_ns = size_bytes if size_bytes < 100 else 2 * size_bytes if size_bytes <= 1000 else 9000
    assert link.cost(size_bytes).busy_ps == busy_ns * 1000


@given(
    st.lists(
        st.tuples(st.integers(0, 3000), st.integers(0, 4000), st.integers(0, 20)),
        min_size=1,
        max_size=5,
        unique_by=lambda x: x[0],
    ),
    st.none() | st.integers(0, 3000),
    st.lists(st.integers(0, 5000), min_size=1, max_size=20),
)
def test_no_message_is_faster_than_the_least(
    segments: list[tuple[int, int, int]], threshold: int | None, sizes: list[int]
) -> None:
    described = [
        {"from": begin, "latency": f"{latency + 1}ns", "bandwidth": f"{per_byte}ns/B" if per_byte else None}
        for begin, latency, per_byte in sorted(segments)
    ]
    smaller = {} if described and described[0]["from"] == 0 else {"latency": "700ns"}
    made = network({"network": {**smaller, "segments": described, "eager_threshold": threshold}}, ranks=3)
    link = made.link(0, 1)
    costs = [link.cost(size_bytes) for size_bytes in sizes]
    assert all(cost.latency_ps + cost.wire_ps >= link.least_ps > 0 for cost in costs)
    assert made.nearest_ps == made.min_latency_ps() == link.least_ps
    if made.in_order:
        assert all(
            later.wire_ps + later.latency_ps + earlier.busy_ps >= earlier.wire_ps + earlier.latency_ps
            for earlier in costs
            for later in costs
        )


SEGMENTED = {
    "segments": [
        {"from": 0, "latency": "2us", "bandwidth": "1GB/s", "gap": "4ns"},
        {"from": 1000, "latency": "3us", "bandwidth": "2GB/s", "send_overhead": "1us"},
    ]
}


def test_factors_scale_every_value_of_a_layer() -> None:
    """Latency, bandwidth and overheads by hand; without a factor of its own a value stays as it is."""
    factors = {"scale": {"latency": 0.5, "bandwidth": 2, "overhead": 3}, "send_overhead": "10ns", "per_hop": "1us"}
    link = network({"network": {**SEGMENTED, **factors}}, ranks=2).link(0, 1)
    hops = link.hops  # of 1 us each
    assert link.cost(100) == Cost(30_000, 50_000, 50_000, 1_000_000 + hops * 500_000, 0, True)
    assert link.one_way_ps(2000) == 3_000_000 + 1_500_000 + hops * 500_000 + 500_000
    unscaled = network({"network": {**SEGMENTED, "scale": {}}}, ranks=2).link(0, 1)
    assert unscaled.cost(100) == network({"network": SEGMENTED}, ranks=2).link(0, 1).cost(100)


@given(st.integers(1, 10**9), st.floats(0.001, 1000))
def test_a_factor_leaves_no_latency_at_zero(latency_ps: int, factor: float) -> None:
    made = network({"network": {"latency": f"{latency_ps}ps", "scale": {"latency": factor}}}, ranks=2)
    latency = made.link(0, 1).latency_ps
    assert latency >= 1
    assert abs(latency - latency_ps * factor) <= 1


def test_measured_times_are_kept_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text("# by hand\nbytes,seconds\n8,1.5e-6\n1,1e-6\n1024,3e-6\n")
    described = {"eager_threshold": "2KB", "send_overhead": "100ns", "times": str(tmp_path / "times.csv")}
    link = network({"network": described}, ranks=2).link(0, 1)
    expected = {0: 1_000_000, 1: 1_000_000, 8: 1_500_000, 516: 2_250_000, 1024: 3_000_000, 2048: 6_000_000}
    # A rendezvous takes three latencies of 0.9 us.
    assert {size_bytes: link.one_way_ps(size_bytes) for size_bytes in expected} == expected
    assert link.latency_ps == 900_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bytes,time\n1,2\n", ":1: missing column; the header needs bytes and seconds (or median_s)"),
        ("bytes,seconds\n1,x\n", ":2: expected a size in bytes and a time in seconds, got '1,x'"),
        ("bytes,seconds\n1,1e-6\n1,2e-6\n", ":3: duplicate line for 1 bytes"),
        ("bytes,seconds\n1,0\n", ":2: out of range: sizes cannot be negative, and times must be positive"),
        ("bytes,seconds\n", ": no times; expected a header `bytes,seconds` and one line per size"),
    ],
)
def test_a_wrong_file_of_times_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "times.csv"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        network({"network": {"times": str(path)}}, ranks=2)
    assert str(refused.value) == f"{path}{said}"


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (
            {"latency": "1us", **SEGMENTED},
            "network.latency: no message uses it: each of the 2 segments has its own latency",
        ),
        ({"bandwidth": "1GB/s", **SEGMENTED}, "network.bandwidth: no message uses it"),
        ({"times": "t.csv", "scale": {"latency": 2}}, "network.scale: measured times have no latency and bandwidth"),
        ({"segments": [{"from": "1B", "latency": "1us"}]}, "network.latency: missing"),
        ({"segments": [{"from": "0B", "bandwidth": "1GB/s"}]}, "network.latency: missing"),
        ({"latency": "1us", "segments": [{"from": "9B"}, {"from": "9B"}]}, "segments must be in ascending order"),
        ({"latency": "1us", "segments": [{"from": "0B", "latency": "0s"}]}, "segments[0].latency: 0 is out of"),
        ({"latency": "1us", "segments": [{"from": "0B"}], "times": "pyproject.toml"}, "network.times: measured"),
    ],
)
def test_segments_that_contradict_each_other_are_refused(layer: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        load_machine({"network": layer})
