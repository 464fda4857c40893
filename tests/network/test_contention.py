"""Messages that meet on a link wait for each other, and those that do not meet keep their closed form."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from xsim_py.config import load_machine
from xsim_py.machine import Machine
from xsim_py.network import Network, make_network

TORUS = {
    "topology": {"type": "torus", "dims": [4, 4, 2]},
    "network": {"latency": "3us", "per_hop": "100ns", "bandwidth": "8Gbps", "contention": "links"},
}
RANK = st.integers(0, 31)
MESSAGE = st.tuples(st.integers(0, 20_000_000), RANK, RANK, st.sampled_from([0, 1, 1000, 10_000]))


def torus() -> tuple[Network, Machine]:
    spec = load_machine(TORUS)
    machine = Machine(spec, ranks=32)
    return make_network(spec, places=machine), machine


def closed_form(network: Network, time_ps: int, src: int, dst: int, size_bytes: int) -> int:
    cost = network.link(src, dst).cost(size_bytes)
    return time_ps + cost.wire_ps + cost.latency_ps


def arrivals(network: Network, machine: Machine, messages: list[tuple[int, int, int, int]]) -> list[int]:
    """When messages (time, from, to, bytes) arrive that share the links of this network."""
    contention = network.contention()
    assert contention is not None
    arrived = [0] * len(messages)
    times: list[int] = []
    contention.wake = lambda time_ps: heappush(times, time_ps)
    contention.arrive = lambda time_ps, place, _: arrived.__setitem__(place, time_ps)
    for number, (time_ps, src, dst, size_bytes) in enumerate(messages):
        route = machine.topology.route(machine.node_of[src], machine.node_of[dst])
        contention.enter(time_ps, number, route[::-1], network.unshared(src, dst), size_bytes, number)
    while times:
        contention.advance(heappop(times))
    return arrived


def arrivals_hop_by_hop(network: Network, machine: Machine, messages: list[tuple[int, int, int, int]]) -> list[int]:
    """The same by its definition: of all heads on their way, the first one takes the link that it is at."""
    per_hop_ps = network.link(0, 1).latency_ps - 3_000_000
    arrived = [0] * len(messages)
    free_ps: dict[tuple[int, int], int] = {}
    heads = []
    for number, (time_ps, src, dst, size_bytes) in enumerate(messages):
        route = machine.topology.route(machine.node_of[src], machine.node_of[dst])
        heads.append((time_ps, number, route, network.link(src, dst).cost(size_bytes).wire_ps))
    heapify(heads)
    while heads:
        time_ps, number, (link, *others), wire_ps = heappop(heads)
        got_ps = max(time_ps, free_ps.get(link, 0))
        free_ps[link] = got_ps + wire_ps
        if others:
            heappush(heads, (got_ps + per_hop_ps, number, others, wire_ps))
        else:
            arrived[number] = got_ps + per_hop_ps + wire_ps + 3_000_000
    return arrived


def test_links_are_free_unless_the_description_says_otherwise() -> None:
    spec = load_machine(TORUS, overrides={"network.contention": "none"})
    assert make_network(spec, places=Machine(spec, ranks=1)).contention() is None
    spec = load_machine("shmem")
    assert make_network(spec, places=Machine(spec, ranks=1)).contention() is None


@given(MESSAGE.filter(lambda message: message[1] != message[2]))
def test_a_message_alone_arrives_as_the_closed_form_says(message: tuple[int, int, int, int]) -> None:
    network, machine = torus()
    assert arrivals(network, machine, [message]) == [closed_form(network, *message)]


def test_the_second_message_on_a_link_waits_until_the_first_is_through() -> None:
    network, machine = torus()
    first, second, other_way = arrivals(network, machine, [(0, 0, 2, 1000), (200_000, 0, 2, 1000), (0, 1, 0, 1000)])
    assert first == closed_form(network, 0, 0, 2, 1000) == 1_000_000 + 3_200_000
    assert second == first + 1_000_000
    assert other_way == closed_form(network, 0, 1, 0, 1000)


def test_a_message_that_waits_leaves_the_links_ahead_of_it_free() -> None:
    """The second waits for the first at its second link; the third has the third link meanwhile."""
    spec = load_machine(TORUS, overrides={"topology.dims": "[8]"})
    machine = Machine(spec, ranks=8)
    network = make_network(spec, places=machine)
    messages = [(0, 0, 1, 10**6), (5_000_000, 7, 2, 1000), (10_000_000, 1, 2, 1000)]
    long, waiting, short = arrivals(network, machine, messages)
    assert (long, short) == (closed_form(network, *messages[0]), closed_form(network, *messages[2]))
    assert waiting == 10**9 + 2 * 100_000 + 1_000_000 + 3_000_000


@given(
    st.lists(MESSAGE.filter(lambda message: message[1] != message[2]), max_size=60), st.sampled_from(["0ns", "100ns"])
)
def test_all_hops_of_one_time_at_once_are_the_hops_one_by_one(
    messages: list[tuple[int, int, int, int]], per_hop: str
) -> None:
    messages = [(time_ps // 4_000_000 * 1_000_000, *rest) for time_ps, *rest in messages]  # many at the same time
    spec = load_machine(TORUS, overrides={"network.per_hop": per_hop})
    machine = Machine(spec, ranks=32)
    network = make_network(spec, places=machine)
    assert arrivals(network, machine, messages) == arrivals_hop_by_hop(network, machine, messages)


@given(st.lists(MESSAGE.filter(lambda message: message[1] != message[2]), max_size=30))
def test_sharing_never_makes_a_message_faster_nor_a_link_carry_two_at_once(
    messages: list[tuple[int, int, int, int]],
) -> None:
    network, machine = torus()
    messages.sort()
    through: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for message, arrival in zip(messages, arrivals(network, machine, messages), strict=True):
        _, src, dst, size_bytes = message
        assert arrival >= closed_form(network, *message)
        # Its last byte leaves the last link one hop and one latency before it arrives.
        leaves = arrival - 3_000_000 - 100_000
        last_link = machine.topology.route(src, dst)[-1]
        enters = leaves - network.link(src, dst).cost(size_bytes).wire_ps
        through.setdefault(last_link, []).append((enters, leaves))
    for passed in through.values():
        passed.sort()
        assert all(enters >= before for (_, before), (enters, _) in pairwise(passed))


def test_links_of_a_switch_are_shared_too() -> None:
    spec = load_machine({"network": {"latency": 0, "per_hop": "1us", "bandwidth": "8Gbps", "contention": "links"}})
    machine = Machine(spec, ranks=3)
    network = make_network(spec, places=machine)
    assert arrivals(network, machine, [(0, 0, 2, 5000), (0, 1, 2, 5000)]) == [7_000_000, 12_000_000]  # down one cable
    # Of a message that waits at its last hop, only that is left to go when others learn of it.
    assert network.min_latency_ps(machine.shard_blocks(3)) == 1_000_000


@given(st.lists(MESSAGE.filter(lambda message: message[1] != message[2]), max_size=40))
def test_links_that_are_alike_behave_as_such_also_where_each_layer_has_its_figures(
    messages: list[tuple[int, int, int, int]],
) -> None:
    found = []
    for links in (None, {"every": {"latency": "100ns"}, "y": {"latency": "100ns", "bandwidth": "8Gbps"}}):
        spec = load_machine(TORUS, overrides={"topology.links": links})
        machine = Machine(spec, ranks=32)
        assert (machine.topology.link_parameters is None) == (links is None)
        found.append(arrivals(make_network(spec, places=machine), machine, messages))
    assert found[0] == found[1]


UNEVEN = {
    "topology": {
        "type": "dragonfly",
        "hosts_per_router": 2,
        "links": {"host": {"bandwidth": "32Gbps"}, "global": {"bandwidth": "4Gbps", "latency": "1us"}},
    },
    "network": {"latency": "3us", "per_hop": "100ns", "bandwidth": "16Gbps", "contention": "links"},
}


@given(st.integers(0, 71), st.integers(0, 71).filter(bool), st.sampled_from([0, 1, 1000]))
def test_a_message_alone_takes_as_long_as_its_slowest_link_and_all_latencies(a: int, far: int, size: int) -> None:
    spec = load_machine(UNEVEN)
    machine = Machine(spec, ranks=72)
    network = make_network(spec, places=machine)
    message = (5, a, (a + far) % 72, size)
    assert arrivals(network, machine, [message]) == [closed_form(network, *message)]


def test_behind_a_slow_link_a_message_holds_the_fast_ones_as_long() -> None:
    spec = load_machine(UNEVEN)
    machine = Machine(spec, ranks=72)
    network = make_network(spec, places=machine)
    # Over one global link, and then one down to the node: that is held for 2 us, as the bytes come no faster.
    slow, quick = arrivals(network, machine, [(0, 0, 8, 1000), (1_000_000, 11, 8, 1000)])
    assert slow == closed_form(network, 0, 0, 8, 1000)
    assert quick > closed_form(network, 1_000_000, 11, 8, 1000)
