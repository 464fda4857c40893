"""The programs of apps/ when processes fail: who is left goes on, and the result is that of a run without failures."""

import re
from pathlib import Path

import pytest

from tests.apps.helpers import NUMBER, Run, md, simulated
from tests.campaign import CAMPAIGN


def failing_md(folder: Path, recovery: str, *fail_at: str) -> Run:
    """Simulate simplemd.py on six ranks with victims that kill themselves."""
    victims = [word for victim in fail_at for word in ("--fail-at", victim)]
    return md(folder, "--xyz", folder / "md.xyz", "--recovery", recovery, *victims, ranks=6, ft=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    return md(folder, "--xyz", folder / "md.xyz").final, (folder / "md.xyz").read_bytes()


# ------------------------------------------------------------------------------------------------------------- simplemd


@pytest.mark.sampled
@pytest.mark.parametrize("recovery", ["ulfm", "buddy"])
@pytest.mark.parametrize(
    ("fail_at", "left"),
    [
        (["2:2"], [5]),
        (["0:2"], [5]),
        (["5:0"], [5]),
        (["1:1", "3:3"], [5, 4]),
        (["0:1", "1:3"], [5, 4]),
        (["1:2", "3:2"], [4]),
    ],
)
def test_a_run_that_rolls_back_ends_bit_for_bit_like_one_without_failures(
    tmp_path: Path, undisturbed: tuple[str, bytes], recovery: str, fail_at: list[str], left: list[int]
):
    run = failing_md(tmp_path, recovery, *fail_at)
    starts = re.findall(r"108 atoms on (\d) ranks, step (\d), from a checkpoint", run.out)
    steps = sorted({int(victim.split(":")[1]) for victim in fail_at})
    assert [(int(ranks), int(step)) for ranks, step in starts] == list(zip(left, steps, strict=True))
    assert (run.final, (tmp_path / "md.xyz").read_bytes()) == undisturbed
    assert run.status == 0
    assert len(list(tmp_path.glob("*.ckpt"))) == (0 if recovery == "buddy" else 2)


def test_checkpoints_on_disk_survive_neighbours_and_those_in_memory_do_not(
    tmp_path: Path, undisturbed: tuple[str, bytes]
):
    assert failing_md(tmp_path, "ulfm", "5:2", "0:2").final == undisturbed[0]
    run = failing_md(tmp_path, "buddy", "5:2", "0:2")
    assert "final state" not in run.out
    assert run.out.splitlines()[-1] == "lost: the atoms of rank 5, with both copies (ranks 5 and 0)"
    assert (run.status, "Traceback" in run.err) == (1, False)


def duration_us(folder: Path, recovery: str) -> float:
    """How long a run without failures takes."""
    run = md(folder, "--recovery", recovery, ranks=6, ft=True)
    return float(re.search(rf"^time: {NUMBER} us$", run.out, re.MULTILINE)[1])


@pytest.mark.sampled
@pytest.mark.parametrize("recovery", ["ulfm", "buddy"])
def test_a_failure_at_any_time_is_survived(tmp_path: Path, undisturbed: tuple[str, bytes], recovery: str):
    """From before the first checkpoint to after the last step, when some may believe that all is done."""
    whole_us, moments = duration_us(tmp_path, recovery), 24 if CAMPAIGN else 9
    for moment in range(moments):
        failure = f"rank={moment % 6}@{whole_us * (moment + 0.5) / moments:.3f}us"
        run = md(tmp_path, "--recovery", recovery, ranks=6, fail=[failure])
        assert (run.final, run.status) == (undisturbed[0], 0), (failure, run.out, run.err)


@pytest.mark.sampled
@pytest.mark.parametrize("recovery", ["ulfm", "buddy"])
def test_a_failure_at_any_time_of_the_recovery_from_another_is_survived(
    tmp_path: Path, undisturbed: tuple[str, bytes], recovery: str
):
    first_us = duration_us(tmp_path, recovery) / 2
    for moment in range(0, 24, 1 if CAMPAIGN else 3):
        failures = [f"rank=1@{first_us:.3f}us", f"rank={(3, 4, 5)[moment // 3 % 3]}@{first_us + 37.3 * moment:.3f}us"]
        run = md(tmp_path, "--recovery", recovery, ranks=6, fail=failures)
        assert (run.final, run.status) == (undisturbed[0], 0), (failures, run.out, run.err)


@pytest.mark.parametrize("every", [1, 2])
def test_a_restarted_job_ends_like_one_that_never_failed(tmp_path: Path, undisturbed: tuple[str, bytes], every: int):
    told = ("--recovery", "restart", "--fail-at", "2:1", "--fail-at", "0:3", "--xyz", tmp_path / "md.xyz")
    run = md(tmp_path, *told, "--set", f"checkpoint_every={every}", ranks=4, restart="on-abort,max=2")
    starts = re.findall(r"108 atoms on 4 ranks, step (\d), from a checkpoint", run.out)
    assert [int(step) for step in starts] == [1 // every * every, 3 // every * every]
    assert (run.final, run.status) == (undisturbed[0], 0)
    if every == 1:
        assert (tmp_path / "md.xyz").read_bytes() == undisturbed[1]


def test_a_program_that_recovers_from_nothing_is_aborted(tmp_path: Path):
    run = md(tmp_path, "--fail-at", "2:2", ranks=4, ft=True)
    assert "final state" not in run.out
    assert run.status != 0


# ------------------------------------------------------------------------------------------------------- the benchmarks


@pytest.mark.parametrize("victim", [0, 3, 7])
def test_survivors_shrink_and_add_up_without_the_victim(victim: int):
    run = simulated("ft_shrink_barrier.py", "--victim", victim, ranks=8, ft=True)
    assert run.out.splitlines()[:2] == [
        f"ft_shrink_barrier: 8 ranks, 1 failed, sum {36 - victim - 1}",
        "right sum: True",
    ]
    names = re.findall(r"^time: (.*) [\d.]+ us$", run.out, re.MULTILINE)
    assert run.status == 0
    assert names == ["Reduce", "Barrier", "Revoke", "Shrink", "Reduce again", "Barrier again", "total"]


def test_the_simulator_may_kill_the_victims_of_the_benchmark():
    failures = ["rank=3 before its 1st Reduce", "rank=5 after its 1st Reduce"]
    run = simulated("ft_shrink_barrier.py", ranks=8, fail=failures)
    assert run.out.startswith("ft_shrink_barrier: 8 ranks, 2 failed, sum 26\nright sum: True\n")


def test_without_failures_nothing_is_revoked():
    run = simulated("ft_shrink_barrier.py", "--no-times", ranks=8)
    assert (run.out, run.status) == ("ft_shrink_barrier: 8 ranks, 0 failed, sum 36\nright sum: True\n", 0)


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--victim", 4], "--victim 4: neither none nor one of the ranks 0 to 3"),
        (["--victim", "x"], "--victim x: neither none nor one of the ranks 0 to 3"),
        (["--reduce-bytes", 12], "--reduce-bytes 12: not a positive multiple of 8"),
    ],
)
def test_the_benchmark_refuses_arguments_without_sense(args: list[object], complaint: str):
    run = simulated("ft_shrink_barrier.py", *args, ranks=4)
    assert (run.status, run.out, run.err) == (2, "", f"ft_shrink_barrier: {complaint}\n")


@pytest.mark.parametrize(("failures", "size"), [([], 8), (["rank=3@150us"], 7), (["rank=0@1us", "rank=7@250us"], 6)])
def test_agreements_are_right_and_reported_by_who_is_left(failures: list[str], size: int):
    run = simulated("ft_agree.py", "--iterations", 5, ranks=8, fail=failures)
    assert run.out.startswith(f"ft_agree: {size} ranks agreed 5 times\nright numbers: True\n")
    average, shortest, longest = (
        float(re.search(rf"^time: {name} {NUMBER} us$", run.out, re.MULTILINE)[1])
        for name in ("average", "minimum", "maximum")
    )
    assert 0 < shortest <= average <= longest


# ----------------------------------------------------------------------------------------------- checkpoint and restart


def test_a_failed_job_pays_for_the_restart_and_the_lost_segment(tmp_path: Path):
    """Seven segments of 55 s are complete at 400 s; a restart of 10 s and thirteen segments are to follow."""
    told = {"ranks": 4, "ft": False, "restart": "on-abort", "fail": ["rank=2@400s"]}
    run = simulated("checkpoint.py", "--state", tmp_path / "state", **told)
    assert "checkpoint: 20 segments, 2 starts" in run.out
    assert float(re.findall(rf"^time: {NUMBER} s$", run.out, re.MULTILINE)[0]) == pytest.approx(1125, abs=0.01)
