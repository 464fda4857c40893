"""Random point-to-point programs: one answer on any number of shards, and no message too early, twice, or out of turn.

A program is a list of steps that all ranks walk through in the same order, each doing its part of a step. So the rank
that is furthest behind can always go on, whatever the protocol: nothing in such a program waits for a later step. The
exception would be a send that a wildcard receive passes over; those are not waited for before the end.
"""

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xsim_py import simulate

THRESHOLD = 1024
HEADER = 16
WILD_TAG = 9
SIZES = [HEADER, 100, THRESHOLD, THRESHOLD + 1, 20_000]

LAYER = {"bandwidth": "8Gbps", "eager_threshold": f"{THRESHOLD}B"}
OVERHEADS = {"send_overhead": "300ns", "recv_overhead": "700ns", "gap": "400ns"}
TORUS = {"type": "torus", "dims": [2, 3]}
MACHINES: dict[str, dict[str, Any]] = {
    "plain": {"network": {**LAYER, "latency": "1us"}},
    "overheads": {"network": {**LAYER, **OVERHEADS, "latency": "1us"}},
    "distances": {"topology": TORUS, "network": {**LAYER, **OVERHEADS, "latency": "500ns", "per_hop": "500ns"}},
    "near and far": {
        "machine": {"cores_per_node": 2, "placement": "round_robin", "nodes": 3},
        "network": {**LAYER, "latency": "5us"},
        "same_node": {**LAYER, "latency": "1us", "send_overhead": "100ns"},
    },
    "shared links": {
        "topology": TORUS,
        "network": {**LAYER, **OVERHEADS, "latency": "500ns", "per_hop": "500ns", "contention": "links"},
    },
    "fair shares": {
        "topology": TORUS,
        "network": {**LAYER, **OVERHEADS, "latency": "500ns", "per_hop": "500ns", "contention": "flows"},
    },
}
LEAST_LATENCY = 1_000_000  # of all of them


class Step(NamedTuple):
    """``rank`` sends to ``to`` (never itself), or sleeps, or waits for all that it has begun."""

    kind: str
    rank: int
    to: int = 0
    tag: int = 0
    size: int = 0
    blocking_receive: bool = True


def steps_of(kinds: list[str], sizes: list[int], ranks: int) -> Any:
    rank = st.integers(0, ranks - 1)
    message = st.builds(
        Step, st.sampled_from(kinds), rank, rank, st.integers(0, 1), st.sampled_from(sizes), st.booleans()
    ).filter(lambda step: step.rank != step.to)
    pause = st.builds(Step, st.just("sleep"), rank, tag=st.integers(0, 50))
    wait = st.builds(Step, st.just("wait"), rank)
    return st.lists(st.one_of(message, message, message, pause, wait), min_size=5, max_size=60)


def walk(steps: list[Step]) -> tuple[list[tuple[int, int, int]], int]:
    """What one rank does. For each of its receives, as posted: number, time sent, time had; and the time of its end."""
    import time

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    pending: list[Any] = []
    at_the_end: list[Any] = []
    waiting: list[list[Any]] = []
    received: list[list[Any]] = []

    def now_ps() -> int:
        return round(MPI.Wtime() * 10**12)

    def wait() -> None:
        MPI.Request.Waitall(pending)
        pending.clear()
        for entry in waiting:
            entry[1] = now_ps()
        waiting.clear()

    for number, step in enumerate(steps):
        wild = step.kind == "wild"
        if comm.rank == step.rank:
            if step.kind == "sleep":
                time.sleep(step.tag * 1e-7)
            elif step.kind == "wait":
                wait()
            else:
                data = np.full(step.size, number, "u1")
                data[:HEADER].view("i8")[:] = number, now_ps()
                request = getattr(comm, "Isend" if wild else step.kind)(data, step.to, WILD_TAG if wild else step.tag)
                if request is not None:
                    (at_the_end if wild else pending).append(request)
        elif comm.rank == step.to and step.kind not in ("sleep", "wait"):
            buffer = np.zeros(max(SIZES), "u1")
            received.append([buffer, 0])
            source, tag = (MPI.ANY_SOURCE, WILD_TAG) if wild else (step.rank, step.tag)
            if step.blocking_receive:
                comm.Recv(buffer, source, tag)
                received[-1][1] = now_ps()
            else:
                pending.append(comm.Irecv(buffer, source, tag))
                waiting.append(received[-1])
    wait()
    MPI.Request.Waitall(at_the_end)
    found = []
    for buffer, had_ps in received:
        number, sent_ps = buffer[:HEADER].view("i8").tolist()
        assert (buffer[HEADER : steps[number].size] == number).all()
        assert not buffer[steps[number].size :].any()
        found.append((number, sent_ps, had_ps))
    return found, now_ps()


def run(steps: list[Step], machine: str, ranks: int, shards: int = 1) -> Any:
    result = simulate(walk, ranks=ranks, machine=MACHINES[machine], args=[steps], shards=shards)
    assert (result.ended, result.exit_status, result.warnings) == ("finished", 0, []), result.report
    return result


RANKS = 6
ANY_STEPS = steps_of(["Send", "Isend", "Ssend", "Issend", "wild"], SIZES, RANKS)


@given(st.sampled_from(sorted(MACHINES)), ANY_STEPS)
def test_every_message_comes_once_in_turn_and_not_too_early(machine: str, steps: list[Step]) -> None:
    numbers = []
    for rank, (received, _) in enumerate(run(steps, machine, RANKS).values):
        last: dict[tuple[int, int], int] = defaultdict(lambda: -1)
        for number, sent_ps, had_ps in received:
            step = steps[number]
            assert step.to == rank
            key = (step.rank, WILD_TAG if step.kind == "wild" else step.tag)
            assert number > last[key]
            last[key] = number
            latencies = 3 if step.size > THRESHOLD else 1
            assert had_ps >= sent_ps + latencies * LEAST_LATENCY + step.size * 1000
            numbers.append(number)
    assert sorted(numbers) == [number for number, step in enumerate(steps) if step.kind not in ("sleep", "wait")]


@given(st.sampled_from(sorted(MACHINES)), ANY_STEPS)
def test_shards_change_nothing(machine: str, steps: list[Step]) -> None:
    whole = run(steps, machine, RANKS)
    for shards in (2, 3):
        parts = run(steps, machine, RANKS, shards)
        assert parts.values == whole.values
        assert (parts.digest, parts.events, parts.messages) == (whole.digest, whole.events, whole.messages)


def reference(steps: list[Step], *, send: int, recv: int, gap: int, latency: int) -> list[int]:
    """The end of each rank where all messages are eager: a recurrence over clocks, interfaces and arrivals."""
    clock, free = [0] * RANKS, [0] * RANKS
    pending: list[list[int]] = [[] for _ in range(RANKS)]

    def wait(rank: int) -> None:
        for arrival in sorted(pending[rank]):
            clock[rank] = max(clock[rank], arrival) + recv
        pending[rank].clear()

    for step in steps:
        if step.kind == "sleep":
            clock[step.rank] += step.tag * 100_000
        elif step.kind == "wait":
            wait(step.rank)
        else:
            clock[step.rank] += send
            start = max(clock[step.rank], free[step.rank])
            wire = step.size * 1000
            free[step.rank] = start + max(gap, wire)
            arrival = start + wire + latency
            if step.blocking_receive:
                clock[step.to] = max(clock[step.to], arrival) + recv
            else:
                pending[step.to].append(arrival)
    for rank in range(RANKS):
        wait(rank)
    return clock


def one_tag_for_each(steps: list[Step]) -> list[Step]:
    return [step._replace(tag=step.tag if step.kind == "sleep" else number) for number, step in enumerate(steps)]


@given(steps_of(["Send", "Isend"], SIZES[:3], RANKS).map(one_tag_for_each))
def test_eager_programs_end_when_a_recurrence_says(steps: list[Step]) -> None:
    """Each message has a tag of its own, so that a receive gets the message of its own step."""
    for machine, figures in (
        ("plain", {"send": 0, "recv": 0, "gap": 0, "latency": 10**6}),
        ("overheads", {"send": 300_000, "recv": 700_000, "gap": 400_000, "latency": 10**6}),
    ):
        assert [end for _, end in run(steps, machine, RANKS).values] == reference(steps, **figures)
