"""Standard input of which nobody takes more than a line at a time."""

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from xsim_py.cli.stdin import line_by_line

TEXT = b"first\nsecond\nthird\nlast"


def descriptor_of(kind: str, folder: Path) -> int:
    if kind == "file":
        (folder / "input").write_bytes(TEXT)
        return os.open(folder / "input", os.O_RDONLY)
    out, into = os.pipe()
    os.write(into, TEXT)
    os.close(into)
    return out


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_what_comes_after_a_line_is_left_for_others(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    descriptor = descriptor_of(kind, tmp_path)
    read = os.read
    monkeypatch.setattr(os, "read", lambda *_: b"")  # as in a rank other than 0
    with open(descriptor) as real:
        monkeypatch.setattr(sys, "stdin", real)
        with line_by_line():
            assert sys.stdin.readline() == "first\n"
            assert read(descriptor, 7) == b"second\n"
            assert sys.stdin.buffer.readline() == b"third\n"
            assert sys.stdin.read() == "last"
            assert (sys.stdin.readline(), sys.stdin.fileno(), sys.stdin.isatty()) == ("", descriptor, False)
        assert sys.stdin is real


@pytest.mark.parametrize("other", [None, io.StringIO("text")])
def test_another_thing_in_its_place_stays(other: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", other)
    with line_by_line():
        assert sys.stdin is other
