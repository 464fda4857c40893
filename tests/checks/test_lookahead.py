"""What comes after an MPI call is known before it where it is plain, and Python tells of its lines where it is not."""

from pathlib import Path

import pytest

from xsim_py import simulate
from xsim_py.checks import touches
from xsim_py.checks.lookahead import CodeAhead
from xsim_py.checks.touches import WatchedCode

PROGRAM = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
class Box:
    size = 3
    def __bool__(self): return True
class Plain:
    limit, box = 4, Box()
    def __init__(self): self.done, self.count, self.part = False, 0, None
def main(used, field, numbers, plain, box):
    total = step = last = one = two = i = 0
    other = field
    request = comm.Irecv(used, 1 - comm.rank)
    comm.Get_rank()
    LINE
    comm.Get_size()
    request.Cancel()
    request.Wait()
main(np.zeros(4), np.ones(4), [1, 2], Plain(), Box())
"""
KNOWN = [
    "if not total and step < 3: step += 1",
    "for i in range(4): total += i if i else field[i]",
    "for i, one in enumerate(field): total += one * i",
    "for one, two in zip(field, field): total = one + two",
    "while step < 3: step += 1; total = total + field[step]",
    "total = 1 if plain.done or plain.count else 2",
    "if plain.limit > 3 and not plain.part: plain.count += 1",
    "total = numbers and 1",
    "total, step = step, total; step = step + 1",
    "last = total; total = last + 1",
    "plain.count = total = step; step = plain.count + 1",
    "if box is None: total = box.size + 1",
    "kept = box; total = 3",
]
WATCHED = [
    "if box: pass",
    "total = 1 if plain.box else 2",
    "total = used[0] + 1",
    "other = used; total = other[0] + 1",
    "total = (numbers if step else box) and 1",
    "total = list(numbers)",
    "numbers[0] += 1",
    "with open(__file__): pass",
]


@pytest.mark.parametrize(
    ("line", "is_known"), [*((line, True) for line in KNOWN), *((line, False) for line in WATCHED)]
)
def test_lines_are_told_of_where_they_must_be(tmp_path: Path, monkeypatch, line: str, is_known: bool):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("LINE", line))
    before = PROGRAM[: PROGRAM.index("LINE")].count("\n")
    known = {}

    def needs_no_watch(code, frame, *told):
        known[frame.f_lineno] = needs_none(code, frame, *told)
        return known[frame.f_lineno]

    needs_none = WatchedCode.needs_no_watch
    monkeypatch.setattr(WatchedCode, "needs_no_watch", needs_no_watch)
    simulate(path, ranks=2, check=True)
    assert known[before] == is_known


def test_what_touches_nothing_a_number_of_times_is_believed(tmp_path: Path, monkeypatch):
    path = tmp_path / "program.py"
    body = "    for step in range(9):\n        comm.Get_rank(); total = field[step % 4]\n"
    path.write_text(PROGRAM.replace("    comm.Get_rank()\n    LINE\n", body))
    looked = []

    def near(ahead, scope, guards):
        looked.append(ahead)
        return find(ahead, scope, guards)

    find = CodeAhead.near
    monkeypatch.setattr(CodeAhead, "near", near)
    monkeypatch.setattr(touches, "MOST_LOOKS", 5)
    simulate(path, ranks=2, check=True)
    assert len(looked) == 5
