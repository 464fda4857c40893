"""Command lines, as MPI_Comm_spawn takes them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xsim_py.compiled import program as compiled
from xsim_py.errors import ConfigError
from xsim_py.process.programs.command_line import how_called, is_python, program_of


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
        (["binary"], "binary: is not an executable but another ELF file"),
        (["python"], "no program: the interpreter would wait for input"),
        (["python", "-i"], "no program: the interpreter would wait for input"),
        (["python", "gone.py"], "gone.py: cannot read the program: No such file or directory"),
        (["python", "-m", "no.such"], "-m no.such: cannot find this module"),
    ],
)
def test_what_cannot_be_run_says_why(tmp_path: Path, line: list[str], complaint: str) -> None:
    compiled.register()
    (tmp_path / "binary").write_bytes(b"\x7fELF")
    with pytest.raises(ConfigError, match=complaint):
        program_of(line[0], line[1:], start=str(tmp_path))


@pytest.mark.parametrize(
    ("words", "called"),
    [
        ("-uO -W error -Xdev p.py -O", ("script", "p.py", ["-O"], ["-u", "-O", "-Werror", "-Xdev"])),
        ("-B -m a b", ("module", "a", ["b"], ["-B"])),
        ("-u - a", ("stdin", "", ["a"], ["-u"])),
        ("", ("stdin", "", [], [])),
    ],
)
def test_how_an_interpreter_is_called(words: str, called: tuple[str, str, list[str], list[str]]) -> None:
    assert how_called(words.split()) == called


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("#!/usr/bin/env python3\n", True),
        ("#!/bin/sh\n'''exec' \"/long path/bin/python\" \"$0\" \"$@\"\n' '''\n", True),
        ("#!/bin/sh\npython p.py\n", False),
        ("import os\n", False),
    ],
)
def test_a_script_is_known_by_its_first_lines(tmp_path: Path, text: str, is_one: bool) -> None:
    (tmp_path / "tool").write_text(text)
    assert is_python(str(tmp_path / "tool")) == is_one
