"""Random programs in which processes die, the machines they run on, and when who dies: drawn by Hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

THRESHOLD_BYTES = 1024
_LAYER = {"bandwidth": "8Gbps", "eager_threshold": f"{THRESHOLD_BYTES}B"}
_OVERHEADS = {"send_overhead": "300ns", "recv_overhead": "700ns", "gap": "400ns"}
_TORUS = {"type": "torus", "dims": [2, 5]}

MACHINES: dict[str, tuple[Any, int]] = {
    "gige": ("gige", 20_000_000),
    "shmem": ("shmem", 6_000_000),
    "torus3d": ("torus3d", 7_000_000),
    "overheads": ({"network": {**_LAYER, **_OVERHEADS, "latency": "2us"}}, 2_000_000),
    "distances": (
        {"topology": _TORUS, "network": {**_LAYER, **_OVERHEADS, "latency": "500ns", "per_hop": "500ns"}},
        2_000_000,
    ),
    "near and far": (
        {
            "machine": {"cores_per_node": 2, "placement": "round_robin", "nodes": 5},
            "network": {**_LAYER, "latency": "5us"},
            "same_node": {**_LAYER, "latency": "1us", "send_overhead": "100ns"},
        },
        5_000_000,
    ),
    "shared links": (
        {
            "topology": _TORUS,
            "network": {**_LAYER, **_OVERHEADS, "latency": "500ns", "per_hop": "500ns", "contention": "links"},
        },
        2_000_000,
    ),
    "fair shares": (
        {
            "topology": _TORUS,
            "network": {**_LAYER, **_OVERHEADS, "latency": "500ns", "per_hop": "500ns", "contention": "flows"},
        },
        2_000_000,
    ),
}
"""Descriptions, and about what a message takes there, in picoseconds."""


class Step(NamedTuple):
    """What the members of a communicator do; `who` and `to` are taken modulo its size."""

    kind: str
    slot: int = 0
    who: int = 0
    to: int = 0
    mask: int = 0
    number: int = 0
    what: str = ""
    how: str = ""
    long: bool = False


class Scenario(NamedTuple):
    """A program, who dies in it, and where it runs."""

    ranks: int
    machine: str
    overrides: dict[str, str]
    failures: tuple[str, ...]
    steps: tuple[Step, ...]


SENDS = ("Send", "Isend", "Ssend", "Issend")
RECEIVES = ("Recv", "Irecv", "Probe", "Mprobe", "any", "iany", "stubborn")
COLLECTIVES = ("Barrier", "Bcast", "Reduce", "Allreduce", "Gather", "Allgather", "Scatter", "Alltoall", "Scan")
MAKERS = ("dup", "idup", "split", "group", "shrink", "ishrink", "safe_dup", "repair")
_KINDS = (
    *("message",) * 6,
    *("collective",) * 5,
    *("agree",) * 3,
    *("iagree",) * 2,
    *("ack",) * 2,
    *("sleep",) * 2,
    *("wait",) * 2,
    "revoke",
    "die",
    *("dup", "idup", "split", "group"),
    *("shrink", "shrink", "ishrink"),
    *("safe_dup", "repair", "repair", "repair"),
)
_CALLS = ("Barrier", "Allreduce", "Bcast", "Agree", "Iagree", "Shrink", "Ishrink", "Dup", "Split", "Revoke", "Wait")


@st.composite
def scenarios(draw: Callable[..., Any], *, most_steps: int = 24) -> Scenario:
    ranks = draw(st.integers(2, 9))
    machine = draw(st.sampled_from(sorted(MACHINES)))
    slots = 1
    steps = []
    number = st.integers(0, 8)
    for _ in range(draw(st.integers(3, most_steps))):
        kind = draw(st.sampled_from(_KINDS))
        what, how, long = "", "", False
        if kind == "message":
            what, how, long = draw(st.sampled_from(SENDS)), draw(st.sampled_from(RECEIVES)), draw(st.booleans())
        elif kind == "collective":
            what, long = draw(st.sampled_from(COLLECTIVES)), draw(st.booleans())
            how = draw(st.sampled_from(("", "I")))
        elif kind in ("agree", "iagree"):
            how = draw(st.sampled_from(("", "all acknowledge", "some acknowledge")))
        elif kind == "die":
            how = draw(st.sampled_from(("_exit", "kill", "raise")))
        slot = slots - 1 if draw(st.booleans()) else draw(st.integers(0, slots - 1))
        mask = draw(st.integers(0, 511))
        steps.append(Step(kind, slot, draw(number), draw(number), mask, draw(number), what, how, long))
        slots += kind in MAKERS
    return Scenario(
        ranks, machine, draw(_settings(MACHINES[machine][1])), draw(_failures(ranks, machine)), tuple(steps)
    )


@st.composite
def _settings(draw: Callable[..., Any], latency_ps: int) -> dict[str, str]:
    overrides = {
        "mpi.ulfm.agree": draw(st.sampled_from(("two_phase", "early_returning", "liveness"))),
        "mpi.ulfm.shrink": draw(st.sampled_from(("two_phase", "agreement", "liveness"))),
        "mpi.ulfm.revoke": draw(st.sampled_from(("reliable_broadcast", "direct", "local"))),
    }
    detector = draw(st.sampled_from(("timeout", "short timeout", "heartbeat", "short heartbeat")))
    overrides["mpi.detector.type"] = detector.rpartition(" ")[2]
    if detector == "short timeout":
        overrides["mpi.detector.timeout"] = f"{draw(st.integers(4, 12)) * latency_ps}ps"
    elif detector == "short heartbeat":
        overrides["mpi.detector.period"] = f"{draw(st.integers(1, 5)) * latency_ps}ps"
        overrides["mpi.detector.timeout"] = f"{draw(st.integers(10, 20)) * latency_ps}ps"
    return overrides


@st.composite
def _failures(draw: Callable[..., Any], ranks: int, machine: str) -> tuple[str, ...]:
    """Who dies when: at times that may be the same for several, or at calls."""
    latency_ps = MACHINES[machine][1]
    victims = draw(st.lists(st.integers(0, ranks - 1), max_size=min(ranks, 4), unique=True))
    # Whole latencies meet what happens on machines without overheads; others do not.
    times = st.integers(0, 60).map(lambda latencies: latencies * latency_ps) | st.integers(0, 100 * latency_ps)
    told: list[str] = []
    time_ps = draw(times)
    for victim in victims:
        if draw(st.integers(0, 3)):
            time_ps = draw(times | st.just(time_ps))
            told.append(f"rank={victim}@{time_ps}ps")
        else:
            when, name = draw(st.sampled_from(("before", "after"))), draw(st.sampled_from(_CALLS))
            told.append(f"rank={victim} {when} its {draw(st.sampled_from(('1st', '2nd', '3rd')))} {name}")
    return tuple(told)
