"""``xsim failures``."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path

import pytest

from xsim_py.cli import main
from xsim_py.cli.failures import add_failures_parser, show_failures
from xsim_py.config import config_hash, load_machine
from xsim_py.errors import ConfigError
from xsim_py.failure import FailureModel
from xsim_py.units import PS_PER_S

FOUR_ON_A_NODE = ("--set", "machine.cores_per_node=4")


def run(*words: str) -> int:
    parser = ArgumentParser()
    add_failures_parser(parser.add_subparsers())
    return show_failures(parser.parse_args(["failures", *words]))


def test_ranks_that_die_together_stand_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    said = ("--fail", "node=1@10ms", "--fail", "rank=5@1.2ms", "--fail", "rank=3 before its 2nd Allreduce")
    assert run("-n", "9", *FOUR_ON_A_NODE, *said) == 0
    assert capsys.readouterr().out == (
        "time       ranks   cause\n"
        "---------  ------  -----------------------------------------\n"
        "1.2 ms     5       injected: rank=5@1.2ms\n"
        "10 ms      4, 6-7  injected: node=1@10ms\n"
        "at a call  3       injected: rank=3 before its 2nd Allreduce\n"
    )


def test_other_faults_are_listed_as_well(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    hang, flip = "hang:rank=3,at=2ms,for=1ms", "flip:array,rank=1,at=1ms,bit=0"
    assert run("-n", "4", "--fail", hang, "--fail", flip, "--json", str(tmp_path / "f.json")) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[2:]] == [flip, hang]
    told = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    when = {"time_s": 0.002, "time_exact_s": "0.002", "for_s": 0.001, "for_exact_s": "0.001"}
    assert told["hangs"] == [{"rank": 3, **when}]
    assert [each["target"] for each in told["flips"]] == ["array"]
    assert run("-n", "4", "--fail", hang, "--until", "1ms") == 0
    assert capsys.readouterr().out == "no failures\n"


def test_the_first_line_says_how_to_get_these_failures_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-n", "2", "--machine", "shmem", "--seed", "7") == 0
    shown = capsys.readouterr()
    configuration = config_hash(load_machine("shmem"))
    assert shown.err.startswith(f"xsim: version 0.1.0, seed 7, config {configuration}, 2 ranks on shmem: ")
    assert shown.out == "no failures\n"


def test_what_comes_too_late_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-n", "3", "--fail", "rank=0@1s", "--fail", "rank=1@1.5s", "--fail", "rank=2@2s", "--until", "1s") == 0
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()[2:]] == ["1"]
    assert shown.err.endswith("xsim: after 1 s: failures of 2 more ranks\n")


def test_json_has_every_failure_exactly(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    law = "weibull:node,mtbf=1h,shape=0.7"
    words = ("-n", "500", "--fail", law, "--seed", "3", "--fail", "rank=3 after its 1st call")
    assert run(*words, "--json", str(tmp_path / "f.json")) == 0
    assert "... 401 more rows ..." in capsys.readouterr().out
    told = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    model = FailureModel(load_machine("gige"), extra=[law], ranks=500, node_of=range(500), seed=3)
    timed = [(failure["rank"], failure["time_s"], failure["cause"]) for failure in told["failures"]]
    assert timed == [(rank, time_ps / PS_PER_S, cause) for rank, time_ps, cause in model.schedule().timed]
    assert told["call_sites"] == [
        {"rank": 3, "when": "after", "count": 1, "call": "call", "cause": "injected: rank=3 after its 1st call"}
    ]
    assert (told["seed"], told["ranks"], told["config_hash"]) == (3, 500, config_hash(load_machine("gige")))


def test_json_may_take_the_place_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-n", "2", "--fail", "rank=1@1ms", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["failures"] == [
        {"rank": 1, "time_s": 0.001, "time_exact_s": "0.001", "cause": "injected: rank=1@1ms"}
    ]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"f\.json: no such directory; create it or choose another"):
        run("-n", "2", "--json", str(tmp_path / "no" / "f.json"))


def test_all_that_is_wrong_is_said_and_the_status_is_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "log.csv"
    trace.write_text("time,rank\n1ms,0\n1ms,one\n", encoding="utf-8")
    machine = tmp_path / "m.yaml"
    machine.write_text("network: {latency: 1us}\nfailures:\n  at: [rank=1@1ms, rank=2@-1ms]\n", encoding="utf-8")
    forms = (
        "rank=5@1.2ms, node=3@10ms or rank=3 before its 2nd Allreduce, exponential:node,mtbf=6.7h, "
        "flip:message,rank=3,at=1ms or trace=FILE.csv"
    )
    words = ("--fail", "rank=3 before its 2nd Alreduce", "--fail", f"trace={trace}", "--fail", "rank=1")
    assert main(["failures", "-n", "4", "--machine", str(machine), *words]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"xsim: {trace}:3:1: expected the number of a rank, got 'one'",
        f"xsim: {machine}:3:20: failures.at[1]: -1ms is out of range: a time cannot be negative",
        f"xsim: --fail rank=1: expected a failure, got 'rank=1'; write {forms}",
        "xsim: --fail rank=3 before its 2nd Alreduce: unknown mpi4py call Alreduce; did you mean Allreduce?",
    ]


def test_a_description_is_checked_with_its_failures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    machine = tmp_path / "m.yaml"
    machine.write_text("network: {latency: 1us}\nfailures: {at: [rank=99@1ms]}\n", encoding="utf-8")
    assert main(["models", "check", str(machine)]) == 0
    assert main(["models", "check", str(machine), "--set", "failures.draws=[{per: rack, mtbf: 1h}]"]) == 2
    assert "failures.draws[0].per: unknown component 'rack'" in capsys.readouterr().err
