"""Whole programs on a torus whose links are shared: messages that meet wait for each other."""

import itertools
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN, SHARDS
from tests.real_mpi import MPIEXEC, mpiexec
from xsim_py import simulate
from xsim_py.machine.torus import Torus

US, NS = 10**6, 10**3
SIZES = [0, 1, 1000, 4096, 4097, 100_000]
THRESHOLD = 4096


class Sent(NamedTuple):
    """A message of so many bytes from node to node."""

    time_ns: int
    source: int
    to: int
    size: int


def torus(*dims: int, contention: str = "links") -> dict[str, Any]:
    """1 us and 100 ns a hop, 1 ns a byte."""
    return {
        "topology": {"type": "torus", "dims": [*dims]},
        "network": {
            "latency": "1us", "per_hop": "100ns", "bandwidth": "8Gbps", "eager_threshold": f"{THRESHOLD}B",
            "contention": contention,
        },
    }  # fmt: skip


def run(program: Any, *args: Any, ranks: int, machine: dict[str, Any], shards: int = 1) -> Any:
    result = simulate(program, ranks=ranks, machine=machine, args=args, shards=shards)
    assert (result.ended, result.exit_status, result.warnings) == ("finished", 0, []), result.report
    return result


def ends_ps(result: Any) -> list[int]:
    return [round(value * 10**12) for value in result.values]


def send_all(messages: list[tuple[int, int, int]]) -> float:
    """Each message is (from, to, bytes); all are sent at once. The time when a rank has got its own."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    expected = [(source, size) for source, to, size in messages if to == comm.rank]
    receives = [comm.Irecv(np.zeros(size, "u1"), source) for source, size in expected]
    sends = [comm.Isend(np.zeros(size, "u1"), to) for source, to, size in messages if source == comm.rank]
    MPI.Request.Waitall(receives)
    end_s = MPI.Wtime()
    MPI.Request.Waitall(sends)
    return end_s


def shuffle(size: int) -> float:
    """Each rank sends to some others, and to all in the end."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    block = np.zeros(size, "u1")
    for step in (1, 9, 16, 31):
        comm.Sendrecv_replace(block, (comm.rank + step) % comm.size, source=(comm.rank - step) % comm.size)
    comm.alltoall([bytes(comm.rank)] * comm.size)
    return MPI.Wtime()


RANKS = 36 if CAMPAIGN else 24
LAYERED = {"host": {"bandwidth": "16Gbps", "latency": "50ns"}, "global": {"bandwidth": "4Gbps", "latency": "1us"}}


@pytest.mark.sampled
@pytest.mark.parametrize(
    "topology",
    [
        {"type": "dragonfly", "hosts_per_router": 2, "routing": "valiant", "links": LAYERED},
        {"type": "fattree", "shape": "3;2,3,6;1,2,3;1,2,1", "routing": "ecmp"},
        {"type": "hyperx", "dims": [3, 4], "hosts_per_router": 3, "links": {"dim2": {"latency": "1us"}}},
        {"type": "torus", "dims": [6, 6], "ties": "simgrid"},
    ],
    ids=lambda topology: topology["type"],
)
def test_drawn_ways_and_links_of_all_kinds_give_one_digest_for_all_shards(topology: dict[str, Any]) -> None:
    for contention in ("none", "links"):
        machine = {**torus(4, contention=contention), "topology": topology}
        runs = [run(shuffle, 3000, ranks=RANKS, machine=machine, shards=shards) for shards in SHARDS]
        assert len({(each.digest, tuple(each.values)) for each in runs}) == 1
        if contention == "links" and topology.get("routing"):
            other = simulate(shuffle, ranks=RANKS, machine=machine, args=(3000,), seed=1)
            assert other.values != runs[0].values  # other ways are drawn


@pytest.mark.parametrize("size", SIZES)
def test_a_message_alone_takes_the_closed_form(size: int) -> None:
    machine, distance = torus(4, 4), Torus([4, 4]).hops
    for to in (1, 2, 5, 10, 15):
        way = US + distance(0, to) * 100 * NS
        end = ends_ps(run(send_all, [(0, to, size)], ranks=16, machine=machine))[to]
        assert end == way * (3 if size > THRESHOLD else 1) + size * NS


def test_messages_that_share_a_link_wait_for_each_other() -> None:
    """On a ring of 8, from 0 to 2 by way of 1, and from 1 to 2."""
    ends = ends_ps(run(send_all, [(0, 2, 1000), (1, 2, 2000)], ranks=8, machine=torus(8)))
    # The head of the first comes to the link from 1 to 2 after one hop, when the second has it already.
    assert ends[2] == 2000 * NS + 1000 * NS + US + 100 * NS
    # No bytes keep nobody.
    assert ends_ps(run(send_all, [(0, 2, 1000), (1, 3, 0)], ranks=8, machine=torus(8)))[2:4] == [
        1000 * NS + US + 200 * NS,
        US + 200 * NS,
    ]


def send_at(messages: list[Sent]) -> dict[int, int]:
    """One rank of each node sends, each message at its time or when it gets to it; the other says when they come."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    node, receives = divmod(comm.rank, 2)
    came = {}
    if receives:
        mine = [number for number, sent in enumerate(messages) if sent.to == node]
        requests = [comm.Irecv(np.zeros(messages[number].size, "u1"), tag=number) for number in mine]
        for _ in mine:
            number = mine[MPI.Request.Waitany(requests)]
            came[number] = round(MPI.Wtime() * 10**12)
    else:
        for number, sent in enumerate(messages):
            if sent.source == node:
                time.sleep(max(0.0, sent.time_ns * 1e-9 - MPI.Wtime()))
                comm.Send(np.zeros(sent.size, "u1"), 2 * sent.to + 1, number)
    return came


def times_of(messages: list[Sent], shards: int, **network: str) -> tuple[list[int], str, int]:
    machine = {**torus(8), "machine": {"cores_per_node": 2}}
    machine["network"].update(network)
    result = run(send_at, messages, ranks=16, machine=machine, shards=shards)
    came = {number: time_ps for value in result.values for number, time_ps in value.items()}
    return [came[number] for number in range(len(messages))], result.digest, result.events


@pytest.mark.parametrize("shards", [1, 2, 3, 8])
def test_a_message_that_waits_leaves_the_links_ahead_of_it_free(shards: int) -> None:
    """From 7 to 2 behind a long one from 0 to 1; meanwhile one from 1 to 2 goes its way."""
    messages = [Sent(0, 0, 1, 10**6), Sent(5000, 7, 2, 1000), Sent(10_000, 1, 2, 1000)]
    assert times_of(messages, shards=shards, eager_threshold="1MB")[0] == [
        10**6 * NS + 1100 * NS,
        10**6 * NS + 200 * NS + 1000 * NS + US,
        12_100 * NS,
    ]


def by_hand(messages: list[Sent], per_hop: int) -> list[int]:
    """When they arrive on a ring of 8, one event after the other."""
    interface, links, arrived = [0] * 8, dict.fromkeys(itertools.permutations(range(8), 2), 0), [0] * len(messages)
    events = []
    for number, sent in enumerate(messages):
        start = max(interface[sent.source], sent.time_ns)
        interface[sent.source] = start + sent.size
        events.append((start, sent.source, number, sent.source))
    while events:
        events.sort()
        head, source, number, at = events.pop(0)
        sent = messages[number]
        after = (at + (1 if (sent.to - source) % 8 <= 4 else -1)) % 8
        start = max(head, links[at, after])
        links[at, after] = start + sent.size
        if after == sent.to:
            arrived[number] = start + per_hop + 1000 + sent.size
        else:
            events.append((start + per_hop, source, number, after))
    return [arrival * NS for arrival in arrived]


RANK = st.integers(0, 7)
TRAFFIC = st.lists(
    st.builds(
        lambda time_ns, source, way, size: Sent(time_ns, source, (source + way) % 8, size),
        st.one_of(st.sampled_from([0, 100, 200, 1000, 1100]), st.integers(0, 5000)),
        RANK,
        st.integers(1, 7),
        st.one_of(st.sampled_from([0, 100, 1000]), st.integers(0, 3000)),
    ),
    max_size=20,
)


@settings(max_examples=60 if CAMPAIGN else 8, deadline=None)
@given(TRAFFIC, st.sampled_from([0, 100]), st.integers(2, 16))
def test_any_traffic_is_what_a_list_of_events_gives(messages: list[Sent], per_hop: int, shards: int) -> None:
    messages.sort()
    whole = times_of(messages, shards=1, per_hop=f"{per_hop}ns")
    assert whole[0] == by_hand(messages, per_hop)
    assert times_of(messages, shards=shards, per_hop=f"{per_hop}ns") == whole


def two_on_a_node() -> list[int]:
    """Rank 0 gets a message and sends another on; rank 1, on the same node, sends one at just that time."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.rank == 7:
        comm.Send(np.zeros(0, "u1"), 0)
    elif comm.rank < 2:
        if comm.rank == 0:
            comm.Recv(np.zeros(0, "u1"))
        else:
            time.sleep(1.1e-6)
        comm.Send(np.zeros(1000, "u1"), 2 + comm.rank)
    elif comm.rank < 4:
        comm.Recv(np.zeros(1000, "u1"))
    return round(MPI.Wtime() * 10**12)


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 8])
def test_of_those_that_come_at_the_same_time_the_lower_rank_goes_first(shards: int) -> None:
    """Also where that rank acts at this time only because of a message, and the other has acted already."""
    machine = {**torus(4), "machine": {"cores_per_node": 2}, "same_node": {"latency": "500ns"}}
    ends = run(two_on_a_node, ranks=8, machine=machine, shards=shards).values
    assert ends[2:4] == [1100 * NS + 2100 * NS, 1100 * NS + 3100 * NS]


def test_messages_that_share_no_link_do_not_wait() -> None:
    apart = [(0, 2, 1000), (2, 0, 1000), (4, 6, 1000), (3, 2, 1000)]  # opposite directions are two links
    assert ends_ps(run(send_all, apart, ranks=8, machine=torus(8)))[:7:2] == [2200 * NS, 2200 * NS, 0, 2200 * NS]


def test_ranks_of_one_node_do_not_use_links() -> None:
    machine = {**torus(8), "machine": {"cores_per_node": 2}, "same_node": {"latency": "500ns"}}
    assert ends_ps(run(send_all, [(0, 1, 1000), (2, 3, 10)], ranks=4, machine=machine)) == [0, 500 * NS, 0, 500 * NS]


def in_order() -> list[int]:
    """Rank 0 sends messages below and above the threshold; the tags say in which order they came."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    sizes = [100_000, 0, 5000, 10, 4096, 4097, 1] * 2
    if comm.rank == 0:
        MPI.Request.Waitall([comm.Isend(np.full(size, tag, "u1"), 2, tag) for tag, size in enumerate(sizes)])
    elif comm.rank == 1:  # what else is under way between 1 and 2
        MPI.Request.Waitall([comm.Isend(np.zeros(9000, "u1"), 3) for _ in range(9)])
    elif comm.rank == 2:
        status, tags = MPI.Status(), []
        for _ in sizes:
            buffer = np.zeros(100_000, "u1")
            comm.Recv(buffer, 0, MPI.ANY_TAG, status)
            tags.append(status.tag)
            assert status.Get_count() == sizes[status.tag]
            assert (buffer[: sizes[status.tag]] == status.tag).all()
        return tags
    elif comm.rank == 3:
        for _ in range(9):
            comm.Recv(np.zeros(9000, "u1"), 1)
    return []


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_messages_of_a_pair_do_not_overtake(shards: int) -> None:
    assert run(in_order, ranks=8, machine=torus(8), shards=shards).values[2] == [*range(14)]


def everyone_to_everyone(size: int) -> float:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    for _ in range(2):
        target = np.zeros((comm.size, size), "u1")
        comm.Alltoall(np.full((comm.size, size), comm.rank, "u1"), target)
        assert (target == np.arange(comm.size)[:, None]).all()
    return MPI.Wtime()


@pytest.mark.parametrize("size", [0, 64, 2000, 10_000] if CAMPAIGN else [0, 2000])
def test_sharing_links_never_helps(size: int) -> None:
    shared = ends_ps(run(everyone_to_everyone, size, ranks=16, machine=torus(4, 4)))
    alone = ends_ps(run(everyone_to_everyone, size, ranks=16, machine=torus(4, 4, contention="none")))
    assert all(a >= b for a, b in zip(shared, alone, strict=True))
    assert (max(shared) > max(alone)) == (size > 0)


MIXED = """
import random, time
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
me, size = comm.rank, comm.size
for _ in range(3):
    time.sleep(random.random() * 1e-5)
    comm.Sendrecv(np.zeros(6000, "u1"), (me + 3) % size, recvbuf=np.zeros(6000, "u1"), source=(me - 3) % size)
    comm.Alltoall(np.zeros(100 * size, "u1"), np.zeros(100 * size, "u1"))
    request = comm.Iallreduce(np.ones(1000), np.zeros(1000))
    for _ in range(2):
        comm.isend(me, (me * 5 + 1) % size, 4).wait()
    senders = [other for other in range(size) if (other * 5 + 1) % size == me]
    got = sorted(comm.recv(source=MPI.ANY_SOURCE, tag=4) for _ in 2 * senders)
    assert got == sorted(2 * senders)
    request.Wait()
    comm.Barrier()
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    program, machine = tmp_path / "mixed.py", tmp_path / "torus.yaml"
    program.write_text(MIXED)
    machine.write_text(json.dumps(torus(4, 4)))  # JSON is YAML
    return program, machine


def test_the_digest_does_not_depend_on_the_shards(files: tuple[Path, Path]) -> None:
    program, machine = files
    results = [simulate(program, ranks=16, machine=machine, shards=shards) for shards in SHARDS]
    assert {result.ended for result in results} == {"finished"}
    assert len({(result.digest, result.virtual_time_s, result.messages, result.events) for result in results}) == 1
    assert results[0].digest != simulate(program, ranks=16, machine=torus(4, 4, contention="none")).digest


def abort_at(when_s: float) -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    others = [other for other in range(comm.size) if other != comm.rank]
    requests = [comm.Isend(np.zeros(3000, "u1"), other) for other in others]
    if comm.rank == 5:
        time.sleep(when_s)
        comm.Abort(3)
    MPI.Request.Waitall([*requests, *(comm.Irecv(np.zeros(3000, "u1"), other) for other in others)])


@pytest.mark.parametrize("when_s", [0, 5e-6, 4e-5])
def test_an_abort_leaves_the_messages_on_the_links(when_s: float) -> None:
    results = [simulate(abort_at, ranks=16, machine=torus(4, 4), args=[when_s], shards=shards) for shards in SHARDS]
    assert {(result.ended, result.exit_status) for result in results} == {("aborted", 3)}
    assert len({(result.digest, result.virtual_time_s, result.events) for result in results}) == 1


if MPIEXEC.exists():

    def test_two_real_mpi_ranks_give_the_same_digest(files: tuple[Path, Path]) -> None:
        program, machine = files
        done = mpiexec(2, "-m", "xsim_py", "run", "-n", "16", "--machine", machine, "--json", "-", program)
        assert done.returncode == 0, done.stderr
        alone = simulate(program, ranks=16, machine=machine)
        summary = json.loads(done.stdout)
        assert (summary["digest"], summary["events"]) == (alone.digest, alone.events)
        assert (summary["shards"], summary["virtual_time_s"]) == (2, alone.virtual_time_s)

    def test_a_window_that_ends_with_all_messages_on_the_links_is_not_the_end(tmp_path: Path) -> None:
        program, machine = tmp_path / "one.py", tmp_path / "torus.yaml"
        program.write_text(
            "from mpi4py import MPI\n"
            "c = MPI.COMM_WORLD\n"
            "c.send('x', 1) if c.rank == 0 else c.rank == 1 and print(c.recv())\n"
        )
        machine.write_text(json.dumps(torus(4)))
        done = mpiexec(2, "-m", "xsim_py", "run", "-n", "4", "--machine", machine, program)
        assert (done.returncode, done.stdout) == (0, "x\n"), done.stderr


def one_after_the_other(sizes: list[int]) -> list[tuple[int, int]]:
    """Rank 0 sends messages of so many bytes; which one rank 1 gets when, in picoseconds."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.rank == 0:
        MPI.Request.Waitall([comm.Isend(np.full(size, number, "u1"), 1) for number, size in enumerate(sizes)])
        return []
    got = []
    for size in sizes:
        data = np.zeros(size, "u1")
        comm.Recv(data, 0)
        got.append((int(data[0]) if size else 0, round(MPI.Wtime() * 10**12)))
    return got


def test_a_message_whose_segment_is_faster_comes_with_its_elder_and_not_before() -> None:
    segments = [{"from": "1kB", "latency": "50us"}, {"from": "10kB", "latency": "1us"}]
    network = {"latency": "1us", "bandwidth": "10GB/s", "segments": segments}
    for contention in ("none", "links", "flows"):
        machine = {"network": {**network, "contention": contention}}
        results = [
            run(one_after_the_other, [1000, 10_000, 10], ranks=2, machine=machine, shards=shards) for shards in (1, 2)
        ]
        # the first holds its link for 100 ns and not for what its latency is longer
        assert results[0].values[1] == [(number, 50_100_000) for number in range(3)]
        assert results[0].digest == results[1].digest


@pytest.mark.parametrize("contention", ["none", "links", "flows"])
@pytest.mark.parametrize("links", [{}, {"every": {"bandwidth": "5GB/s"}}])
def test_a_header_is_on_the_wire_before_each_message(contention: str, links: dict[str, Any]) -> None:
    network = {"latency": "1us", "bandwidth": "10GB/s", "header": "16B", "contention": contention}
    machine = {"network": network, "topology": {"type": "switch", "links": links} if links else {}}
    result = run(one_after_the_other, [0, 1000], ranks=2, machine=machine)
    per_byte = 200 if links else 100
    free = 16 * per_byte
    if contention == "flows":  # both flow at a time, until the first one's header has passed
        ends = [32 * per_byte, (16 + 1016) * per_byte]
    else:
        ends = [free, free + 1016 * per_byte]
    assert [end for _, end in result.values[1]] == [US + end for end in ends]
