"""Messages share links max-min fairly: closed forms alone, and what is worked by hand where they meet."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from xsim_py.config import LayerSpec, load_machine
from xsim_py.machine import Machine
from xsim_py.network import make_network
from xsim_py.network.fair_contention import FairContention
from xsim_py.network.link import Link

US = 10**6
RANK = st.integers(0, 35)
SIZE = st.one_of(st.sampled_from([0, 1, 63, 1000, 4096, 10_001]), st.integers(0, 10**7))
MESSAGE = st.tuples(st.integers(0, 50 * US), RANK, RANK, SIZE).filter(lambda message: message[1] != message[2])
LAYERS = {"host": {"bandwidth": "32Gbps"}, "global": {"bandwidth": "3Gbps", "latency": "1us"}}
SEGMENTS = [
    {"from": "1KiB", "latency": "2us", "bandwidth": "5Gbps", "gap": "100ns"},
    {"from": "1MB", "bandwidth": "7Gbps"},
]
MACHINES: dict[str, dict[str, Any]] = {
    "torus": {"topology": {"type": "torus", "dims": [6, 6]}, "network": {"latency": "1us", "per_hop": "100ns"}},
    "layers": {
        "topology": {"type": "dragonfly", "hosts_per_router": 2, "links": LAYERS},
        "network": {"latency": "1us"},
    },
    "LogGP": {"network": {"latency": "1us", "count_first_byte": False, "gap": "1us"}},
    "segments": {"network": {"latency": "1us", "segments": SEGMENTS}},
    "several ways out": {"topology": {"type": "fattree", "shape": "2;4,9;2,2;2,1"}, "network": {"latency": "1us"}},
}


class Account:
    """The account of a machine, and what arrives when; messages are (time, from, to, bytes)."""

    def __init__(self, description: dict[str, Any], **network: Any) -> None:
        network = {**description["network"], "contention": "flows", **network}
        spec = load_machine({**description, "network": network})
        self.machine = Machine(spec, ranks=36)
        self.network = make_network(spec, places=self.machine)
        found = self.network.contention()
        assert isinstance(found, FairContention)
        self.account = found

    def arrivals(self, messages: Iterable[tuple[int, int, int, int]]) -> list[int]:
        route, account = self.machine.topology.route, self.account
        return arrivals(
            account, [(time, (a, b, size), account.flow_route(route(a, b))) for time, a, b, size in messages]
        )

    def alone(self, message: tuple[int, int, int, int]) -> int:
        time_ps, origin, to, size = message
        cost = self.network.link(origin, to).cost(size)
        return time_ps + cost.wire_ps + cost.latency_ps


def arrivals(account: FairContention, messages: list[tuple[int, tuple[int, int, int], Any]]) -> list[int]:
    found: dict[int, int] = {}
    times: list[int] = []
    account.wake = lambda time_ps: heappush(times, time_ps)
    account.arrive = lambda time_ps, place, _: found.__setitem__(place, time_ps)
    for place, (time_ps, ends, way) in enumerate(messages):
        account.enter(time_ps, place, ends, way, place)
    while times:
        account.advance(heappop(times))
    return [found[place] for place in range(len(messages))]


@pytest.mark.parametrize("bandwidth", ["8Gbps", "128Gbps", "3GB/s"])
@pytest.mark.parametrize("name", MACHINES)
@given(message=MESSAGE)
@settings(max_examples=20 if CAMPAIGN else 10)
def test_a_message_alone_takes_the_closed_form_to_the_picosecond(
    name: str, bandwidth: str, message: tuple[int, int, int, int]
) -> None:
    account = Account(MACHINES[name], bandwidth=bandwidth)
    assert account.arrivals([message]) == [account.alone(message)]
    plain = Account(MACHINES[name], bandwidth=bandwidth)
    cost = plain.network.link(message[1], message[2]).cost(message[3])
    without = load_machine({**MACHINES[name], "network": {**MACHINES[name]["network"], "bandwidth": bandwidth}})
    other = make_network(without, places=Machine(without, ranks=36)).link(message[1], message[2]).cost(message[3])
    assert (cost.wire_ps, cost.latency_ps, cost.send_ps) == (other.wire_ps, other.latency_ps, other.send_ps)
    assert cost.busy_ps <= other.busy_ps


@given(st.sampled_from(sorted(MACHINES)), st.lists(MESSAGE, max_size=25))
@settings(max_examples=40 if CAMPAIGN else 10)
def test_sharing_never_makes_a_message_faster_nor_all_of_them_slower_than_one_after_the_other(
    name: str, messages: list[tuple[int, int, int, int]]
) -> None:
    account = Account(MACHINES[name], bandwidth="8Gbps")
    found = account.arrivals(messages)
    assert all(end >= account.alone(message) - 1 for end, message in zip(found, messages, strict=True))
    # Some message always flows as fast as it can alone, or several share a link that is full.
    wires = sum(account.alone(message) - message[0] for message in messages)
    assert max(found, default=0) <= max((message[0] for message in messages), default=0) + wires


class Flow(NamedTuple):
    start_ps: int
    size: int
    way: str
    latency_ps: int
    rank: int = 0
    most: int = 1
    """How many picoseconds a byte takes at least: how fast the message is by itself."""


def by_hand(flows: list[Flow], ps_per_byte: dict[str, int], *, injection: float = math.inf) -> list[int]:
    """When flows over these links arrive."""
    costs = [
        Link(
            LayerSpec(ps_per_byte=Fraction(flow.most)), layer="network", hops=0, route_ps=flow.latency_ps,
            slowest=Fraction(max(ps_per_byte[link] for link in flow.way)),
        )
        for flow in flows
    ]  # fmt: skip
    account = FairContention(
        lambda _, number: costs[number],
        capacity=lambda link: 1 / ps_per_byte[link],
        injection=injection,
        shared_first_link=False,
        ahead_ps=min(flow.latency_ps for flow in flows),
    )
    return arrivals(
        account,
        [
            (flow.start_ps, (flow.rank, number, flow.size), account.flow_route(flow.way))
            for number, flow in enumerate(flows)
        ],
    )


def test_four_flows_over_three_links_end_as_worked_out_by_hand() -> None:
    """Capacities 1, 10 and 1 MB/s; latencies 1, 2 and 0.5 ms."""
    flows = [
        Flow(0, 10**6, "abc", 3_500 * US),
        Flow(0, 10**6, "a", 1_000 * US),
        Flow(100_000 * US, 3 * 10**6, "b", 2_000 * US),
        Flow(0, 5 * 10**5, "c", 500 * US),
    ]
    found = by_hand(flows, {"a": 10**6, "b": 10**5, "c": 10**6})
    # The second shares its link from 3.5 ms to its own end, the third has what the first leaves of its link.
    assert found == pytest.approx([2.001e12, 1.9985e12, (0.102 + 3 / 9.5) * 1e12, 0.9975e12], abs=2)


def test_shares_of_a_parking_lot_are_a_half_but_what_is_left_of_the_fast_link() -> None:
    """Links of 1, 10 and 1 bytes per us; a flow over all three has a half, the one on the fast link 9.5."""
    flows = [Flow(0, 100, way, US) for way in ("abc", "a", "c")] + [Flow(0, 1900, "b", US)]
    found = by_hand(flows, {"a": US, "b": US // 10, "c": US})
    assert found == [201 * US] * 4


def test_what_a_rank_sends_shares_its_interface_unless_the_first_link_is_narrower() -> None:
    """Six links lead out of a node of a torus, each as fast as its rank injects."""
    flows = [Flow(0, 1000, way, US) for way in "abcdef"]
    links = dict.fromkeys("abcdef", 1000)
    assert by_hand(flows, links, injection=1 / 1000) == [7 * US] * 6
    assert by_hand(flows, links) == [2 * US] * 6
    assert (
        by_hand([flow._replace(rank=number) for number, flow in enumerate(flows)], links, injection=1 / 1000)
        == [2 * US] * 6
    )


def test_a_message_that_is_slow_by_itself_leaves_the_rest_of_its_links_to_others() -> None:
    """The first flows at a quarter of the link whatever happens, the second at three quarters and then alone."""
    slow, quick = Flow(0, 1000, "a", US, most=4000), Flow(0, 3600, "a", US)
    assert by_hand([slow, quick], {"a": 1000}) == [5 * US, (1 + 4) * US + 600 * 1000]
    assert by_hand([slow], {"a": 1000}) == [5 * US]
    third = Flow(0, 10**5, "a", US)
    assert by_hand([slow, third, third], {"a": 1000})[0] == 5 * US  # a third each would be more


@given(st.integers(1, 64))
def test_messages_that_meet_on_the_way_to_one_node_take_turns_of_no_length(senders: int) -> None:
    account = Account({"network": {"latency": "1us"}}, bandwidth="8Gbps")
    senders = min(senders, 35)
    found = account.arrivals([(0, 1 + number, 0, 1000) for number in range(senders)])
    assert found == [US + senders * 1000 * 1000] * senders
