"""xsim mpiexec: what it passes on, finds, refuses, and runs really."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import FakeSimulator
from xsim_py.cli import is_launcher, main, mpiexec
from xsim_py.process.programs.apps import App

PRINTS = "import os; print(os.environ['PMI_RANK'], os.environ['OMPI_COMM_WORLD_SIZE'], os.getcwd())"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("/a/mpiexec", True), ("mpirun", True), ("mpiexec.hydra", True), ("orterun", True), ("xsim", False)],
)
def test_the_name_that_it_is_called_by_counts(name: str, is_one: bool):
    assert is_launcher(name) == is_one


def apps_of(simulator: FakeSimulator, *words: str) -> tuple[list[App], Any]:
    assert main(["mpiexec", *words]) == 0
    (call,) = simulator.calls
    return call.program, call


def test_every_command_is_a_program_with_its_ranks(simulator: FakeSimulator, tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.py").touch()
    words = "-n 2 -env A 1 env B=2 python -u a.py x : -n 3 -wdir sub python -m json.tool : ./a.py : a.py"
    apps, call = apps_of(simulator, *words.split(), "--seed")
    assert [(app.program.kind, app.ranks, app.program.args, app.env) for app in apps] == [
        ("script", 2, ["x"], {"A": "1", "B": "2"}),
        ("module", 3, [], {}),
        ("script", 1, [], {}),
        ("script", 1, ["--seed"], {}),
    ]
    assert [app.program.start for app in apps] == [*map(str, (tmp_path, tmp_path / "sub", tmp_path, tmp_path))]
    assert (call.ranks, call.machine, call.progress) == (7, "gige", None)


def test_options_of_xsim_run_are_passed_on(simulator: FakeSimulator):
    words = "-n 2 --seed 5 --machine shmem -l -timeout 9 --with-ft ulfm python -c pass"
    _, call = apps_of(simulator, *words.split())
    assert (call.seed, call.machine, call.label, call.wall_limit, call.ft) == (5, "shmem", True, 9, True)


def test_it_is_silent_unless_it_is_asked_to_speak(simulator: FakeSimulator, capsys: pytest.CaptureFixture[str]):
    for word, lines in {"--oversubscribe": 0, "-v": 2, "-q": 0}.items():
        assert main(["mpiexec", word, "-n", "2", "python", "-c", "pass"]) == 0
        assert len(capsys.readouterr().err.splitlines()) == lines


def test_a_script_on_the_path_is_found_by_its_first_lines(simulator: FakeSimulator, tmp_path: Path):
    (tmp_path / "bin").mkdir()
    for name, text in {
        "tool": "#!/usr/bin/env python3\n",
        "long": "#!/bin/sh\n'''exec' /a/python \"$0\"\n' '''\n",
    }.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    os.environ["PATH"] = str(tmp_path / "bin")
    apps, _ = apps_of(simulator, "tool", ":", "long")
    assert [app.program.file for app in apps] == [str(tmp_path / "bin" / name) for name in ("tool", "long")]


def test_variables_are_there_for_all(simulator: FakeSimulator):
    apps_of(simulator, "-x", "NEW_ONE=1", "-genv", "OTHER", "2", "python", "-c", "pass")
    assert (os.environ["NEW_ONE"], os.environ["OTHER"]) == ("1", "2")


def test_it_leaves_the_job_that_it_is_started_in(simulator: FakeSimulator):
    os.environ.update(PMI_SIZE="4", PMI_RANK="2", OMPI_COMM_WORLD_SIZE="4", XSIM_RANK="2")
    apps_of(simulator, "python", "-c", "pass")
    assert not {"PMI_SIZE", "PMI_RANK", "OMPI_COMM_WORLD_SIZE", "XSIM_RANK"} & {*os.environ}


# ------------------------------------------------------------------------------------------------ options from a file


def test_options_come_from_the_nearest_file_above_and_the_command_line_comes_after(
    simulator: FakeSimulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    text = "machine: m.yaml\nseed: 3\nfail: [rank=1@1s, trace=f.csv]\nft: false\nset: {a.b: 5us, c: 1}\nquiet: false\n"
    (tmp_path / "xsim-mpiexec.yaml").write_text(text)
    (tmp_path / "sub" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "sub" / "below")
    _, call = apps_of(simulator, "--seed", "4", "--fail", "rank=2@2s", "python", "-c", "pass")
    assert (call.machine, call.seed, call.ft) == (str(tmp_path / "m.yaml"), 4, False)
    assert call.fail == ["rank=1@1s", f"trace={tmp_path / 'f.csv'}", "rank=2@2s"]
    assert call.set == {"a.b": "5us", "c": "1"}
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_file_where_everybody_may_write_is_passed_over(simulator: FakeSimulator, tmp_path: Path):
    (tmp_path / "xsim-mpiexec.yaml").write_text("seed: 3\n")
    tmp_path.chmod(0o1777)
    _, call = apps_of(simulator, "python", "-c", "pass")
    assert call.seed == 0


def test_what_is_wrong_in_the_file_has_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "xsim-mpiexec.yaml").write_text("seeds: 3\nshards: x\nquiet: 3\nfail: [[1]]\n")
    assert main(["mpiexec", "python", "-c", "pass"]) == 2
    file = tmp_path / "xsim-mpiexec.yaml"
    assert [line[: line.rindex(": ")] for line in capsys.readouterr().err.splitlines()][1:] == [
        f"xsim: {file}:2:9: shards",
        f"xsim: {file}:3:8: quiet",
        f"xsim: {file}:4:8: fail",
    ]


# ---------------------------------------------------------------------------------------------- what is not simulated


def test_a_command_that_is_not_python_runs_as_often_as_it_has_ranks(capfd: pytest.CaptureFixture[str]):
    # An interpreter by another name, which can not be simulated.
    os.symlink(sys.executable, "snake")
    assert main(["mpiexec", "-n", "2", "./snake", "-c", PRINTS]) == 0
    out, err = capfd.readouterr()
    assert out.splitlines() == [f"{rank} 2 {os.getcwd()}" for rank in range(2)]
    assert err == "xsim: ./snake does not use MPI: running it 2 times without simulation, in sequence\n"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("-n 1 true", 0),
        ("-n 2 -q false", 1),
        ("-q -n 1 true : -n 1 false", 1),
        ("-timeout 0.1 sleep 10", 4),
        ("-l -timeout 0.1 sleep 10", 4),
    ],
)
def test_its_status_is_the_first_that_is_not_zero(words: str, status: int, capfd: pytest.CaptureFixture[str]):
    assert main(["mpiexec", *words.split()]) == status
    assert capfd.readouterr().err == ("the wall limit was reached\n" if status == 4 else "")


def test_its_lines_get_their_ranks(capfdbinary: pytest.CaptureFixture[bytes]):
    assert main(["mpiexec", "-q", "-l", "-n", "2", "echo", "x"]) == 0
    assert capfdbinary.readouterr().out == b"[0] x\n[1] x\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("no-such-command", "mpiexec: no-such-command: no such command"),
        ("-wdir gone python -c pass", "mpiexec: -wdir gone: no such directory"),
        ("python -c pass : true", "mpiexec: python can be simulated, but the other programs of this job cannot"),
        ("python gone.py", "gone.py: cannot read the program: No such file or directory"),
    ],
)
def test_what_cannot_be_started_says_why(words: str, complaint: str, capsys: pytest.CaptureFixture[str]):
    assert main(["mpiexec", *words.split()]) == 2
    assert capsys.readouterr().err == f"xsim: {complaint}\n"


# ------------------------------------------------------------------------------------------- links, and beginning anew


def test_links_are_made_once_and_over_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for _ in range(2):
        assert main(["mpiexec", "--link", "bin"]) == 0
        assert capsys.readouterr().out == f'export PATH="{tmp_path / "bin"}:$PATH"\n'
    assert {path.name for path in (tmp_path / "bin").iterdir()} == {"mpiexec", "mpirun"}
    (tmp_path / "bin" / "mpirun").unlink()
    (tmp_path / "bin" / "mpirun").touch()
    assert main(["mpiexec", "--link", "bin"]) == 2
    assert "mpiexec: --link: bin/mpirun exists and is not a link to xsim" in capsys.readouterr().err


def test_tools_read_which_options_it_takes(capsys: pytest.CaptureFixture[str]):
    assert main(["mpiexec", "--version"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("mpiexec (xsim_py) ")
    assert "Open MPI" in said
    assert "HYDRA" in said


def began(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """The command line with which it begins anew."""
    found: list[list[str]] = [[]]
    monkeypatch.setattr(mpiexec.os, "execv", lambda _, words: found.append(words))
    monkeypatch.setattr(mpiexec, "mpiexec", lambda args: mpiexec.restart_interpreter(args))
    main(["mpiexec", *words])
    return found[-1][1:]


@pytest.mark.parametrize(
    ("words", "anew"),
    [
        ("python -u p.py", ""),
        ("--seed 3 -n 2 python -O -W error -u p.py -O", "-O -Werror | --seed 3 -n 2 -- python -u p.py -O"),
        ("python -Xdev -m x : -wdir d python -X dev -c y", "-Xdev | -n 1 -- python -m x : -n 1 -wdir d -- python -c y"),
        ("python -O a.py : python b.py", ""),
        ("-x PYTHONPATH=d python a.py", " | -n 1 -- python a.py"),
        ("-x OTHER=d python a.py", ""),
        ("hostname", ""),
        ("--version", ""),
    ],
)
def test_options_of_an_interpreter_hold_for_one_that_begins_anew(
    words: str, anew: str, monkeypatch: pytest.MonkeyPatch
):
    options, _, rest = anew.partition("|")
    expected = [*options.split(), "-P", "-m", "xsim_py", "mpiexec", *rest.split()] if anew else []
    assert began(monkeypatch, *words.split()) == expected


def test_nothing_begins_anew_twice(monkeypatch: pytest.MonkeyPatch):
    os.environ["PYTHONPATH"] = "d"
    assert began(monkeypatch, "-x", "PYTHONPATH=d", "python", "a.py") == []
