"""What a message costs, against closed forms over fractions."""

from __future__ import annotations

import math
from dataclasses import astuple
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.config import NetworkSpec, load_machine
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
    link = Link(costs, layer="network", hops=hops, latency_ps=latency + hops * per_hop)
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
