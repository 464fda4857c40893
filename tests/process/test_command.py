"""Command lines, as MPI_Comm_spawn takes them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xsim_py.errors import ConfigError
from xsim_py.process.command import program_of


@pytest.mark.parametrize(
    ("line", "kind", "name", "args"),
    [
        ([sys.executable, "work.py", "-x", "1"], "script", "work.py", ["-x", "1"]),
        (["python3", "-u", "-W", "ignore", "work.py"], "script", "work.py", []),
        (["/usr/bin/python3.11", "-m", "json.tool", "a"], "module", "json.tool", ["a"]),
        (["python", "-Ic", "pass"], "code", "-c", []),
        (["python", "-c", "pass", "-m"], "code", "-c", ["-m"]),
        (["python", "-mjson.tool"], "module", "json.tool", []),
        (["work.py", "a"], "script", "work.py", ["a"]),
    ],
)
def test_what_a_command_line_runs(tmp_path: Path, line: list[str], kind: str, name: str, args: list[str]) -> None:
    (tmp_path / "work.py").write_text("pass\n")
    program = program_of(line[0], line[1:], start=str(tmp_path))
    assert (program.kind, program.name, program.args, program.start) == (kind, name, args, str(tmp_path))


def test_a_file_that_names_python_in_its_first_line_is_a_program(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "work").write_text("#!/usr/bin/env python3\n")
    program = program_of("work", [], start=str(tmp_path), path=["nowhere", "bin"])
    assert program.file == str(tmp_path / "bin" / "work")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (["nothing"], "nothing: no such program"),
        (["binary"], "binary: not a Python program, so it cannot be simulated"),
        (["python"], "an interpreter without a program would wait for input"),
        (["python", "-i"], "an interpreter without a program would wait for input"),
        (["python", "gone.py"], "gone.py: cannot read the program: No such file or directory"),
        (["python", "-m", "no.such"], "-m no.such: no module of this name"),
    ],
)
def test_what_cannot_be_run_says_why(tmp_path: Path, line: list[str], complaint: str) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF")
    with pytest.raises(ConfigError, match=complaint):
        program_of(line[0], line[1:], start=str(tmp_path))
