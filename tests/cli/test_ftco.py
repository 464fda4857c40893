"""``xsim ftco``."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from xsim_py.cli import main

pytestmark = pytest.mark.usefixtures("in_this_process")

QUICK = ("--nodes", "32", "--tree", "knomial:4", "--runs", "10", "--seed", "1")
ASKED = ["nodes", "tree", "radix", "roots", "L", "o", "inactive", "failures", "imbalance", "runs"]
MEASURED = ["latency_steps", "work", "output_spread", "max_queue", "penalty_steps_per_fault"]


def test_the_table_has_what_varies_and_standard_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ftco", *QUICK, "--inactive", "0,2"]) == 0
    shown = capsys.readouterr()
    heads, _, first, second = shown.out.splitlines()
    assert heads.split()[:5] == ["nodes", "tree", "inactive", "latency", "time_us"]
    assert "failures" not in heads
    assert (first.split()[:4], second.split()[:4]) == (
        ["32", "knomial:4", "multi", "0"],
        ["32", "knomial:4", "multi", "2"],
    )
    assert shown.err.startswith("xsim: version 0.1.0, seed 1, 2 configurations, 10 runs of each\n")


def test_json_has_an_object_for_each_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["ftco", *QUICK, "--failures", "1,2", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["failures"] for each in told] == [1, 2]
    for each in told:
        assert {*ASKED, *MEASURED} <= set(each)
        assert {name: each[name] for name in ASKED} == {
            "nodes": 32, "tree": "knomial", "radix": 4, "roots": "multi", "L": 10, "o": 1, "inactive": 0,
            "failures": each["failures"], "imbalance": "none", "runs": 10,
        }  # fmt: skip
        for name in MEASURED:
            assert list(each[name]) == ["mean", "stderr", "min", "max"]
            assert each[name]["min"] <= each[name]["mean"] <= each[name]["max"]
    assert main(["ftco", *QUICK, "--failures", "1,2", "--quiet", "-j", "1", "--json", str(tmp_path / "all.json")]) == 0
    assert json.loads((tmp_path / "all.json").read_text(encoding="utf-8")) == told
    assert capsys.readouterr().err == ""


def test_seconds_are_steps_of_the_overhead(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ftco", *QUICK, "--overhead-time", "2us", "--json", "-"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["latency_s"]["mean"] == pytest.approx(told["latency_steps"]["mean"] * 2e-6)


def test_csv_has_a_row_for_each_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["ftco", *QUICK, "--inactive", "1,3", "--csv", str(tmp_path / "all.csv"), "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    with open(tmp_path / "all.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["inactive"] for row in rows] == ["1", "3"]
    for row, each in zip(rows, told, strict=True):
        assert float(row["latency_steps"]) == each["latency_steps"]["mean"]
        assert float(row["work_stderr"]) == each["work"]["stderr"]
        assert row["rules"] == "reference"


def test_a_trace_tells_of_every_message(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--nodes", "3", "--tree", "kary:2", "--roots", "single", "--operation", "reduce")
    assert main(["ftco", *words, "--trace"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split("  ")[-1] == "1 sends DATA to 0; 2 sends DATA to 0"
    assert any(line.endswith("0 takes DATA from 1") for line in lines)
    assert any("0 sends ACK to 2" in line for line in lines)


def test_what_has_no_tree_names_none(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--nodes", "8", "--inactive", "1", "--runs", "4", "--quiet", "--algorithm"]
    assert main(["ftco", *words, "recursive_doubling,tree", "--sampling", "strata", "--json", "-"]) == 0
    without, with_tree = json.loads(capsys.readouterr().out)
    assert with_tree.keys() - without.keys() == {"tree", "radix", "roots"}
    assert (without["sampling"], with_tree["sampling"]) == ("plain", "strata")
    assert main(["ftco", *words, "recursive_doubling"]) == 0
    assert re.match("nodes +algorithm +latency", capsys.readouterr().out)
    assert main(["ftco", *words, "recursive_doubling", "--trace"]) == 0
    assert capsys.readouterr().out.startswith("Allreduce, 8 nodes, recursive doubling, L = 10, o = 1\n")


def test_a_trace_with_nodes_that_are_killed(capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "--nodes",
        "7",
        "--tree",
        "kary:2",
        "--roots",
        "single",
        "--operation",
        "reduce",
        "--kill",
        "1",
        "--kill",
        "6@3",
    )
    assert main(["ftco", *words, "--trace"]) == 0
    shown = capsys.readouterr().out
    assert "1 is dead" in shown
    assert " 3  6 dies" in shown
    assert "3 learns that 1 is dead" in shown
    assert "3 sends DATA to 0" in shown


@pytest.mark.sampled
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_trace_as_a_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path, ending: str) -> None:
    assert main(["ftco", *QUICK, "--failures", "1", "--trace", str(tmp_path / f"flow.{ending}")]) == 0
    assert (tmp_path / f"flow.{ending}").stat().st_size > 10_000
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", "8", "--tree", "knomial:1"), "--tree: 1 is out of range (at least 2)"),
        (("--nodes", "8", "--inactive", "8"), "--inactive: 8 faults of 8 nodes; at least one node must survive"),
        (("--nodes", "8", "--L", "7", "--o", "2"), "--L: expected a positive multiple of o = 2, got 7"),
        (("--nodes", "8", "--tree", "knomial:9"), "--tree: a tree with 9 roots does not fit 8 nodes"),
        (("--nodes", "8", "--timeout", "0"), "--timeout: 0 steps is out of range: it must be positive"),
        (("--nodes", "8", "--timeout", "-5"), "--timeout: -5 steps is out of range: it must be positive"),
        (("--nodes", "eight"), "--nodes: expected an integer, got 'eight'"),
        (("--nodes", "8", "--rules", "mine"), "--rules: expected reference or paper, got 'mine'"),
        (("--nodes", "1000000000000"), "--nodes: 1,000,000,000,000 is out of range (at most 1,000,000)"),
        (("--nodes", "9" * 20), f"--nodes: expected an integer of 18 digits or fewer, got '{'9' * 20}'"),
        (("--nodes", "8", "--L", "9999999"), "--L: 9,999,999 steps is out of range (at most 100,000)"),
        (("--nodes", "8", "--timeout", "9999999"), "--timeout: 9,999,999 steps is out of range (at most 100,000)"),
        (("--nodes", "8", "--window", "0..9999999"), "--window: 9,999,999 steps is out of range (at most 100,000)"),
        (("--nodes", "8", "--imbalance", "uniform:9999999"), "--imbalance: 9,999,999 steps is out of range (at most"),
        (("--nodes", "8", "--imbalance", "uniform:1e23"), "--imbalance: expected a whole number of steps, got '1e23'"),
        (("--nodes", "8", "--tree", f"kary:{'9' * 5000}"), "9999'; write for example knomial:9"),
        (("--nodes", ",".join(["8"] * 10_001)), "--nodes: 10,001 configurations with all lists; the limit is 10,000"),
        (("--nodes", "8", "--runs", "9999999999"), "runs: 9,999,999,999 is out of range (at most 1,000,000)"),
        (("--nodes", "8", "--jobs", "99999"), "jobs: 99,999 is out of range (at most 1,000)"),
        (("--nodes", "8", "--seed", "-1"), "argument --seed: -1 is out of range (at least 0)"),
        (("--nodes", "8", "--trace", "--kill", "1", "--kill", "1@3"), "--kill: node 1 is given more than once; drop"),
        (("--nodes", "8", "--runs", "0"), "argument --runs: 0 is out of range (at least 1)"),
        (
            ("--nodes", "8", "--json", "-", "--csv", "-"),
            "--json - and --csv -: only one option can write to standard output",
        ),
        (("--nodes", "8", "--json", "no/such/file"), "--json no/such/file: no such directory; create it or choose"),
        (("--nodes", "8", "--trace", "flow.txt"), "flow.txt: the name of a figure ends with .png, .svg or .pdf"),
        (
            ("--nodes", "8", "--algorithm", "hierarchical", "--trace"),
            "--trace: cannot show --algorithm hierarchical; expected tree or recursive_doubling",
        ),
        (("--nodes", "8,9", "--trace"), "--trace: expected one configuration, got 2"),
        (
            ("--nodes", "8", "--kill", "1"),
            "--kill needs --trace; for random failures in many runs use --inactive or --failures",
        ),
        (("--nodes", "8", "--kill", "9", "--trace"), "--kill 9 is out of range: expected a node from 0 to 7"),
        (("--nodes", "8", "--kill", "a@b", "--trace"), "argument --kill: expected NODE or NODE@STEP, got 'a@b'"),
        (("--nodes", "500", "--trace", "flow.png"), "--trace: 500 nodes are too many for a figure; draw at most 64"),
        ((), "the following arguments are required: --nodes"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ftco", *words]) == 2
    assert said in capsys.readouterr().err
