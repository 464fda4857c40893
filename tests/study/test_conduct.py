"""Whole studies: run, interrupted, resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from xsim_py.errors import ConfigError
from xsim_py.study import StudyResults, run_study

ROOT = Path(__file__).parents[2]
STUDY: dict[str, Any] = {
    "name": "small",
    "program": "apps/ring.py",
    "args": ["--rounds", "{rounds}"],
    "sweep": {"ranks": [2, 3], "rounds": [1, 2]},
    "capture": {"time_us": "time: ([0-9.]+) us"},
}
PLOTS = [{"file": "a.png", "x": "rounds", "y": "time_us"}]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(**changes: Any) -> tuple[StudyResults, list[tuple[int, ...]]]:
    """Run the small study in this process's own threads: processes have their own tests."""
    told: list[tuple[int, ...]] = []
    options = {name: changes.pop(name) for name in ("only", "out", "fresh", "overrides") if name in changes}
    with ThreadPoolExecutor(1) as executor:
        results = run_study(
            {**STUDY, **changes}, executor=executor, progress=lambda *so: told.append(so[:3]), **options
        )
    return results, told


def test_a_study_runs_and_writes_and_draws():
    results, told = run(plots=PLOTS)
    assert told == [(done, 4, 0) for done in range(5)]
    assert results.runs["time_us"] == [28.192, 56.384, 28.192, 56.384]
    assert sorted(path.name for path in Path("small-results").iterdir()) == [
        *("a.png", "results.json", "runs.csv", "runs.jsonl", "summary.csv")
    ]


def test_the_largest_runs_begin_first_and_tables_keep_the_order_of_the_file():
    left: list[float | None] = []
    study = {**STUDY, "sweep": {"ranks": [2, 6, 4], "rounds": [1]}}
    with ThreadPoolExecutor(1) as executor:
        results = run_study(study, executor=executor, progress=lambda *so: left.append(so[3]))
    begun = [json.loads(line)["columns"]["ranks"] for line in Path("small-results/runs.jsonl").read_text().splitlines()]
    assert begun == [6, 4, 2]
    assert left[0] is None
    assert left[-1] == pytest.approx(0, abs=1e-6)
    assert results.runs["ranks"] == [2, 6, 4]


def test_results_replace_links_in_their_folder_and_do_not_follow_them():
    Path("precious").write_text("of the user")
    Path("small-results").mkdir()
    names = ("a.png", "results.json", "runs.csv", "summary.csv")
    for name in names:
        Path("small-results", name).symlink_to("../precious")
    run(sweep={"ranks": [2], "rounds": [1]}, plots=PLOTS)
    assert Path("precious").read_text() == "of the user"
    assert not any(Path("small-results", name).is_symlink() for name in names)


def test_results_do_not_take_the_place_of_what_the_study_reads():
    Path("summary.csv").write_text("ranks,rounds,time_us\n2,1,28\n")
    Path("a.png").write_text("network: {latency: 1us, bandwidth: 1GB/s}\n")
    Path("results.json").write_text("print()")
    Path("runs.csv").write_text("time,rank\n1ms,0\n")
    refused: list[tuple[str, dict[str, Any]]] = [
        ("summary.csv: this is what was published", {"published": {"file": "summary.csv"}}),
        ("a.png: this is the machine", {"machine": "./a.png"}),
        ("results.json: this is the program", {"program": "results.json"}),
        ("runs.csv: this is what fails", {"fail": ["trace=runs.csv"]}),
    ]
    before = {path: path.read_bytes() for path in Path().iterdir()}
    for said, changes in refused:
        with pytest.raises(ConfigError, match=f"{said}, which would be overwritten"):
            run(out=".", plots=PLOTS, **changes)
    Path("study.yaml").write_text(json.dumps(STUDY))
    Path("summary.csv").unlink()
    Path("summary.csv").hardlink_to("study.yaml")
    with pytest.raises(ConfigError, match=r"summary\.csv: this is the study"):
        run_study("study.yaml", out=".")
    del before[Path("summary.csv")]
    assert {path: path.read_bytes() for path in before} == before


def test_a_second_time_nothing_is_run_and_the_results_are_the_same():
    first, _ = run()
    again, told = run()
    assert told == [(4, 4, 0)]
    assert again.runs == first.runs


def test_only_what_is_missing_is_run():
    run(only=["rounds=1"])
    _, told = run(sweep={"ranks": [2, 3, 4], "rounds": [1, 2]})
    assert told[0] == (2, 6, 0)
    lines = Path("small-results/runs.jsonl").read_text().splitlines()
    assert len({json.loads(line)["key"] for line in lines}) == len(lines) == 6


def test_fresh_runs_everything_again():
    run()
    _, told = run(fresh=True)
    assert told[0] == (0, 4, 0)
    assert len(Path("small-results/runs.jsonl").read_text().splitlines()) == 4


def test_runs_that_are_the_same_are_run_once():
    results, told = run(sweep={"ranks": [2], "machine": {"a": "gige", "b": "gige"}}, args=[])
    assert told == [(0, 2, 0), (2, 2, 0)]
    assert results.runs["machine"] == ["a", "b"]


def test_the_machine_can_be_changed_for_all_runs():
    results, _ = run(overrides={"network.per_hop": "20us"}, only=["ranks=2", "rounds=1"])
    assert results.runs["time_us"] == [48.192]
    assert run()[1][0] == (0, 4, 0)


def test_a_run_that_fails_does_not_end_the_study():
    results, told = run(args=["--rounds", "{rounds - 2}"], sweep={"ranks": [2], "rounds": [1, 2, 3]})
    assert told[-1] == (3, 3, 1)
    assert results.runs["exit_status"] == [1, 0, 0]
    assert results.summary["failed"] == [1, 0, 0]
    assert any("must not be negative" in line for _, details in results.problems() for line in details)


@pytest.mark.parametrize(("ended", "again"), [("crashed", True), ("error", True), ("stalled", False)])
def test_what_only_this_computer_could_not_do_is_tried_again(ended: str, again: bool):
    run(only=["ranks=2", "rounds=1"])
    file = Path("small-results/runs.jsonl")
    record = json.loads(file.read_text())
    record["outcome"] |= {"ended": ended, "exit_status": 1}
    file.write_text(json.dumps(record) + "\n")
    _, told = run(only=["ranks=2", "rounds=1"])
    assert told == ([(0, 1, 0), (1, 1, 0)] if again else [(1, 1, 1)])


@pytest.mark.parametrize(("limit", "again"), [("60s", False), ("2min", True), (None, True)])
def test_a_run_that_met_the_wall_limit_is_tried_again_with_a_longer_one(limit: str | None, again: bool):
    run(only=["ranks=2", "rounds=1"])
    file = Path("small-results/runs.jsonl")
    record = json.loads(file.read_text())
    record["outcome"] |= {"ended": "wall limit", "exit_status": 4, "wall_limit_s": 60.0}
    file.write_text(json.dumps(record) + "\n")
    _, told = run(only=["ranks=2", "rounds=1"], **({} if limit is None else {"wall_limit": limit}))
    assert told[0] == ((0, 1, 0) if again else (1, 1, 1))


def test_bad_input_runs_nothing():
    with pytest.raises(ConfigError, match="--only: 'rank=2': unknown name rank; did you mean ranks"):
        run(only=["rank=2"])
    with pytest.raises(ConfigError, match="--only: expected a condition, got 'few'"):
        run(only=["few"])
    with pytest.raises(ConfigError, match="jobs: 0 is out of range"):
        run_study(STUDY, jobs=0)
    assert not Path("small-results").exists()


def test_repetitions_of_a_program_that_draws_have_a_mean_and_an_error():
    code = "import random; from mpi4py import MPI; MPI.COMM_WORLD.rank or print('drew', random.random())"
    results, _ = run(
        program=code,
        kind="code",
        args=[],
        repetitions=8,
        sweep={"ranks": [1]},
        capture={"drawn": "drew (.*)"},
    )
    assert len(set(results.runs["drawn"])) == 8
    assert 0 < results.summary["drawn_stderr"][0] < 0.3


def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import sys, time\nfrom pathlib import Path\nfirst = Path(sys.argv[2])\n"
        "while sys.argv[1] == 'second' and not first.exists(): time.sleep(1e-9)\n"
    )
    study = f"{{name: s, program: slow.py, ranks: 1, args: ['{{n}}', {tmp_path}/go], sweep: {{n: [first, second]}}}}"
    (tmp_path / "s.yaml").write_text(study)
    command = [sys.executable, "-m", "xsim_py", "study", "s.yaml", "-j", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    results = tmp_path / "s-results" / "runs.jsonl"
    while not results.exists() or not results.read_text():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "xsim: interrupted: 1 of 2 runs are saved\nxsim: the same command resumes the study" in said
    assert len((tmp_path / "s-results" / "runs.csv").read_text().splitlines()) == 2
    (tmp_path / "go").write_text("")
    again = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "2 runs, 1 already finished" in again.stderr
    assert len(results.read_text().splitlines()) == 2
