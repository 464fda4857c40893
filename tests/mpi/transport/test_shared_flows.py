"""Whole programs whose messages share links max-min fairly: beside SMPI, beside sets of flows, and for any shards."""

import csv
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN, SHARDS
from tests.mpi.transport.test_shared_links import (
    LAYERED,
    MIXED,
    TRAFFIC,
    Sent,
    abort_at,
    ends_ps,
    in_order,
    run,
    send_all,
    shuffle,
    times_of,
    torus,
)
from tests.real_mpi import MPIEXEC, mpiexec
from xsim_py import simulate

US, NS = 10**6, 10**3
HEADER = 16  # bytes that SMPI sends with each message
SEGMENTS = [{"from": "2KiB", "bandwidth": "6Gbps", "latency": "2us"}, {"from": "5000B", "latency": "500ns"}]
SETS = Path(__file__).parents[2] / "network" / "flow_sets"
with (Path(__file__).parent / "smpi_times.csv").open() as file:
    SMPI = list(csv.DictReader(file))
TREES = {
    "fat16": "2;4,4;1,4;1,1",
    "fat16-tapered": "2;4,4;1,2;1,1",
    "fat64": "3;4,4,4;1,4,4;1,1,1",
    "fat64-tapered": "3;4,4,4;1,4,2;1,1,1",
    "fat128-tapered": "2;16,8;1,8;1,1",
}


def of_smpi(name: str) -> dict[str, Any]:
    """A machine that SMPI was run on: links of 1.25 GB/s, and 3 us for every message."""
    topology: dict[str, Any] = {"type": "fattree", "shape": TREES.get(name)}
    if name.startswith("dragonfly"):
        topology = {"type": "dragonfly", "hosts_per_router": 2, "routers_per_group": 4, "global_links_per_router": 2}
    return {"topology": topology, "network": {"latency": "3us", "bandwidth": "1.25GB/s", "contention": "flows"}}


def steps(kind: str, size: int, rounds: int, shift: int) -> float:
    """Exchange with one rank after the other; the time when that is done."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    me, ranks = comm.rank, comm.size
    send, receive = np.zeros(size, "u1"), np.zeros(size, "u1")
    if kind == "shift":
        peers = [((me + shift) % ranks, (me - shift) % ranks)]
    elif kind == "allreduce":
        peers = [(me ^ 1 << step, me ^ 1 << step) for step in range(ranks.bit_length() - 1)]
    elif ranks & (ranks - 1):
        peers = [((me + step) % ranks, (me - step) % ranks) for step in range(1, ranks)]
    else:
        peers = [(me ^ step, me ^ step) for step in range(1, ranks)]
    for _ in range(rounds):
        for to, source in peers:
            comm.Sendrecv(send, to, recvbuf=receive, source=source)
    return MPI.Wtime()


def named(row: dict[str, str]) -> str:
    return f"{row['machine']} {row['program']} {row['shift']} of {row['bytes']} B"


@pytest.mark.sampled
@pytest.mark.parametrize("row", SMPI if CAMPAIGN else SMPI[1::8], ids=named)
def test_programs_take_as_long_as_under_smpi(row: dict[str, str]) -> None:
    """Times of SimGrid 3.32 with links shared max-min fairly; all but these differ by less than a picosecond a step.

    In an alltoall on 72 ranks of a dragonfly, which of two messages is through first depends on less than that.
    """
    ranks = int("".join(filter(str.isdigit, row["machine"])))
    args = row["program"], int(row["bytes"]) + HEADER, int(row["rounds"]), int(row["shift"])
    found = run(steps, *args, ranks=ranks, machine=of_smpi(row["machine"])).values
    chaotic = row["machine"] == "dragonfly72" and row["program"] == "alltoall"
    took = found[0] if row["of"] == "rank 0" else max(found)
    assert took * 1e6 == pytest.approx(float(row["microseconds"]), rel=2e-3 if chaotic else 1e-9)


def of_set(told: dict[str, Any]) -> dict[str, Any]:
    """The machine of a set of flows."""

    def figures(bandwidth: float, latency_s: float) -> dict[str, str]:
        return {"bandwidth": f"{bandwidth}B/s", "latency": f"{latency_s * 1e9:.0f}ns"}

    names = {"fat_tree": "fattree", "dragonfly": "dragonfly", "torus": "torus", "switch": "switch"}
    topology: dict[str, Any] = {"type": names[told["type"]]}
    bandwidth, latency = told["bandwidth_Bps"], told["latency_s"]
    machine: dict[str, Any] = {"topology": topology, "machine": {"cores_per_node": 2 * told.get("ranks_per_node", 1)}}
    port = told.get("port", told)
    machine["same_node"] = {"latency": f"{port.get('memory_latency_s', 1e-6) * 1e9:.0f}ns"}
    if "memory_Bps" in port:
        machine["memory"] = {"bandwidth": f"{port['memory_Bps']}B/s"}
    if port is not told:
        machine["nic"] = {**figures(port["bandwidth_Bps"], port["latency_s"]), "duplex": port["duplex"]}
    if told["type"] == "fat_tree":
        levels = [",".join(map(str, told[key])) for key in "mwp"]
        topology |= {"shape": ";".join([str(len(told["m"])), *levels]), "cables": told.get("cables", "destination")}
        layers = {f"level{level}": each for level, each in enumerate(zip(bandwidth, latency, strict=True), 1)}
    elif told["type"] == "dragonfly":
        keys = {"hosts_per_router": "p", "routers_per_group": "a", "global_links_per_router": "h", "wiring": "wiring"}
        topology |= {key: told[name] for key, name in keys.items()}
        layers = {layer: (bandwidth[layer], latency[layer]) for layer in ("host", "local", "global")}
    else:
        layers = {"every": (bandwidth, latency)}
        if told["type"] == "torus":
            topology |= {"dims": told["dims"], "ties": told["ties"]}
        else:
            machine["machine"]["nodes"] = told["nodes"]
        if "backbone_Bps" in told:
            layers["backbone"] = told["backbone_Bps"], told["backbone_latency_s"]
    topology["links"] = {layer: figures(*each) for layer, each in layers.items()}
    return {
        **machine,
        "network": {"latency": "0s", "per_hop": "1us", "contention": "flows"},
    }


def flows_of(flows: list[dict[str, Any]]) -> dict[int, float]:
    """Each flow is a message, from one of two ranks to the other of another two, sent at its time; when it came."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    before = 1.0  # second: until then all is made ready
    seen: dict[tuple[int, int], int] = {}
    parts = []
    for flow in flows:  # messages of one rank to another one may not overtake each other: each in its own communicator
        ends = flow["src"], flow["dst"]
        parts.append(seen.get(ends, 0))
        seen[ends] = parts[-1] + 1
    place, receives = divmod(comm.rank, 2)
    comms = [comm.Dup() for _ in range(max(seen.values()))]
    if not receives:
        for number, flow in sorted(enumerate(flows), key=lambda each: each[1]["start_s"]):
            if flow["src"] == place:
                time.sleep(before + flow["start_s"] - MPI.Wtime())
                comms[parts[number]].Send(np.zeros(flow["bytes"], "u1"), 2 * flow["dst"] + 1, number)
        return {}
    mine = [number for number, flow in enumerate(flows) if flow["dst"] == place]
    requests = [comms[parts[n]].Irecv(np.zeros(flows[n]["bytes"], "u1"), 2 * flows[n]["src"], n) for n in mine]
    came = {}
    for _ in mine:
        number = mine[MPI.Request.Waitany(requests)]
        came[number] = MPI.Wtime() - before
    return came


PROGRAMS = ["dragonfly-abs-00", "fat3-full-00", "switch-backbone-00", "torus-ports-00"]
MORE = ["fat2-cables-01", "fat2-levels-01", "switch-ports-00", "torus-543-00"]


@pytest.mark.sampled
@pytest.mark.parametrize("name", PROGRAMS + MORE * CAMPAIGN)
def test_messages_end_when_the_flows_of_a_set_do(name: str) -> None:
    told = json.loads((SETS / f"{name}.json").read_text())
    machine = of_set(told["topology"])
    flows = told["flows"]
    ranks = 2 * max(max(flow["src"], flow["dst"]) for flow in flows) + 2
    result = run(flows_of, flows, ranks=ranks, machine=machine)
    came = {number: end for value in result.values for number, end in value.items()}
    assert [came[number] for number in range(len(flows))] == pytest.approx(told["finish_s"], rel=1e-6)


@settings(max_examples=20 if CAMPAIGN else 4)
@given(TRAFFIC, st.sampled_from([0, 100]), st.integers(2, 16))
def test_any_traffic_is_the_same_for_all_shards(messages: list[Sent], per_hop: int, shards: int) -> None:
    messages.sort()
    network = {"per_hop": f"{per_hop}ns", "contention": "flows"}
    whole = times_of(messages, shards=1, **network)
    assert times_of(messages, shards=shards, **network) == whole


@settings(max_examples=15 if CAMPAIGN else 4)
@given(TRAFFIC)
def test_messages_that_do_not_meet_take_as_long_as_without_contention(messages: list[Sent]) -> None:
    apart = [sent._replace(time_ns=number * 10_000) for number, sent in enumerate(messages)]
    found = [times_of(apart, shards=1, contention=mode)[0] for mode in ("none", "links", "flows")]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("size", [4096, 4097])
def test_what_a_rank_sends_at_a_time_shares_its_interface(size: int) -> None:
    """Two messages on two links of a torus; above the threshold they are rendezvous."""
    machine = torus(4, 4, contention="flows")
    ends = ends_ps(run(send_all, [(0, 1, size), (0, 4, size)], ranks=16, machine=machine))
    assert ends[1] == ends[4] == 1100 * NS * (3 if size > 4096 else 1) + 2 * size * NS


def done() -> list[int]:
    """How long each rank takes to send or receive: by rendezvous on two pairs, synchronous, eager."""
    from mpi4py import MPI

    comm, took = MPI.COMM_WORLD, []
    for number, size in enumerate((5000, 1000, 1000), 1):
        start = number * 1e-4
        time.sleep(start - MPI.Wtime())
        if comm.rank < 2 or number == 1:
            if comm.rank % 2:
                comm.Recv(np.zeros(size, "u1"), comm.rank - 1)
            else:
                (comm.Ssend if number == 2 else comm.Send)(np.zeros(size, "u1"), comm.rank + 1)
        took.append(round((MPI.Wtime() - start) * 10**12))
    return took


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_a_send_by_rendezvous_is_complete_when_its_last_byte_is_there(shards: int) -> None:
    """On a switch with a backbone that two messages share: half the rate for both."""
    links = {"every": {"bandwidth": "8Gbps", "latency": "500ns"}, "backbone": {"bandwidth": "8Gbps"}}
    network = {"latency": "1us", "bandwidth": "8Gbps", "eager_threshold": "4KiB", "contention": "flows"}
    machine = {"topology": {"type": "switch", "links": links}, "network": network}
    sender, receiver, *others = run(done, ranks=4, machine=machine, shards=shards).values
    way = 2 * US
    assert sender[0] == receiver[0] == 3 * way + 2 * 5000 * NS == others[0][0]
    assert sender[1:] == [2 * way + 1000 * NS, 0]
    assert receiver[1:] == [way + 1000 * NS] * 2


def overtaking() -> tuple[list[int], list[int]]:
    """A long message, and short ones after it: which comes first, and when each is there."""
    from mpi4py import MPI

    comm, order, ends = MPI.COMM_WORLD, [], []
    if comm.rank == 0:
        MPI.Request.Waitall([comm.Isend(np.zeros(size, "u1"), 1, size) for size in (4000, 100, 200)])
    elif comm.rank == 1:
        status = MPI.Status()
        for _ in range(3):
            comm.Recv(np.zeros(4000, "u1"), 0, MPI.ANY_TAG, status)
            order.append(status.tag)
            ends.append(round(MPI.Wtime() * 10**12))
    return order, ends


@pytest.mark.parametrize("shards", [1, 2])
def test_a_short_message_comes_with_the_long_one_before_it(shards: int) -> None:
    order, ends = run(overtaking, ranks=2, machine=torus(2, contention="flows"), shards=shards).values[1]
    assert order == [4000, 100, 200]
    assert ends == [1100 * NS + 4300 * NS] * 3  # all the time something flows at 1 byte a nanosecond


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_messages_of_a_pair_do_not_overtake(shards: int) -> None:
    assert run(in_order, ranks=8, machine=torus(8, contention="flows"), shards=shards).values[2] == [*range(14)]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "topology",
    [
        {"type": "dragonfly", "hosts_per_router": 2, "routing": "valiant", "links": LAYERED},
        {"type": "fattree", "shape": "3;2,3,6;1,2,3;1,2,1", "routing": "ecmp"},
        {"type": "hyperx", "dims": [3, 4], "hosts_per_router": 3, "links": {"dim2": {"latency": "1us"}}},
        {"type": "switch", "duplex": "half"},
    ],
    ids=lambda topology: topology["type"],
)
def test_all_topologies_give_one_digest_for_all_shards(topology: dict[str, Any]) -> None:
    machine = {**torus(4, contention="flows"), "topology": topology}
    runs = [run(shuffle, 3000, ranks=16, machine=machine, shards=shards) for shards in (1, 3)]
    assert len({(each.digest, each.events, each.messages, tuple(each.values)) for each in runs}) == 1


@pytest.mark.sampled
@pytest.mark.parametrize("what", ["plain", "segments", "noise", "nodes"])
def test_the_digest_does_not_depend_on_the_shards(what: str, tmp_path: Path) -> None:
    program, machine = tmp_path / "mixed.py", torus(4, 4, contention="flows")
    program.write_text(MIXED)
    more = what != "plain"
    if what == "segments":
        machine["network"]["segments"] = SEGMENTS
    elif what == "noise":
        machine["network"]["noise"] = {"bandwidth": 0.5, "latency": 0.1}
    elif what == "nodes":
        machine |= {"machine": {"cores_per_node": 2, "sockets_per_node": 2}, "memory": {"bandwidth": "6Gbps"}}
        machine |= {"nic": {"both_ways": 0.7}, "same_node": {"latency": "200ns"}}
    runs: list[dict[str, Any]] = [{"shards": shards} for shards in ((1, 3) if more else SHARDS)]
    runs += [] if more else [{"shards": 3, "trace": True}, {"isolation": "process:4"}]
    results = [simulate(program, ranks=16, machine=machine, **each) for each in runs]
    assert {result.ended for result in results} == {"finished"}
    assert len({(result.digest, result.virtual_time_s, result.messages, result.events) for result in results}) == 1


@pytest.mark.parametrize("when_s", [0, 5e-6, 4e-5])
def test_an_abort_leaves_the_messages_on_the_links(when_s: float) -> None:
    machine = torus(4, 4, contention="flows")
    results = [simulate(abort_at, ranks=16, machine=machine, args=[when_s], shards=shards) for shards in SHARDS]
    assert {(result.ended, result.exit_status) for result in results} == {("aborted", 3)}
    assert len({(result.digest, result.virtual_time_s, result.events) for result in results}) == 1


def test_a_job_that_is_started_again_begins_with_links_that_nobody_uses() -> None:
    machine = torus(4, 4, contention="flows")
    options: dict[str, Any] = {"ranks": 16, "args": [3000], "machine": machine, "fail": "rank=3@20us"}
    results = [simulate(shuffle, restart="on-abort,delay=1us", shards=shards, **options) for shards in (1, 3)]
    assert results[0].ended == "finished"
    assert len({(result.digest, result.virtual_time_s, result.events) for result in results}) == 1
    whole = run(shuffle, 3000, ranks=16, machine=machine)
    assert results[0].virtual_time_s > whole.virtual_time_s


if MPIEXEC.exists() and CAMPAIGN:  # as a rule those of `test_shared_links` are enough

    def test_two_real_mpi_ranks_give_the_same_digest(tmp_path: Path) -> None:
        program, machine = tmp_path / "mixed.py", tmp_path / "torus.yaml"
        program.write_text(MIXED)
        machine.write_text(json.dumps(torus(4, 4, contention="flows")))  # JSON is YAML
        done = mpiexec(2, "-m", "xsim_py", "run", "-n", "16", "--machine", machine, "--json", "-", program)
        assert done.returncode == 0, done.stderr
        alone = simulate(program, ranks=16, machine=machine)
        summary = json.loads(done.stdout)
        assert (summary["digest"], summary["events"]) == (alone.digest, alone.events)


N = 10_000  # bytes, which take 1 us at 10 GB/s


@pytest.mark.parametrize(
    ("nic", "nics", "sends", "wanted"),
    [
        ({}, 1, [(rank, 4 + rank, N) for rank in range(4)], [5, 5, 5, 5]),
        ({}, 2, [(rank, 4 + rank, N) for rank in range(4)], [3, 3, 3, 3]),
        ({}, 1, [(4, 0, N), (8, 1, N), (12, 2, N)], [4, 4, 4]),  # incast
        ({}, 1, [(0, 4, N), (4, 0, N)], [2, 2]),
        ({"both_ways": 0.8}, 1, [(0, 4, N), (4, 0, N)], [2.25, 2.25]),
        ({"duplex": "half"}, 1, [(0, 4, N), (4, 0, N)], [3, 3]),
        ({}, 1, [(0, 1, N), (2, 3, N)], [2.5, 2.5]),  # the memory of a node
    ],
)
def test_ranks_of_a_node_share_its_interface_and_its_memory(
    nic: dict[str, Any], nics: int, sends: list[tuple[int, int, int]], wanted: list[float]
) -> None:
    machine = {
        "machine": {"cores_per_node": 4, "nics_per_node": nics},
        "network": {"latency": "1us", "bandwidth": "100GB/s", "contention": "flows"},
        "same_node": {"latency": "500ns"},
        "nic": {"bandwidth": "10GB/s", **nic},
        "memory": {"bandwidth": "10GB/s"},
    }
    for shards in (1, 3):
        ends = ends_ps(run(send_all, sends, ranks=16, machine=machine, shards=shards))
        assert [ends[to] for _, to, _ in sends] == [round(end * US) for end in wanted]
