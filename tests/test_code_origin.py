"""Whose a line of code is."""

import linecache
import os

import numpy
import pytest

import xsim_py
from xsim_py import code_origin


def test_a_file_is_of_the_simulator_installed_or_of_the_program():
    ours, theirs = (code_origin.is_simulator, code_origin.is_installed), code_origin.of_program
    files = (xsim_py.__file__, os.__file__, numpy.__file__, "<frozen importlib>", __file__, "<string>")
    assert [tuple(ask(file) for ask in ours) for file in files] == [
        (True, True),
        (False, True),
        (False, True),
        (False, True),
        (False, False),
        (False, False),
    ]
    assert [file for file in files if theirs(file)] == [__file__, "<string>"]


def test_a_file_is_named_from_a_folder_and_its_lines_are_known():
    assert code_origin.shown("/a/b/c.py", "/a/b") == code_origin.shown("/a/b/c.py", "/a/b/") == "c.py"
    assert code_origin.shown("/a/b/c.py", "/") == "a/b/c.py"
    assert code_origin.shown("/a/b/c.py", "/a/bc") == "/a/b/c.py"
    assert code_origin.text_of(__file__, 1) == '"""Whose a line of code is."""'
    assert [code_origin.text_of(__file__, line) for line in (0, 10**6)] == ["", ""]


def test_no_line_of_a_program_is_one_of_the_command_of_this_python(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(linecache.cache, "<string>", (4, None, ["serve()\n"], "<string>"))  # as Python 3.13 does for -c
    assert (code_origin.text_of("<string>", 1), code_origin.lines_of("<string>")) == ("", [])


def test_a_portable_name_has_no_folder_of_this_computer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    there = {"here/a.py": str(tmp_path / "here" / "a.py"), "numpy/__init__.py": numpy.__file__, "m.yaml": "m.yaml"}
    assert {code_origin.portable_name(file): file for file in there.values()} == there
    assert code_origin.portable_name("/some/where/else/b.py:7") == "else/b.py:7"
