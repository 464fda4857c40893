"""Random programs in which processes die: what recovery promises, and that nobody knows anything too early."""

import io
from typing import Any

from hypothesis import given, settings

from tests.mpi.failures.recovery_causality import Causality
from tests.mpi.failures.recovery_oracle import Run, check
from tests.mpi.failures.recovery_programs import Journal, play
from tests.mpi.failures.recovery_scenarios import MACHINES, Scenario, scenarios
from xsim_py import simulate

EXAMPLES = min(max(settings().max_examples, 50), 4000)  # of a campaign as many as fit in memory: the dead stay in it


def run(scenario: Scenario, *, shards: int = 1, trace: bool = False) -> tuple[Any, Journal]:
    journal = Journal.of(scenario.ranks)
    result = simulate(
        play,
        ranks=scenario.ranks,
        machine=MACHINES[scenario.machine][0],
        args=[scenario.steps, journal],
        fail=scenario.failures,
        ft=True,
        set=scenario.overrides,
        shards=shards,
        trace=trace,
        wall_limit=300,
        stdout=io.StringIO(),
        stderr=io.StringIO(),
    )
    return result, journal


def traced(scenario: Scenario) -> Run:
    result, journal = run(scenario, trace=True)
    died_ps = {mark.rank: mark.time_ps for mark in result.trace.marks if mark.kind == "failed"}
    learned_ps = {
        (int(mark.text.split()[1]), mark.rank): mark.time_ps for mark in result.trace.marks if mark.kind == "learned"
    }
    return Run(scenario, journal, result, died_ps, learned_ps)


@settings(max_examples=EXAMPLES)
@given(scenarios())
def test_recovery_keeps_its_promises(scenario: Scenario) -> None:
    done = traced(scenario)
    check(done)
    Causality(done).check()


@settings(max_examples=EXAMPLES // 2)
@given(scenarios())
def test_shards_change_nothing(scenario: Scenario) -> None:
    whole, journal = run(scenario)
    for shards in range(2, min(3, scenario.ranks) + 1):
        parts, other = run(scenario, shards=shards)
        assert other == journal
        assert parts.values == whole.values
        assert (parts.ended, parts.report) == (whole.ended, whole.report)
        assert (parts.digest, parts.events, parts.messages) == (whole.digest, whole.events, whole.messages)
        assert parts.failures == whole.failures
        assert parts.tables["learned"].columns == whole.tables["learned"].columns
