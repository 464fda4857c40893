import errno
import io
import json
import os
import sys
from pathlib import Path

import pytest

from xsim_py.cli import main
from xsim_py.study.loader import presets

pytestmark = pytest.mark.usefixtures("in_this_process")

STUDY = """\
name: small
description: A small study.
program: apps/ring.py
ranks: 2
args: [--rounds, "{rounds}"]
sweep: {rounds: [1, 2]}
capture: {time_us: "time: ([0-9.]+) us"}
plots: [{file: a.png, x: rounds, y: time_us}]
"""


@pytest.fixture(autouse=True)
def _study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(STUDY)


def test_runs_a_study_and_says_where_the_results_are(capsys):
    assert main(["study", "s.yaml", "-j", "1", "--out", "here"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "rounds  virtual time [us]  time_us",
        "------  -----------------  -------",
        "     1            108.696   28.192",
        "     2            136.888   56.384",
    ]
    assert err.splitlines() == [
        "xsim: version 0.1.0, study small: 2 runs; in here",
        "xsim: wrote runs.csv, summary.csv, results.json and a.png in here",
    ]
    assert main(["study", "s.yaml", "--out", "here", "--report", "page.html"]) == 0
    err = capsys.readouterr().err
    assert "2 runs, 2 already finished; in here" in err
    assert err.endswith("xsim: wrote runs.csv, summary.csv, results.json and a.png in here, and page.html\n")


def test_quiet_leaves_the_table_and_what_went_wrong(capsys):
    Path("s.yaml").write_text(STUDY.replace("[1, 2]", "[-1]"))
    assert main(["study", "s.yaml", "-j", "1", "--quiet"]) == 1
    out, err = capsys.readouterr()
    assert "failed" in out.splitlines()[0]
    assert err.splitlines()[0] == "xsim: failed: rounds=-1, ranks=2, machine=gige: finished, exit status 1"


def test_only_and_set_and_list(capsys):
    assert main(["study", "s.yaml", "-j", "1", "--only", "rounds<=1", "--set", "network.per_hop=20us", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["study", "s.yaml", "--list", "--set", "network.per_hop=20us"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows == [["1", "2", "gige", "0", "0", "finished"], ["2", "2", "gige", "0", "0"]]
    assert main(["study", "s.yaml", "--list"]) == 0
    assert "finished" not in capsys.readouterr().out


def test_without_a_file_the_presets_are_listed(capsys):
    assert main(["study"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(presets())


def test_the_schema_is_json_or_a_table(capsys):
    assert main(["study", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "xsim_py study"
    assert main(["study", "--markdown"]) == 0
    assert "| `plots[].x` | a column of the runs | required |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("study no.yaml", "unknown file or preset study 'no.yaml'"),
        ("study s.yaml -j 0", "argument -j/--jobs: 0 is out of range (at least 1)"),
        ("study s.yaml --only rank=1", "--only: 'rank=1': unknown name rank; did you mean ranks?"),
        ("study s.yaml --set network.latncy=1us", "network.latncy: unknown key; did you mean latency?"),
        ("study s.yaml --set network", "expected path=value, got 'network'"),
        ("study s.yaml --out s.yaml", "File exists"),
        ("study s.yaml extra", "unrecognized arguments: extra"),
    ],
)
def test_bad_input_is_a_message_and_status_2(capsys, line: str, complaint: str):
    assert main(line.split()) == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert all(said.startswith("xsim: ") for said in err.splitlines())


def test_what_is_wrong_in_the_file_has_its_place(capsys):
    Path("s.yaml").write_text(STUDY.replace("sweep:", "swep:"))
    assert main(["study", "s.yaml"]) == 2
    assert capsys.readouterr().err.splitlines()[0].startswith("xsim: s.yaml:5:18: args[1]: unknown variable rounds")


def test_results_that_find_no_place_are_status_74(capsys, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert main(["study", "s.yaml", "-j", "1", "--quiet"]) == 74
    said = "xsim: cannot write the results: small-results/runs.csv: No space left on device\n"
    assert capsys.readouterr().err.endswith(said)


def test_a_terminal_has_a_bar_that_goes(monkeypatch):
    screen = io.StringIO()
    screen.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["study", "s.yaml", "-j", "1"]) == 0
    shown = screen.getvalue()
    assert "\r\x1b[K........................ 0 of 2 runs  0:00" in shown
    assert "\r\x1b[K############............ 1 of 2 runs  0:0" in shown
    assert " left\r\x1b[K######################## 2 of 2 runs  0:0" in shown
    assert shown.split("\r\x1b[K")[-1].startswith("xsim: wrote")


def test_a_picture_that_cannot_be_drawn_is_said_and_the_rest_is_there(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "xsim_py.report.figure", None)
    assert main(["study", "s.yaml", "-j", "1"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[-2:] == [
        "xsim: wrote runs.csv, summary.csv and results.json in small-results",
        "xsim: no figure: a figure needs matplotlib; install it with: pip install 'xsim-py[plot]'",
    ]
