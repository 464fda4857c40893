"""Messages that meet on a link wait for each other, and those that do not meet keep their closed form."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xsim_py.config import load_machine
from xsim_py.machine import Machine
from xsim_py.network import LinkContention, Network

TORUS = {
    "topology": {"type": "torus", "dims": [4, 4, 2]},
    "network": {"latency": "3us", "per_hop": "100ns", "bandwidth": "8Gbps", "contention": "links"},
}
RANK = st.integers(0, 31)
MESSAGE = st.tuples(st.integers(0, 20_000_000), RANK, RANK, st.sampled_from([0, 1, 1000, 10_000]))


def torus() -> tuple[Network, Machine, LinkContention]:
    spec = load_machine(TORUS)
    machine = Machine(spec, ranks=32)
    network = Network(spec, places=machine)
    contention = network.contention()
    assert contention is not None
    return network, machine, contention


def closed_form(network: Network, time_ps: int, src: int, dst: int, size_bytes: int) -> int:
    _, wire_ps, _, latency_ps, _, _ = network.link(src, dst).times(size_bytes)
    return time_ps + wire_ps + latency_ps


def test_links_are_free_unless_the_description_says_otherwise() -> None:
    spec = load_machine(TORUS, overrides={"network.contention": "none"})
    assert Network(spec, places=Machine(spec, ranks=1)).contention() is None
    spec = load_machine("shmem")
    assert Network(spec, places=Machine(spec, ranks=1)).contention() is None


@given(MESSAGE.filter(lambda message: message[1] != message[2]))
def test_a_message_alone_arrives_as_the_closed_form_says(message: tuple[int, int, int, int]) -> None:
    time_ps, src, dst, size_bytes = message
    network, machine, contention = torus()
    route = machine.topology.route(src, dst)
    assert contention.traverse(route, time_ps=time_ps, size_bytes=size_bytes) == closed_form(network, *message)


def test_the_second_message_on_a_link_waits_until_the_first_is_through() -> None:
    network, machine, contention = torus()
    route = machine.topology.route(0, 2)
    first = contention.traverse(route, time_ps=0, size_bytes=1000)
    second = contention.traverse(route, time_ps=200_000, size_bytes=1000)
    other_way = contention.traverse(machine.topology.route(1, 0), time_ps=0, size_bytes=1000)
    assert first == closed_form(network, 0, 0, 2, 1000) == 1_000_000 + 3_200_000
    assert second == first + 1_000_000
    assert other_way == closed_form(network, 0, 1, 0, 1000)


@given(st.lists(MESSAGE.filter(lambda message: message[1] != message[2]), max_size=30))
def test_sharing_never_makes_a_message_faster_nor_a_link_carry_two_at_once(
    messages: list[tuple[int, int, int, int]],
) -> None:
    network, machine, contention = torus()
    last: dict[tuple[int, int], int] = {}
    for time_ps, src, dst, size_bytes in sorted(messages):
        route = machine.topology.route(src, dst)
        arrival = contention.traverse(route, time_ps=time_ps, size_bytes=size_bytes)
        assert arrival >= closed_form(network, time_ps, src, dst, size_bytes)
        wire_ps = network.link(src, dst).times(size_bytes)[1]
        # Its last byte leaves the last link one latency before it arrives, and its own time on the wire after the last
        # byte of the message before it, or later.
        leaves = arrival - 3_000_000 - 100_000
        assert leaves >= last.get(route[-1], 0) + wire_ps
        last[route[-1]] = leaves


def test_links_of_a_switch_are_shared_too() -> None:
    spec = load_machine({"network": {"latency": 0, "per_hop": "1us", "bandwidth": "8Gbps", "contention": "links"}})
    machine = Machine(spec, ranks=3)
    contention = Network(spec, places=machine).contention()
    assert contention is not None
    arrivals = [contention.traverse(machine.topology.route(src, 2), time_ps=0, size_bytes=5000) for src in (0, 1)]
    assert arrivals == [7_000_000, 12_000_000]  # both come down the same cable
