import json
from typing import NoReturn

import pytest

from tests.cli.helpers import FakeSimulator
from tests.report.helpers import make_result, make_trace
from xsim_py.cli import main
from xsim_py.report import Result, Table, perfetto


def traced_result() -> Result:
    us = 10**6
    result = make_result(virtual_time_ps=12 * us, ranks=3)
    result.tables["ranks"] = Table(
        "ranks", {"rank": [0, 1, 2], "node": [0, 1, 2], "end_s": [4 * us, 12 * us, 9 * us]}, exact=["end_s"]
    )
    result.tables["failures"] = Table("failures", {"start": [0], "rank": [2], "time_s": [9 * us]}, exact=["time_s"])
    result.tables["starts"] = Table(
        "starts", {"start": [0], "start_s": [0], "end_s": [12 * us]}, exact=["start_s", "end_s"]
    )
    result.trace = make_trace()
    return result


@pytest.mark.parametrize(("words", "traced"), [("", False), ("--trace t.json", True), ("--timeline -", True)])
def test_a_run_is_traced_only_if_somebody_asks(simulator: FakeSimulator, tmp_path, monkeypatch, words, traced):
    monkeypatch.chdir(tmp_path)
    simulator.result = traced_result()
    assert main(["run", "-n", "3", *words.split(), "prog.py"]) == 0
    assert simulator.calls[0].trace is traced


def test_writes_a_trace_and_draws_a_picture(simulator: FakeSimulator, tmp_path, capsys):
    simulator.result = traced_result()
    files = tmp_path / "t.json", tmp_path / "t.png"
    assert main(["run", "-n", "3", "--quiet", "--trace", str(files[0]), "--timeline", str(files[1]), "prog.py"]) == 0
    assert json.loads(files[0].read_text())["otherData"]["digest"] == "feedface"
    assert files[1].stat().st_size > 5000
    assert capsys.readouterr() == ("from the program\n", "")


def test_a_timeline_as_text_follows_the_output_of_the_program(simulator: FakeSimulator, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    simulator.result = traced_result()
    assert main(["run", "-n", "3", "--timeline", "-", "prog.py"]) == 0
    first, head, *_, row, _ = capsys.readouterr().out.splitlines()
    assert (first, head[:18]) == ("from the program", "timeline of 12 us;")
    assert (row[:10], len(row)) == ("rank 2 |..", 40)


def test_says_that_a_trace_was_too_long(simulator: FakeSimulator, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(perfetto.write_perfetto, "__kwdefaults__", {"facts": None, "most_events": 2})
    simulator.result = traced_result()
    assert main(["run", "-n", "3", "--quiet", "--trace", str(tmp_path / "t.json"), "prog.py"]) == 0
    said = "5 calls, messages and marks at the end of the run are omitted: the trace is full"
    assert capsys.readouterr().err == f"xsim: warning: {tmp_path / 't.json'}: {said}\n"


def test_an_interrupt_leaves_no_half_of_a_trace(simulator: FakeSimulator, tmp_path, capsys, monkeypatch):
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(perfetto._Export, "_names", interrupted)
    simulator.result = traced_result()
    assert main(["run", "-n", "3", "--quiet", "--trace", str(tmp_path / "t.json"), "prog.py"]) == 130
    said = "xsim: interrupted while writing the results: existing files are complete\n"
    assert capsys.readouterr().err == said
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--trace nowhere/t.json", "--trace nowhere/t.json: no such directory; create it or choose another"),
        ("--trace .", "--trace .: is a directory; name a file"),
        ("--trace /proc/t.json", "--trace /proc/t.json: No such file or directory"),  # it takes no files, from anybody
        ("--json /proc/t.json", "--json /proc/t.json: No such file or directory"),
        ("--timeline /proc/t.png", "--timeline /proc/t.png: No such file or directory"),
        ("--out /proc", "--out /proc: No such file or directory"),
        ("--timeline nowhere/t.png", "--timeline nowhere/t.png: no such directory; create it or choose another"),
        ("--timeline t.gif", "t.gif: the name of a figure ends with .png, .svg or .pdf; or -, for text"),
        ("--pairs t.gif", "t.gif: the name of a figure ends with .png, .svg or .pdf"),
        (
            "--waits t.foo",
            ("t.foo: the name of a figure ends with .png, .svg or .pdf; or .csv, for a table; or -, for text"),
        ),
        ("--timeline - --json -", "--json - and --timeline -: only one option can write to standard output"),
    ],
)
def test_refuses_what_cannot_be_written_before_anything_runs(simulator, capsys, words, message):
    assert main(["run", "-n", "3", *words.split(), "prog.py"]) == 2
    assert capsys.readouterr().err == f"xsim: {message}\n"
    assert simulator.calls == []
