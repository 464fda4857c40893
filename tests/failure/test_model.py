"""What each start of a job meets."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.failure.models import errors, model, times_s
from xsim_py import legio
from xsim_py.failure import CallSite, Failure
from xsim_py.failure.statements import LEGIO_CALLS
from xsim_py.units import PS_PER_S

MS = 10**9


def test_failures_stand_in_the_order_of_time_and_rank() -> None:
    told = model("rank=5@1.2ms", "node=3@0.5ms", "rank=1@1.2ms", per_node=2)
    assert told.schedule()[:2] == (
        (
            Failure(6, MS // 2, "injected: node=3@500us"),
            Failure(7, MS // 2, "injected: node=3@500us"),
            Failure(1, 1_200_000_000, "injected: rank=1@1.2ms"),
            Failure(5, 1_200_000_000, "injected: rank=5@1.2ms"),
        ),
        (),
    )


def test_the_description_and_the_command_line_add_up() -> None:
    told = model("rank=2@2s", failures={"at": ["rank=1@1s"], "draws": [{"per": "node", "mtbf": "100h"}]})
    times = times_s(told)
    assert (times[1], times[2], len(times)) == (1, 2, 8)


def test_call_sites_have_no_time_and_strike_once() -> None:
    told = model("rank=3 before its 2nd Allreduce", "rank=1 after its first call", known_calls={"Allreduce", "call"})
    sites = (
        CallSite(3, True, 2, "Allreduce"),
        CallSite(1, False, 1, "call"),
    )
    assert told.schedule()[:2] == ((), sites)
    assert told.schedule(5, struck=[sites[0]])[:2] == ((), sites[1:])


def test_what_was_written_down_is_known_by_its_rank_and_cause() -> None:
    told = model("rank=2@2s", "rank=3 after its first call", "exponential:rank,mtbf=1h", known_calls={"call"})
    assert told.schedule().written == {
        (2, "injected: rank=2@2s"): "rank=2@2s",
        (3, "injected: rank=3 after its 1st call"): "rank=3 after its 1st call",
    }


def test_a_call_that_does_not_exist_is_refused() -> None:
    text = "rank=3 before its 2nd Alreduce"
    assert errors(text, known_calls={"Allreduce", "Send"}) == [
        f"--fail {text}: unknown mpi4py call Alreduce; did you mean Allreduce?"
    ]
    assert errors("rank=3 before its 2nd Xyz", known_calls={"Send"}) == [
        "--fail rank=3 before its 2nd Xyz: unknown mpi4py call Xyz"
    ]


def test_a_call_of_legio_can_not_be_named() -> None:
    own = [name for name, value in vars(legio).items() if callable(value) and value.__module__ == legio.__name__]
    assert {name for name in own if name[0] != "_"} == set(LEGIO_CALLS)
    (said,) = errors("rank=1 before its 1st alive", known_calls={"Send"})
    assert "--fail rank=1 before its 1st alive: expected an mpi4py call, got alive of xsim_py.legio" in said


def test_a_failure_at_the_very_start_happens_and_one_at_a_restart_is_over() -> None:
    told = model("rank=1@0", "rank=2@5ms")
    assert times_s(told) == {1: 0, 2: 0.005}
    assert times_s(told, 0.005 - 1e-12) == {2: 0.005}
    assert times_s(told, 0.005) == {}


def test_a_rank_meets_the_earliest_of_its_failures() -> None:
    told = model("rank=1@1ms", "node=0@2ms", "machine=0@3ms", per_node=4)
    assert times_s(told) == {1: 0.001, 0: 0.002, 2: 0.002, 3: 0.002} | dict.fromkeys(range(4, 8), 0.003)


def test_whether_anything_can_fail_is_known() -> None:
    assert not model().can_fail
    for said in ("rank=1@1ms", "rank=1 before its first call", "exponential:node,mtbf=1h"):
        assert model(said).can_fail


def test_all_that_is_wrong_is_said_at_once() -> None:
    found = errors("rank=1", "disk=3@1ms", "nod=3@1ms", failures={"at": ["rank=1@-1s", "weibull:node,mtbf=1h,shape=2"]})
    others = "exponential:node,mtbf=6.7h, flip:message,rank=3,at=1ms or trace=FILE.csv"
    forms = "rank=5@1.2ms, node=3@10ms or rank=3 before its 2nd Allreduce"
    assert found == [
        "machine description: failures.at[0]: -1s is out of range: a time cannot be negative",
        f"machine description: failures.at[1]: expected a failure, got 'weibull:node,mtbf=1h,shape=2'; write {forms}",
        "--fail disk=3@1ms: unknown component 'disk'; known: machine, node, rank",
        "--fail nod=3@1ms: unknown component 'nod'; did you mean node?",
        f"--fail rank=1: expected a failure, got 'rank=1'; write {forms}, {others}",
    ]


def test_what_is_not_there_cannot_fail() -> None:
    assert errors("rank=8@1ms", "rank=-1 after its 1st Send", "node=4@1ms", "machine=1@1ms", per_node=2) == [
        "--fail machine=1@1ms: machine 1 has no ranks; only machine 0 exists",
        "--fail node=4@1ms: node 4 has no ranks; expected 0 to 3",
        "--fail rank=-1 after its 1st Send: rank -1 does not exist; expected 0 to 7",
        "--fail rank=8@1ms: rank 8 does not exist; expected 0 to 7",
    ]
    assert errors("rank=1@1s", ranks=1) == ["--fail rank=1@1s: rank 1 does not exist; only rank 0 exists"]


def test_what_is_malformed_does_not_hide_what_does_not_exist() -> None:
    said = errors("rank=1@-2ms", "rank=99@1ms", "node=70@1ms", "rank=3@soon")
    assert [line.split(":")[0] for line in said] == [
        "--fail node=70@1ms",
        "--fail rank=1@-2ms",
        "--fail rank=3@soon",
        "--fail rank=99@1ms",
    ]


def test_nobody_dies_twice() -> None:
    said = ["rank=1@1ms", "rank=1@2ms", "node=1@5ms", "rank=3@6ms", "rank=5 before its 1st Send", "rank=5@1s"]
    assert errors(*said, "rank=5 after its 2nd Send", per_node=2) == [
        "--fail rank=1@2ms: rank 1 fails twice: it has failed by then, by rank=1@1ms",
        "--fail rank=3@6ms: rank 3 fails twice: it has failed by then, by node=1@5ms",
        "--fail rank=5 after its 2nd Send: rank 5 fails twice: also by rank=5 before its 1st Send",
        "--fail rank=5 before its 1st Send: rank 5 fails twice: also by rank=5@1s",
    ]
    assert errors("rank=1@1ms", "rank=1@1ms") == [
        "--fail rank=1@1ms: rank 1 fails twice: it has failed by then, by rank=1@1ms"
    ]


@given(
    st.dictionaries(st.integers(0, 7), st.integers(0, 20), max_size=8), st.integers(0, 20), st.sampled_from([1, 2, 4])
)
def test_each_start_meets_what_lies_after_it(times: dict[int, int], start: int, per_node: int) -> None:
    told = model(*(f"rank={rank}@{time}s" for rank, time in times.items()), per_node=per_node)
    after = {rank: time for rank, time in times.items() if time > start or start == 0}
    assert times_s(told, start) == after
    assert list(told.schedule(start * PS_PER_S).timed) == sorted(
        told.schedule(start * PS_PER_S).timed, key=lambda f: f[1::-1]
    )


def test_checkpointing_takes_as_long_as_theory_says() -> None:
    """Solve 1000 s in pieces of 50 s, each with a checkpoint of 5 s; a restart takes 10 s; a failure every 200 s.

    The expected time is M exp(R/M) (exp((tau+delta)/M) - 1) T/tau = 1331.04 s when a restart may fail too (Daly 2006).
    """

    def total_s(seed: int) -> float:
        told = model("exponential:machine,mtbf=200s", ranks=1, seed=seed)
        now_s = 0.0
        for _ in range(20):
            needed_s = 55
            while (failure_s := times_s(told, now_s)[0]) < now_s + needed_s:
                now_s, needed_s = failure_s, 65
            now_s += needed_s
        return now_s

    expected_s = 200 * math.exp(10 / 200) * (math.exp(55 / 200) - 1) * 20
    totals_s = np.array([total_s(seed) for seed in range(600)])
    assert round(expected_s, 2) == 1331.04
    assert abs(np.mean(totals_s) - expected_s) < 3 * np.std(totals_s, ddof=1) / math.sqrt(600)


def test_whether_a_node_fails_at_a_time_is_said_of_all_that_takes_it() -> None:
    parts = {"components": [{"name": "rack", "nodes": 2}, {"name": "socket", "cores": 1}]}
    said = ["rank=5@1ms", "node=0@2ms", "rack=1@3ms", "socket=2@4ms", "machine=0@5ms"]
    told = model(*said, per_node=2, failures=parts)
    taken = {(node, ms) for node in range(4) for ms in range(1, 7) if told.node_fails(node, ms * MS)}
    assert taken == {(0, 2), (2, 3), (3, 3), *((node, 5) for node in range(4))}
    drawn = model("exponential:node,mtbf=1h", "exponential:rank,mtbf=1h", per_node=2)
    for failure in drawn.schedule().timed:
        of_node = "node" in failure.cause
        assert drawn.node_fails(failure.rank // 2, failure.time_ps) is of_node
