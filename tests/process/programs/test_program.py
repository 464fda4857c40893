"""A program that cannot be read or compiled is refused, whatever is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path
from types import CodeType

import pytest

from xsim_py.errors import ConfigError
from xsim_py.process.programs.program import Program


def refused(target: object, *, kind: str = "script") -> str:
    with pytest.raises(ConfigError) as caught:
        Program(target, kind=kind, args=[])
    return str(caught.value)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("/dev/zero", "too large (at most 64 MiB)"),
        ("x" * 300, "File name too long"),
        ("a\0b", "invalid file name"),
        ("\ud800", "invalid file name"),
        ("", "cannot run a directory without a __main__.py"),
    ],
)
def test_what_is_no_file_is_refused(tmp_path: Path, target: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert why in refused(target)


def test_a_pipe_that_nobody_writes_into_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "cannot read the program: no process writes to this pipe" in refused(tmp_path / "pipe")


@pytest.mark.parametrize("name", ["", ".", "a..b", "..", "x" * 5000, "a\0b", "/x"])
def test_what_is_no_module_is_refused(name: str) -> None:
    assert "cannot find this module in the current directory or the installed packages" in refused(name, kind="module")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("(" * 100_000, "too many nested parentheses"),
        ("-" * 100_000 + "1", "nested too deeply, or too large"),
        ("x = 'a\0b'", "null bytes"),
        ("x = '\udcff'", "surrogates not allowed"),
    ],
)
def test_what_python_cannot_compile_is_refused(source: str, why: str) -> None:
    said = refused(source, kind="code")
    assert said.startswith("<string>")
    assert f"not a Python program: {why}" in said or why in said


def test_a_program_that_runs_again_is_compiled_once_as_long_as_it_is_the_same(tmp_path: Path) -> None:
    def code_of(name: str, text: str) -> CodeType:
        (tmp_path / name).write_text(text)
        code = Program(str(tmp_path / name), kind="script", args=[]).code
        assert code is not None
        assert code.co_filename == str(tmp_path / name)
        return code

    one = code_of("one.py", "x = 1")
    assert code_of("one.py", "x = 1") is one
    assert code_of("two.py", "x = 1") is not one
    assert code_of("one.py", "x = 2") != one
