"""The loop of Allreduce under its ways to recover: whenever a process dies, the sum is that of the others."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.apps.helpers import simulated

APP = "allreduce_loop.py"
STEP_US = 1000


def expected(ranks: int, *dead: int) -> str:
    total = sum(rank + 1 for rank in range(ranks) if rank not in dead)
    return f"allreduce_loop: {ranks} ranks, {len(dead)} missing, sum {total}\n"


@pytest.mark.parametrize("scheme", ["ftco", "ulfm", "legio", "restart"])
def test_without_failures_all_schemes_add_up_the_same(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    run = simulated(APP, "--scheme", scheme, "--integers", 3, ranks=6, ft=True)
    assert (run.out, run.err, run.status) == (expected(6), "", 0)
    assert list(tmp_path.iterdir()) == []


@given(
    st.integers(2, 8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4 * STEP_US)), max_size=3),
    st.sampled_from(["gige", "shmem"]),
    st.sampled_from(["nonoverlapping", "recursive_doubling", "ring"]),
)
def test_survivors_shrink_and_go_on_whenever_whoever_dies(
    ranks: int, deaths: list[tuple[int, int]], machine: str, algorithm: str
):
    times_us = {rank % ranks: time_us for rank, time_us in deaths}
    if len(times_us) == ranks:
        times_us.popitem()
    failures = [f"rank={rank}@{time_us}us" for rank, time_us in times_us.items()]
    overrides = {"mpi.collectives.allreduce": algorithm}
    run = simulated(APP, ranks=ranks, machine=machine, fail=failures, ft=True, set=overrides)
    assert run.status == 0
    # Who dies after the last sum is in it.
    last = {rank for rank, time_us in times_us.items() if time_us >= 3 * STEP_US}
    allowed = {expected(ranks, *(set(times_us) - late)) for late in _subsets(last)}
    assert run.out in allowed


def _subsets(items: set[int]) -> list[set[int]]:
    subsets: list[set[int]] = [set()]
    for item in items:
        subsets += [{*subset, item} for subset in subsets]
    return subsets


@pytest.mark.parametrize(("every", "steps_again"), [(1, 1), (2, 2), (3, 2)])
def test_a_restarted_job_goes_on_from_its_checkpoint(
    every: int, steps_again: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    told = {"ranks": 4, "restart": "on-abort", "fail": ["rank=2 before its 2nd Allreduce"]}
    run = simulated(APP, "--scheme", "restart", "--checkpoint-every", every, "--times", ft=True, **told)
    lines = run.out.splitlines()
    assert lines[0] + "\n" == expected(4)
    done = [float(line.split()[3]) > 0 for line in lines[1:]]
    assert done == [step >= 3 - steps_again for step in (1, 2, 3)]
    assert list(tmp_path.iterdir()) == []


def test_prints_the_longest_time_of_each_step():
    """Up and down are 20 us each, and the root sends three messages of 24 bytes, 0.192 us each, one after the other."""
    run = simulated(APP, "--times", ranks=4, ft=True, set={"mpi.collectives.allreduce": "linear"})
    assert run.out.splitlines()[1:] == [f"time: step {step} 40.768 us" for step in (1, 2, 3)]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--steps", 0], "--steps must be at least 1"),
        (["--work", -1, "--integers", 0], "--integers must be at least 1\nallreduce_loop: --work must be finite"),
        (["--checkpoint-every", 0], "--checkpoint-every must be at least 1"),
    ],
)
def test_bad_arguments_are_said_once(args: list[object], said: str):
    run = simulated(APP, *args, ranks=3)
    assert run.status == 2
    assert run.err.count("allreduce_loop: ") == said.count("\n") + 1
    assert said in run.err
