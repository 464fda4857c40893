"""Phases measured in traces: made by hand, at random, and of real runs."""

import io
import tempfile
from contextlib import chdir
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import ROOT
from xsim_py import simulate
from xsim_py.errors import ConfigError
from xsim_py.report import Result
from xsim_py.report.phases import PHASES, RECOVERY, Phases, find_call, first_start_ps, measure_phases
from xsim_py.trace import Mark, Message, Span, Trace

TREE = {
    "mpi.collectives.allreduce": "nonoverlapping",
    "mpi.collectives.reduce": "binary",
    "mpi.collectives.bcast": "binary_tree",
    "mpi.detector.timeout": "2s",
}
FTCO = {
    "mpi.collectives": "ftco",
    "mpi.ftco.tree": "kary",
    "mpi.ftco.radix": 2,
    "mpi.ftco.roots": "single",
    "mpi.ftco.timeout": "2s",
    "mpi.detector.timeout": "2s",
}
TIMEOUT_PS = 2 * 10**12


def message(source: int, dest: int, sent_ps: int) -> Message:
    return Message(source, dest, 1, 8, 2, True, "Allreduce", "eager", sent_ps, None, None)


def learned(rank: int, time_ps: int, dead: int, how: str = "timeout") -> Mark:
    return Mark(rank, time_ps, "learned", f"rank {dead} has failed ({how})", dead, how)


def parts(phases: Phases) -> list[tuple[str, int]]:
    return [(phase.name, phase.time_ps) for phase in phases.phases]


def measured(spans: list[Span], marks: list[Mark], messages: list[Message] = [], **told: Any) -> Phases:  # noqa: B006
    return measure_phases(Trace(spans, messages, marks), call="Allreduce", ordinal=told.pop("ordinal", 1), **told)


def test_without_a_failure_it_is_the_longest_of_the_calls_asked_for():
    spans = [
        Span(rank, "Allreduce", 100 * call, 100 * call + 10 * rank + call, "") for call in (1, 2) for rank in (0, 1)
    ]
    phases = measured(spans, [], ordinal=2)
    assert (phases.rank, phases.start_ps, parts(phases)) == (1, 200, [("collective", 12)])
    assert phases.recovery_ps == 0


def test_of_ranks_that_take_as_long_it_is_the_lowest():
    spans = [Span(rank, "Allreduce", 0, 10, "") for rank in (2, 1, 3)]
    assert measured(spans, []).rank == 1


def test_a_call_that_nobody_makes_is_bad_input():
    with pytest.raises(ConfigError, match="no surviving rank makes 2 calls of Allreduce"):
        measured([Span(0, "Allreduce", 0, 1, "")], [], ordinal=2)


def test_ulfm_is_detection_propagation_revocation_repair_and_retry():
    """Rank 1 finds out and revokes; rank 0, whose timeline it is, hears of that, and is ready last."""
    spans = [
        Span(0, "Allreduce", 100, 360, "ERR_REVOKED"),
        Span(1, "Allreduce", 100, 300, "ERR_PROC_FAILED"),
        Span(2, "Allreduce", 100, 130, "did not return"),
        Span(1, "Revoke", 340, 341, ""),
        Span(1, "Shrink", 341, 500, ""),
        Span(0, "Revoke", 360, 365, ""),
        Span(0, "Shrink", 365, 500, ""),
        Span(0, "Allreduce", 510, 600, ""),
        Span(1, "Allreduce", 500, 590, ""),
        Span(0, "Barrier", 600, 700, ""),
    ]
    marks = [Mark(2, 130, "failed", ""), learned(1, 300, 2), Mark(1, 340, "revoked", ""), Mark(0, 360, "revoked", "")]
    assert parts(measured(spans, marks)) == [
        ("collective", 30),
        ("detection", 170),
        ("propagation", 40),
        ("revoke", 25),
        ("repair", 135),
        ("own work", 10),
        ("retry", 90),
    ]


def test_ftco_resumes_between_two_detections_one_after_the_other():
    """A wait begins with the last message to the dead. Rank 3 finds out by itself about 2, and is told about 1."""
    spans = [Span(rank, "Allreduce", 100, 900 + rank, "") for rank in (0, 3)]
    marks = [Mark(1, 50, "failed", ""), Mark(2, 60, "failed", "")]
    marks += [learned(0, 320, 1, "ftco"), learned(3, 330, 1, "ftco")]
    marks += [learned(0, 550, 2, "ftco"), learned(3, 600, 2, "ftco")]
    messages = [message(0, 1, 90), message(0, 1, 120), message(0, 2, 350), message(3, 2, 400), message(0, 1, 325)]
    phases = measured(spans, marks, messages)
    assert parts(phases) == [
        ("collective", 20),
        ("detection", 200),
        ("resume", 30),
        ("detection", 250),
        ("resume", 303),
    ]
    assert phases.times_ps() == {"collective": 20, "detection": 450, "resume": 333}
    assert phases.recovery_ps == 333


def test_waits_at_the_same_time_are_one_detection():
    spans = [Span(rank, "Allreduce", 100, 900, "") for rank in (0, 3)]
    marks = [Mark(1, 50, "failed", ""), Mark(2, 60, "failed", ""), learned(0, 320, 1), learned(3, 370, 2)]
    messages = [message(0, 1, 120), message(3, 2, 170)]
    assert parts(measured(spans, marks, messages)) == [("collective", 20), ("detection", 250), ("resume", 530)]


@pytest.mark.parametrize(
    ("usual", "recomputation_ps"),
    [
        (
            5,
            160,
        ),  # of five calls two were done, and four are made: one is repeated, and the next is the one that failed
        (4, 260),
        (None, 360),
        (99, 360),  # a number that does not fit says nothing
    ],
)
def test_a_restarted_job_recomputes_until_it_is_where_it_was(usual: int | None, recomputation_ps: int):
    spans = [Span(0, "Allreduce", at, at + 10, "") for at in (100, 200)]
    spans.append(Span(0, "Allreduce", 300, 450, "did not return"))
    spans += [Span(0, "Allreduce", at, at + 10, "") for at in (700, 800, 900, 1000)]
    marks = [Mark(1, 320, "failed", ""), learned(0, 440, 1), Mark(0, 450, "aborted", ""), Mark(0, 650, "restart", "")]
    assert parts(measured(spans, marks, usual=usual)) == [
        ("collective", 20),
        ("detection", 130),
        ("restart delay", 200),
        ("recomputation", recomputation_ps),
    ]


def test_a_job_that_ends_with_its_process_is_detected_by_its_launcher():
    spans = [Span(0, "Allreduce", 100, 330, "did not return"), Span(0, "Allreduce", 500, 600, "")]
    marks = [Mark(1, 320, "failed", ""), Mark(1, 330, "aborted", ""), Mark(0, 400, "restart", "")]
    assert parts(measured(spans, marks)) == [
        ("collective", 220),
        ("detection", 10),
        ("restart delay", 70),
        ("recomputation", 200),
    ]


def test_the_call_is_the_middle_one_of_the_collective_that_is_called_most():
    names = ["Dup", "Allreduce", "Send", "Send", "Send", "bcast", "Allreduce", "Allreduce", "Ibarrier"]
    trace = Trace([Span(3, name, at, at + 1, "") for at, name in enumerate(names)], [], [])
    assert find_call(trace) == (("Allreduce", 2), 3)
    assert find_call(trace, ("bcast", 1)) == (("bcast", 1), 1)
    assert first_start_ps(trace, "Allreduce", 2) == 6
    with pytest.raises(ConfigError, match="rank 3 makes no Barrier number 1; its collective calls: 3 x Allreduce, 1 x"):
        find_call(trace, ("Barrier", 1))
    with pytest.raises(ConfigError, match="no collective call"):
        find_call(Trace([Span(0, "Send", 0, 1, "")], [], []))


TIME = st.integers(0, 60)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Anything that a trace may hold, likely or not."""
    spans = []
    for rank in range(3):
        times = sorted(draw(st.lists(TIME, min_size=2, max_size=10)))
        for start_ps, end_ps in list(pairwise(times))[::2]:
            name = draw(st.sampled_from(["Allreduce", "Allreduce", "Revoke", "Shrink", "Barrier"]))
            detail = draw(st.sampled_from(["", "", "ERR_PROC_FAILED", "ERR_REVOKED", "did not return"]))
            spans.append(Span(rank, name, start_ps, draw(st.sampled_from([end_ps] * 9 + [None])), detail))
    marks = [Mark(3, draw(TIME), "failed", ""), Mark(4, draw(TIME), "failed", "")]
    kinds = draw(st.lists(st.sampled_from(["revoked", "aborted", "restart"]), max_size=4))
    marks += [Mark(draw(st.integers(0, 3)), draw(TIME), kind, "") for kind in kinds]
    hows = st.sampled_from(["timeout", "ftco"])
    dead = draw(st.lists(st.integers(3, 4), max_size=5))
    marks += [learned(draw(st.integers(0, 2)), draw(TIME), number, draw(hows)) for number in dead]
    messages = [message(draw(st.integers(0, 2)), draw(st.integers(0, 4)), draw(TIME)) for _ in range(3)]
    return Trace(sorted(spans, key=lambda span: span.start_ps), messages, sorted(marks, key=lambda m: m.time_ps))


@given(traces(), st.none() | st.integers(0, 5))
def test_phases_follow_each_other_without_a_gap_and_add_up(trace: Trace, usual: int | None):
    try:
        phases = measure_phases(trace, call="Allreduce", ordinal=1, usual=usual)
    except ConfigError:
        return
    assert all(before.end_ps == after.start_ps for before, after in pairwise(phases.phases))
    assert all(before.name != after.name for before, after in pairwise(phases.phases))
    assert all(phase.name in PHASES for phase in phases.phases)
    assert all(phase.time_ps >= 0 for phase in phases.phases), (phases, *trace.spans, *trace.marks)
    assert sum(phases.times_ps().values()) == phases.total_ps == phases.end_ps - phases.start_ps
    assert phases.recovery_ps == sum(phases.times_ps().get(name, 0) for name in RECOVERY)


# ---------------------------------------------------------------------------------------------------- of real runs


def loop(scheme: str, *failures: str, **told: Any) -> Result:
    """Run the loop on 16 ranks, traced."""
    told.setdefault("set", TREE)
    out = io.StringIO()
    app = ROOT / "apps" / "allreduce_loop.py"
    args = ["--scheme", scheme]
    return simulate(app, ranks=16, args=args, fail=failures, ft=True, trace=True, stdout=out, stderr=out, **told)


def of_loop(result: Result) -> Phases:
    assert result.trace is not None
    return measure_phases(result.trace, call="Allreduce", ordinal=2, usual=3)


def test_what_ulfm_does_in_a_run_is_what_its_slowest_rank_does():
    result = loop("ulfm", "rank=1 before its 2nd Allreduce")
    phases = of_loop(result)
    times_ps = phases.times_ps()
    assert result.trace is not None
    calls = [span for span in result.trace.spans if span.rank == phases.rank]
    _, failed, revoke, shrink, again, *_ = calls
    assert [call.name for call in (failed, revoke, shrink, again)] == ["Allreduce", "Revoke", "Shrink", "Allreduce"]
    assert times_ps["detection"] == TIMEOUT_PS
    assert times_ps["repair"] == shrink.end_ps - shrink.start_ps  # type: ignore[operator]
    assert times_ps["retry"] == again.end_ps - again.start_ps  # type: ignore[operator]
    assert (phases.start_ps, phases.end_ps) == (failed.start_ps, again.end_ps)
    assert sum(times_ps.values()) == phases.total_ps


def test_what_a_restart_costs_stands_in_the_table_of_starts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = loop("restart", "rank=1 before its 2nd Allreduce", restart="on-abort,delay=10s")
    phases = of_loop(result)
    assert result.trace is not None
    (aborted_ps,) = [mark.time_ps for mark in result.trace.marks if mark.kind == "aborted"]
    start_s = result.tables["starts"]["start_s"]
    assert phases.times_ps()["detection"] == TIMEOUT_PS
    assert phases.times_ps()["restart delay"] == round(start_s[1] * 1e12) - aborted_ps > 10 * 10**12
    assert phases.times_ps()["recomputation"] > 2 * 10**9  # two steps of a millisecond each are done again
    assert sum(phases.times_ps().values()) == phases.total_ps


@pytest.mark.parametrize(("scheme", "overrides"), [("ulfm", TREE), ("ftco", FTCO)])
def test_phases_are_the_same_however_the_run_is_sharded(scheme: str, overrides: dict[str, object]):
    failures = ["rank=1 before its 2nd Allreduce", "rank=3 before its 2nd Allreduce"]
    runs = [loop(scheme, *failures, shards=shards, set=overrides) for shards in (1, 2, 3)]
    assert len({of_loop(run) for run in runs}) == 1
    assert len({run.digest for run in runs}) == 1


@given(
    st.sampled_from([("ulfm", TREE), ("ftco", FTCO), ("restart", TREE)]),
    st.dictionaries(st.integers(0, 15), st.integers(0, 3300), max_size=3),
)
@settings(max_examples=max(4, 25 * settings().max_examples // 100))
def test_whoever_dies_whenever_the_time_of_a_rank_is_accounted_for(way: tuple[str, dict[str, Any]], deaths_us: Any):
    scheme, overrides = way
    failures = [f"rank={rank}@{time_us}us" for rank, time_us in deaths_us.items()]
    restart = "on-abort,delay=10ms" if scheme == "restart" else None
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        result = loop(scheme, *failures, set=overrides, restart=restart)
    assert (result.ended, result.exit_status) == ("finished", 0)
    phases = of_loop(result)
    assert sum(phases.times_ps().values()) == phases.total_ps > 0
    ends_s = result.tables["ranks"]["end_s"]
    assert phases.end_ps <= round(ends_s[phases.rank] * 10**12)
    if scheme == "ftco":
        assert set(phases.times_ps()) <= {"collective", "detection", "resume", "own work"}
    if not result.failures:
        assert set(phases.times_ps()) == {"collective"}


def test_a_failure_in_the_middle_of_a_call_comes_after_a_part_of_it():
    phases = of_loop(loop("ulfm", "rank=1@2.03ms"))
    assert phases.times_ps()["collective"] == 30_000_000
    assert phases.times_ps()["detection"] <= TIMEOUT_PS
