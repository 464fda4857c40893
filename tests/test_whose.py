"""Whose a line of code is."""

import os

import numpy

import xsim_py
from xsim_py import whose


def test_a_file_is_of_the_simulator_installed_or_of_the_program():
    ours, theirs = (whose.is_simulator, whose.is_installed), whose.of_program
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
    assert whose.shown("/a/b/c.py", "/a/b") == whose.shown("/a/b/c.py", "/a/b/") == "c.py"
    assert whose.shown("/a/b/c.py", "/") == "a/b/c.py"
    assert whose.shown("/a/b/c.py", "/a/bc") == "/a/b/c.py"
    assert whose.text_of(__file__, 1) == '"""Whose a line of code is."""'
