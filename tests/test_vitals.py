"""What a process shows of itself, and when it is stuck."""

import mmap
import os
import sys
import time
from pathlib import Path

import pytest

from xsim_py import vitals
from xsim_py.vitals import Frame, Vitals, Watch

FIBER = os.path.join(os.path.dirname(vitals.__file__), "process", "ranks", "fiber.py")
SIMULATOR = f'  File "{os.path.dirname(vitals.__file__)}/run.py", line 5 in simulate\n'
CALLER = '  File "caller.py", line 9 in <module>\n'
SERVE = f'  File "{FIBER}", line 200 in _serve\n'
LIBRARY = f'  File "{os.__file__}", line 3 in call\n'
RANK = 'Current thread 0x1 (most recent call first):\n  File "prog.py", line 4 in <module>\n'
GRACE = round(vitals.GRACE_S / vitals.TICK_S)


def test_a_process_is_stuck_that_should_have_ended_and_shows_nothing_for_a_while():
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    shown, watch = Vitals.from_buffer(memory), Watch(memory)
    assert not any(watch.is_hanging() for _ in range(2 * GRACE))  # no ranks run, and nothing is due
    shown.running = 1
    assert not any(watch.is_hanging() for _ in range(2 * GRACE))
    shown.due_ns = time.monotonic_ns() - 1
    shown.beats = 1
    assert [watch.is_hanging() for _ in range(GRACE + 1)] == [False] * GRACE + [True]
    shown.beats = 2
    assert not watch.is_hanging()
    shown.due_ns, watch.interrupted = 0, True
    assert sum(watch.is_hanging() for _ in range(GRACE)) == 1
    assert watch.is_patient
    assert sum(watch.is_hanging() for _ in range(3 * GRACE)) == 3
    assert not watch.is_patient


def test_the_line_of_a_rank_is_found_in_a_stack():
    prog = Frame("prog.py", 4, "<module>")
    assert vitals.frames(RANK + SIMULATOR + SERVE) == [prog]
    assert vitals.frames(RANK + "  ...\n") == [prog]  # too many frames to be shown
    assert vitals.frames(RANK) == []  # the caller of the simulator
    assert vitals.frames(SIMULATOR + CALLER) == []
    assert vitals.frames("") == []
    assert vitals.frames(CALLER + SERVE + RANK + SERVE) == [prog]  # what was written last
    assert vitals.frames(RANK + SERVE + RANK) == []
    stack = vitals.frames(LIBRARY + RANK + SERVE)
    assert vitals.with_place("where", stack) == "where\n    prog.py:4 in <module>"
    assert vitals.with_place("nowhere", []) == "nowhere"
    assert vitals.hang_report(7, stack).startswith("rank 7 is in")
    assert vitals.hang_report(7, []).startswith("the simulator is in")


def test_a_line_is_shown_where_the_folder_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert vitals.shown(Frame("prog.py", 1, "f")) == "prog.py:1 in f"


def test_a_line_is_shown_with_its_text():
    code = sys._getframe().f_code
    frame = Frame(code.co_filename, code.co_firstlineno, "here")
    assert vitals.shown(frame).endswith(f"test_vitals.py:{frame.line} in here: def {code.co_name}():")
