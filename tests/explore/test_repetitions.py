"""Repetitions with noise say how long a program takes, and what else they change."""

from __future__ import annotations

import io

import pytest

from tests.explore.test_matchings import expects_order, ring
from xsim_py import simulate
from xsim_py.explore import noise
from xsim_py.explore.outcomes import outcome_of
from xsim_py.explore.runs import RunSummary


def test_times_are_those_of_the_seeds() -> None:
    found = noise(ring, ranks=3, runs=5, latency=0.5, sigma=1, seed=7)
    entries = {"network.noise.latency": 0.5, "network.noise.sigma": 1}
    each = [simulate(ring, ranks=3, seed=seed, set=entries, stdout=io.StringIO()) for seed in range(7, 12)]
    assert found.times_ps == tuple(result.virtual_time_ps for result in each)
    assert found.quiet_ps < min(found.times_ps)
    assert len(set(found.times_ps)) == 5
    assert found.quantile_ps(0.5) == sorted(found.times_ps)[2]
    assert len(found.classes) == 1
    (row,) = found.table()["mean_s"]
    assert row == pytest.approx(sum(found.times_ps) / 5e12)


def test_another_outcome_is_told_with_its_seeds() -> None:
    found = noise(expects_order, ranks=4, runs=20, latency=1.0)
    assert found.classes[0].outcome.kind == "result"
    assert {each.outcome.kind for each in found.classes} == {"result", "exception", "deadlock"}
    assert sorted(seed for each in found.classes for seed in each.seeds) == list(range(20))


def test_a_machine_may_have_noise_of_its_own() -> None:
    entries = ["network.noise.latency=3.0"]
    own = noise(ring, ranks=3, runs=2, set=entries)
    assert own.noise == {}
    assert own.times_ps == noise(ring, ranks=3, runs=2, latency=3.0).times_ps


def test_when_a_rank_has_ended_makes_no_other_deadlock() -> None:
    seen = [
        RunSummary("stalled", 3, (), "\n".join([f"deadlock at {time}: no rank", f"ended already: rank 2 (at {time})"]))
        for time in ("20.04 us", "28.344 ms")
    ]
    assert len({outcome_of()(each) for each in seen}) == 1


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("deadlock at 20.04 us: no rank can make progress", "deadlock: no rank can make progress"),
        ("      rank 0 at 1.5 ms: Comm.recv on it", "      rank 0: Comm.recv on it"),
        ("      ranks 0-3 at 0 s to 1.5 s: Comm.recv on it", "      ranks 0-3: Comm.recv on it"),
        ("rank 1 has failed, and others wait, at 100 s", "rank 1 has failed, and others wait"),
        ("waited for, but failed: rank 2 (at 20 us)", "waited for, but failed: rank 2"),
        ("waited for, but failed: ranks 2-3 (rank 2 at 20 us)", "waited for, but failed: ranks 2-3"),
        ("rank 2 ended the job at 3 ns: MPI.Abort(3)", "rank 2 ended the job: MPI.Abort(3)"),
        ("ValueError: look at 5 seats, at 3 a.m.", "ValueError: look at 5 seats, at 3 a.m."),
    ],
)
def test_an_outcome_without_its_times_reads_well(said: str, left: str) -> None:
    assert outcome_of()(RunSummary("stalled", 3, (), said)).detail == left
