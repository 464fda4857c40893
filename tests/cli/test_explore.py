"""``xsim explore``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from xsim_py.cli import main
from xsim_py.explore import runs

RACE = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
if comm.rank:
    comm.send(comm.rank, dest=0)
else:
    first = comm.recv(source=MPI.ANY_SOURCE)
    second = comm.recv(source=MPI.ANY_SOURCE)
    if first == 2:
        comm.recv(source=1)
    print(first + second)
"""


@pytest.fixture
def race(tmp_path: Path, in_this_process: None) -> str:
    (tmp_path / "race.py").write_text(RACE)
    return str(tmp_path / "race.py")


def again(out: str) -> list[list[str]]:
    """Return the commands that repeat a run."""
    lines = [line.partition("reproduce: xsim ")[2] for line in out.splitlines() if "reproduce: " in line]
    return [shlex.split(line) for line in lines]


def test_the_command_that_is_told_repeats_the_run(race: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "wildcards", "-n", "3", "-j", "1", "--budget=10", race]) == 5
    out = capsys.readouterr().out
    assert out.startswith("2 matchings, exhaustive\ncommunication-deterministic: no, for this input\nas usual (a")
    assert "choice 0" in out
    (command,) = again(out)
    assert command == ["run", "-n", "3", "--schedule", "0:2", race]
    assert main(command) == 3
    assert "a message from rank 1" in capsys.readouterr().err


def test_files_are_found_although_runs_stand_elsewhere(
    race: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("topology: {type: switch}\nnetwork: {latency: 5us}\n")
    Path("dead.csv").write_text("rank,time\n2,1ms\n")
    fail = ["--fail", "trace=dead.csv"]
    assert main(["explore", "wildcards", "-n", "3", "--machine", "mine.yaml", *fail, "race.py"]) == 5
    assert "(race.py:7)" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_the_command_for_a_run_that_polls_for_ever_has_a_limit(
    tmp_path: Path, in_this_process: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runs, "LEAST_LIMIT_S", 1)
    monkeypatch.setattr(runs, "_TIMES_LONGER", 1)
    (tmp_path / "polls.py").write_text(
        "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\nif comm.rank == 2:\n    comm.send(1, dest=1)\n"
        "elif comm.rank == 1:\n    try:\n        comm.send(comm.recv(source=2), dest=0)\n"
        "    except MPI.Exception:\n        pass\nelse:\n    while not comm.iprobe(source=1):\n        pass\n"
    )
    program = str(tmp_path / "polls.py")
    few_polls = "--set mpi.poll_time=1ms"
    assert main(["explore", "failures", "-n", "3", *few_polls.split(), "--quiet", program]) == 5
    command = f"xsim run -n 3 {few_polls} --wall-limit 1s --fail 'rank=2 before its 1st send' {program}"
    assert f"  reproduce: {command}" in capsys.readouterr().out
    assert main(shlex.split(command)[1:]) == 4


def test_a_program_that_polls_is_said_to_be_open(
    tmp_path: Path, in_this_process: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "polls.py").write_text(
        "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\nif comm.rank:\n    comm.send(1, dest=0)\n"
        "else:\n    while not comm.iprobe():\n        pass\n    comm.recv()\n"
    )
    assert main(["explore", "wildcards", "-n", "2", "--quiet", str(tmp_path / "polls.py")]) == 0
    first, polls, answer, _ = capsys.readouterr().out.splitlines()
    assert first == "1 matching, exhaustive"
    assert polls.startswith("a rank polls: outcomes of Test, Iprobe ... are not explored")
    assert answer == "communication-deterministic: unknown"


def test_matchings_need_one_process(race: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "wildcards", "-n", "3", "--isolation", "process", race]) == 2
    assert "schedule: recording alternatives needs a single shard" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("after", "recovers"),
    [("", False), ("try:\n    comm.Barrier()\nexcept MPI.Exception:\n    comm.Revoke()\n", True)],
)
def test_a_program_without_recovery_is_said_to_have_none(
    tmp_path: Path, in_this_process: None, capsys: pytest.CaptureFixture[str], after: str, recovers: bool
) -> None:
    start = "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"
    (tmp_path / "sum.py").write_text(start + (after or "print(comm.allreduce(1))\n"))
    main(["explore", "failures", "-n", "2", "--quiet", str(tmp_path / "sum.py")])
    lines = capsys.readouterr().out.splitlines()
    said = "the program has no recovery: each failure ends the job unless no other rank depends on the failed rank"
    assert (said in lines) is not recovers
    assert any(line.startswith("line ") for line in lines) is recovers


def test_schedules_are_written(
    race: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    out = str(tmp_path / "out")
    assert main(["explore", "wildcards", "-n", "3", "--quiet", "--json", "-", "--out", out, race]) == 5
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["matchings"], told["complete"], told["communication_deterministic"]) == (2, True, False)
    assert {path.name for path in Path(out).iterdir()} == {"deadlock.schedule", "deadlock-least.schedule"}
    assert "receive at race.py:7" in (Path(out) / "deadlock.schedule").read_text()
    for path in Path(out).iterdir():
        assert main(["run", "-n", "3", "--quiet", "--schedule", str(path), race]) == 3


def test_failures_are_drawn_beside_the_choices(race: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "wildcards", "-n", "3", "--failures", "2", "--fail", "rank=2@1s", race]) == 5
    out = capsys.readouterr().out
    assert out.count("\nwith rank=") == 2
    assert out.count("communication-deterministic: ") == 3


def test_failures_are_told_by_line_and_by_rank(race: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, kept = str(tmp_path / "a.png"), str(tmp_path / "done")
    words = ["explore", "failures", "-n", "3", "--picture", picture, "--resume", kept, race]
    assert main(words) == 5
    out = capsys.readouterr().out
    assert "race.py:7  recv" in out
    assert "before, in and after each call: . survived, W wrong result, A aborted, S stalled" in out
    assert Path(picture).stat().st_size > 1000
    for command in again(out):
        assert main(command) in (0, 1, 3, 137)
    capsys.readouterr()
    assert main(words) == 5
    assert capsys.readouterr().out == out


def test_noise_is_told_with_the_seeds_that_change_something(race: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "noise", "-n", "3", "--runs", "8", "--latency", "2", race]) == 5
    captured = capsys.readouterr()
    assert "version 0.1.0, 8 runs, seeds from 0, network jitter: latency 2" in captured.err
    (command,) = again(captured.out)
    assert main(command) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["wildcards", "-n", "2"], "explore: no program"),
        (["wildcards", "-n", "2", "--shards", "2", "x.py"], "shards: cannot be combined with the exploration of"),
        (["failures", "-n", "2", "--accept", "(", "x.py"], "accept: invalid regular expression '(': missing ),"),
        (["noise", "-n", "2", "--latency", "0", "x.py"], "0 is out of range (above 0, at most 1,000)"),
        (["everything", "x.py"], "invalid choice"),
    ],
)
@pytest.mark.usefixtures("in_this_process")
def test_bad_input_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", *words]) == 2
    assert said in capsys.readouterr().err
