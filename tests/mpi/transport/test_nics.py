"""Network interfaces and memories that the ranks of a node share: incast, both ways at once, message rates."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from xsim_py import simulate
from xsim_py.config import load_machine
from xsim_py.machine import Machine
from xsim_py.network import make_network

US = 10**6
CORES = 4
N = 10_000  # bytes, which take 1 us at 10 GB/s


def machine(nic: dict[str, Any], *, nics: int = 1, sockets: int = 1, **more: Any) -> dict[str, Any]:
    """Describe nodes of four cores; 1 us between nodes, half of it within one."""
    return {
        "machine": {"cores_per_node": CORES, "nics_per_node": nics, "sockets_per_node": sockets},
        "network": {"latency": "1us", "bandwidth": "100GB/s", **more.pop("network", {})},
        "same_node": {"latency": "500ns"},
        "nic": nic,
        **more,
    }


def arrivals(messages: list[tuple[int, int, int]]) -> list[tuple[int, float]]:
    """Send all messages (from, to, bytes) at once, and tell when each came, by its number."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    mine = [
        (number, comm.Irecv(np.zeros(size, "u1"), source, number))
        for number, (source, to, size) in enumerate(messages)
        if to == comm.rank
    ]
    for number, (source, to, size) in enumerate(messages):
        if source == comm.rank:
            comm.Isend(np.zeros(size, "u1"), to, number)
    came = []
    numbers, requests = zip(*mine, strict=True) if mine else ((), ())
    while (done := MPI.Request.Waitany(requests)) != MPI.UNDEFINED:
        came.append((numbers[done], MPI.Wtime()))
    return came


def run(messages: list[tuple[int, int, int]], described: dict[str, Any], *, ranks: int, shards: int = 1) -> list[int]:
    result = simulate(arrivals, ranks=ranks, machine=described, args=[messages], shards=shards)
    assert (result.ended, result.exit_status) == ("finished", 0), result.report
    came = dict(each for values in result.values for each in values)
    return [round(came[number] * 10**12) for number in range(len(messages))]


def test_ranks_of_a_node_send_one_after_the_other() -> None:
    sends = [(rank, CORES + rank, N) for rank in range(CORES)]
    assert run(sends, machine({"bandwidth": "10GB/s"}), ranks=8) == [2 * US, 3 * US, 4 * US, 5 * US]
    assert run(sends, machine({"bandwidth": "10GB/s"}, nics=2), ranks=8) == [2 * US, 3 * US, 2 * US, 3 * US]


@pytest.mark.parametrize("nodes", [2, 5])
def test_what_comes_to_a_node_at_once_comes_in_one_after_the_other(nodes: int) -> None:
    """Incast: k senders on nodes of their own share what the receiver's interface takes."""
    sends = [(CORES * node, node % CORES, N) for node in range(1, nodes + 1)]
    came = run(sends, machine({"bandwidth": "10GB/s"}), ranks=CORES * (nodes + 1))
    assert came == [(1 + place) * US for place in range(1, nodes + 1)]


def test_small_messages_are_as_many_as_the_rate_allows() -> None:
    sends = [(rank, CORES, 0) for rank in range(CORES)] * 3
    came = run(sends, machine({"message_rate": "10M/s"}), ranks=8)
    assert sorted(came) == [US + place * US // 10 for place in range(len(sends))]


@pytest.mark.parametrize(
    ("nic", "last"),
    [
        ({}, 2.0),
        ({"both_ways": 0.8}, 2.4),  # of 20,000 bytes 16 GB/s while both flow: 1 us, and then 4,000 at 10 GB/s
        ({"both_ways": 0.5}, 3.0),
        ({"duplex": "half"}, 3.0),
    ],
)
def test_an_interface_may_be_slower_both_ways(nic: dict[str, Any], last: float) -> None:
    came = run([(0, CORES, N), (CORES, 0, N)], machine({"bandwidth": "10GB/s", **nic}), ranks=8)
    assert came == [2 * US, int(last * US)]


def test_two_streams_against_each_other_have_at_most_what_both_ways_have_together() -> None:
    """1.6 us of messages in each us while both flow; the one that comes first may be done after 50 us."""
    sends = [each for _ in range(50) for each in ((0, CORES, N), (CORES, 0, N))]
    came = run(sends, machine({"bandwidth": "10GB/s", "both_ways": 0.8}), ranks=8)
    assert 63.5 * US <= max(came) <= 71 * US


def test_messages_within_a_node_share_its_memory() -> None:
    memory = {"memory": {"bandwidth": "10GB/s"}}
    within = [(0, 1, N), (2, 3, N)]
    assert run(within, machine({}, **memory), ranks=4) == [3 * US // 2, 5 * US // 2]
    assert run(within, machine({}, sockets=2, **memory), ranks=4) == [3 * US // 2, 3 * US // 2]
    assert run([(0, 2, N), (1, 3, N)], machine({}, sockets=2, **memory), ranks=4) == [3 * US // 2, 5 * US // 2]


def by_hand(messages: list[tuple[int, int, int]], *, nics: int) -> list[int]:
    """Serve one message at a time each way of an interface: first come, first served, and lower ranks first."""
    free: dict[tuple[str, int, int], int] = {}
    came = {}
    heads = [(0, source, to, size, ["in", "out"]) for source, to, size in messages]
    while heads:
        heads.sort()
        at, source, to, size, ways = heads.pop(0)
        if source // CORES == to // CORES:
            came[source] = US // 2
            continue
        way = ways.pop()
        rank = source if way == "out" else to
        link = (way, rank // CORES, rank % CORES * nics // CORES)
        at = max(at, free.get(link, 0))
        free[link] = at + size * 100
        if ways:
            heads.append((at, source, to, size, ways))
        else:
            came[source] = at + size * 100 + US
    return [came[source] for source, _, _ in messages]


def ranks_differ(message: tuple[int, int, int]) -> bool:
    return message[0] != message[1]


RANK = st.integers(0, 11)
MESSAGES = st.lists(
    st.tuples(RANK, RANK, st.sampled_from([0, 1000, N])).filter(ranks_differ), min_size=1, max_size=8,
    unique_by=lambda message: message[0],
)  # fmt: skip


@settings(max_examples=20 if CAMPAIGN else 10)
@given(MESSAGES.map(sorted), st.sampled_from([1, 2, 4]))
def test_random_messages_arrive_as_by_hand(messages: list[tuple[int, int, int]], nics: int) -> None:
    described = machine({"bandwidth": "10GB/s"}, nics=nics)
    assert run(messages, described, ranks=12) == by_hand(messages, nics=nics)


def stir(size: int) -> float:
    """Send around, across and within nodes, and to all."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    block = np.zeros(size, "u1")
    for step in (1, 3, 4, 7):
        comm.Sendrecv_replace(block, (comm.rank + step) % comm.size, source=(comm.rank - step) % comm.size)
    comm.alltoall([bytes(comm.rank)] * comm.size)
    comm.Allreduce(MPI.IN_PLACE, block)
    return MPI.Wtime()


@pytest.mark.sampled
@pytest.mark.parametrize("contention", ["none", "links"])
@pytest.mark.parametrize("placement", ["block", "round_robin"])
def test_shards_make_no_difference(contention: str, placement: str) -> None:
    nic = {"bandwidth": "10GB/s", "message_rate": "50M/s", "both_ways": 0.7}
    described = machine(
        nic, nics=2, sockets=2, memory={"bandwidth": "20GB/s"}, network={"contention": contention, "per_hop": "50ns"},
        layers=[{"name": "socket", "latency": "300ns"}, {"name": "chassis", "nodes": 2, "latency": "800ns"}],
    )  # fmt: skip
    described["machine"] |= {"placement": placement, "nodes": 3}
    results = [simulate(stir, ranks=12, machine=described, args=[5000], shards=shards) for shards in (1, 2, 3, 7)]
    assert {result.digest for result in results} == {results[0].digest}
    assert {result.events for result in results} == {results[0].events}
    assert all(result.values == results[0].values for result in results)


def alone(to: int, sizes: list[int]) -> list[int]:
    """Send messages of so many bytes from rank 0 to another rank, each long after the last; how long each one takes."""
    from time import sleep

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    took = []
    for number, size in enumerate(sizes):
        sleep(number + 1 - MPI.Wtime())
        data = np.zeros(size, "u1")
        if comm.rank == 0:
            comm.Send(data, to)
        elif comm.rank == to:
            comm.Recv(data, 0)
            took.append(round((MPI.Wtime() - number - 1) * 10**12))
    return took


SPEED = st.sampled_from([1, 3, 10, 40]).map(lambda speed: f"{speed}GB/s")
LATENCY = st.sampled_from([100, 1000, 7000]).map(lambda latency: f"{latency}ns")
SEGMENTS = st.lists(
    st.fixed_dictionaries({"from": st.sampled_from([0, 1000, 5000, 20_000]), "latency": LATENCY, "bandwidth": SPEED}),
    min_size=1, max_size=3, unique_by=lambda segment: segment["from"],
).map(lambda segments: sorted(segments, key=lambda segment: segment["from"]))  # fmt: skip
UNUSED = {"latency": None, "bandwidth": None}  # where segments have them for all sizes
COSTS = st.fixed_dictionaries(
    {"latency": LATENCY, "bandwidth": SPEED},
    optional={"segments": SEGMENTS, "header": st.just("16B"), "eager_threshold": st.just("4KiB")},
).map(lambda costs: costs | ({} if costs.get("segments", [{"from": 1}])[0]["from"] else UNUSED))
NICS = st.fixed_dictionaries({}, optional={"bandwidth": SPEED, "duplex": st.just("half"), "latency": LATENCY})


@settings(max_examples=25 if CAMPAIGN else 10)
@given(
    COSTS, COSTS, st.none() | NICS, st.none() | SPEED, st.sampled_from(["full", "half"]), st.none() | SPEED,
    st.sampled_from([1, CORES]),
)  # fmt: skip
def test_a_message_alone_takes_what_its_machine_says_however_links_are_shared(
    network: dict[str, Any], node: dict[str, Any], nic: Any, memory: Any, duplex: str, link: Any, to: int
) -> None:
    described = {
        "machine": {"cores_per_node": CORES}, "same_node": node,
        "topology": {"type": "switch", "duplex": duplex, **({"links": {"node": {"bandwidth": link}}} if link else {})},
        **({"nic": nic} if nic is not None else {}), **({"memory": {"bandwidth": memory}} if memory else {}),
    }  # fmt: skip
    sizes = [0, 999, 5000, 100_000]
    for contention in ("none", "links", "flows"):
        described["network"] = {**network, "contention": contention}
        spec = load_machine(described)
        told = make_network(spec, places=Machine(spec, ranks=2 * CORES)).link(0, to)
        result = simulate(alone, ranks=2 * CORES, machine=described, args=[to, sizes])
        expected = [told.one_way_ps(size) for size in sizes]
        assert result.values[to] == [pytest.approx(time_ps, abs=2) for time_ps in expected], contention
