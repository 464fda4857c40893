"""What ranks in processes of their own would all import is imported before there are processes."""

import io
import sys
from pathlib import Path

import pytest

from xsim_py import simulate
from xsim_py.process.programs.preload import preload

CANDIDATES = ("colorsys", "wave", "chunk", "this", "nturl2path", "sre_compile")


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Return a function that preloads a program of this folder, and names what has been imported of some modules."""
    for name in CANDIDATES:
        monkeypatch.delitem(sys.modules, name, raising=False)

    def run(source: str, package: str = "", refused: tuple[str, ...] = ()) -> list[str]:
        preload(source, package, [str(tmp_path), *sys.path], lambda name: name not in refused)
        return [name for name in CANDIDATES if name in sys.modules]

    return run


def test_modules_of_python_are_imported(imported):
    assert imported("import colorsys\nfrom wave import open") == ["colorsys", "wave"]


def test_the_program_s_own_modules_are_read_and_not_run(imported, tmp_path: Path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("raise AssertionError\nimport colorsys")
    (tmp_path / "pack" / "part.py").write_text("from . import other\nraise AssertionError")
    (tmp_path / "pack" / "other.py").write_text("'''Doc.'''\nimport wave")
    assert imported("from pack.part import something") == ["wave"]
    assert "pack" not in sys.modules


def test_what_comes_after_something_was_done_is_left_to_the_ranks(imported):
    assert imported("import os\nLIMIT = 5\nimport wave\nos.environ['A'] = '1'\nimport colorsys") == ["wave"]


def test_what_ranks_do_not_share_is_left_to_them(imported):
    assert imported("import colorsys, wave", refused=("wave",)) == ["colorsys"]


def test_what_is_tried_is_tried_and_what_is_for_readers_is_not(imported):
    source = "try:\n    import wave\nexcept ImportError:\n    wave = None\nif TYPE_CHECKING:\n    import colorsys"
    assert imported(source) == ["wave"]


@pytest.mark.parametrize("source", ["import does_not_exist\nimport wave", "from sys import nothing\nimport wave"])
def test_what_is_not_there_is_the_program_s_affair(imported, source: str):
    assert imported(source) == ["wave"]


@pytest.mark.parametrize("source", ["def", "\0", b"\xff\xff", "from . import x", "from ... import x", "import a..b"])
def test_what_cannot_be_read_is_left_alone(imported, source: str):
    assert imported(source) == []


def test_what_is_imported_before_there_are_processes_takes_virtual_clocks_for_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.delitem(sys.modules, "socketserver", raising=False)  # it takes monotonic out of time
    program, said = tmp_path / "program.py", io.StringIO()
    program.write_text("import socketserver\nprint(socketserver.time())\n")
    simulate(program, ranks=1, isolation="process", stdout=said)
    assert said.getvalue() == "0.0\n"
