import csv
import json
from pathlib import Path

import pytest

from tests.apps.helpers import APPS
from xsim_py.cli import main

pytestmark = pytest.mark.usefixtures("in_this_process")

FEW = ["compare-recovery", "-n", "8", "--schemes", "ulfm,restart", "--failures", "none,1", "-j", "1"]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_prints_a_table_for_each_scheme_and_writes_everything(capsys):
    assert main([*FEW, "--out", "out"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert [line for line in lines if " " not in line and line] == ["ulfm", "restart"]
    head, _, none, one = lines[1:5]
    assert head.split() == ["ranks", "failures", "dead", "total", "collective", "detection", *head.split()[6:]]
    assert none.split()[:2] == ["8", "none"]
    assert one.split()[:3] == ["8", "1", "1"]
    assert err.splitlines()[-1].startswith("xsim: wrote recovery.csv, recovery.json, timelines-gige-8.png in out")
    cases = [f"gige-8-{failures}-{scheme}.txt" for failures in ("none", "1") for scheme in ("ulfm", "restart")]
    names = {"recovery.csv", "recovery.json", "timelines-gige-8.png", *cases}
    assert {path.name for path in Path("out").iterdir()} == names
    with open("out/recovery.csv") as file:
        assert [row["scheme"] for row in csv.DictReader(file)] == ["ulfm", "restart"] * 2
    assert "1 missing" in Path("out/gige-8-1-ulfm.txt").read_text()


def test_json_takes_the_place_of_the_tables(capsys):
    assert main([*FEW, "--json", "-"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [(run["scheme"], run["victims"]) for run in runs] == [
        ("ulfm", []),
        ("restart", []),
        ("ulfm", ["1"]),
        ("restart", ["1"]),
    ]


def test_status_is_1_when_a_program_does_not_survive(capsys):
    code = "from mpi4py import MPI; MPI.COMM_WORLD.barrier()"
    assert main([*FEW[:3], "--schemes", "ulfm", "--failures", "1", "-j", "1", "-c", code]) == 1
    err = capsys.readouterr().err
    assert "xsim: failed: gige, 8 ranks, 1, ulfm: aborted" in err
    assert "ERR_PROC_FAILED" in err


def test_a_scheme_that_says_what_it_has_lost_is_no_fault(capsys):
    words = ["--timeout", "1ms", "-j", "1", "--failures", "2p", "--schemes", "buddy"]
    assert main(["compare-recovery", "-n", "4", *words, str(APPS / "ft_qr.py"), "--block", "2", "--groups", "1"]) == 0
    out, err = capsys.readouterr()
    assert "data lost: gige, 4 ranks, 2p, buddy: the data of ranks [1], with all copies" in err
    assert "the data of ranks [1], with all copies" in out
    assert "failed: " not in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--failures", "7x"], "--failures: unknown failure '7x'"),
        (["--failures", "8@1ms"], "--failures: '8@1ms': rank 8 is out of range (0 to 7) (with 8 ranks)"),
        (["--failures", "1,,2p"], "empty name in '1,,2p'"),
        (["--schemes", "ulfm,prayer"], "--schemes: unknown scheme 'prayer'; known: ftco, ulfm, legio, restart"),
        (["--timeout", "0s"], "expected a positive time, got '0s'"),
        (["--timeout", "-1s"], "argument --timeout: -1s is out of range: a time cannot be negative"),
        (["--timeout", "1ns"], "surviving ranks would be suspected"),
        (["--restart-delay", "soon"], "'soon'"),
        (["--call", "Allreduce"], "expected a call, got 'Allreduce'; write for example 2nd Allreduce"),
        (["--call", "4th Allreduce"], "rank 0 makes no Allreduce number 4; its collective calls: 3 x Allreduce"),
        (["--machine", "nowhere"], "nowhere"),
        (["--set", "network.latncy=1us"], "did you mean latency"),
        (["--json", "no/where.json"], "no such directory; create it or choose another"),
        (["no_such_program.py"], "no_such_program.py"),
    ],
)
def test_bad_input_is_a_sentence_and_status_2(words: list[str], said: str, capsys):
    assert main([*FEW, *words]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert out == ""
    assert all(line.startswith("xsim: ") for line in err.splitlines())
