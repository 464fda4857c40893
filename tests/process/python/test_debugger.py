"""``pdb`` works in a rank, with commands on standard input, and sees only that rank."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cases import ROOT
from tests.process.launch import PRELUDE, write
from tests.warm import client

TEXT = """
import helper
def work(x):
    y = x + 1
    if rank in {stop}:
        breakpoint()
    z = comm.allreduce(y)
    w = z * 2
    return w
print("rank", rank, work(rank))
"""
FIRST = len(PRELUDE.splitlines()) + 1

# Since Python 3.13 the debugger asks first at the call of breakpoint(), and not at the line after it.
ASKS_AT_CALL = sys.version_info >= (3, 13)
ON, AT = ["n"] * ASKS_AT_CALL, [5] * ASKS_AT_CALL


@dataclass(frozen=True)
class Session:
    lines: list[str]
    err: str
    status: int


@pytest.fixture
def debug(tmp_path: Path) -> Callable[..., Session]:
    """Run in a process of its own: pytest has a debugger, too."""

    def run(commands: list[str], *, stop: tuple[int, ...]) -> Session:
        write(tmp_path, {"prog.py": PRELUDE + TEXT.format(stop=stop), "helper.py": ""})
        done = subprocess.run(
            [sys.executable, "-ISc", client(), "run", "-n", "3", "--quiet", "prog.py"],
            input="".join(f"{command}\n" for command in commands),
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONBREAKPOINT": ""},
            capture_output=True,
            text=True,
            timeout=300,
        )
        return Session(done.stdout.splitlines(), done.stderr, done.returncode)

    return run


def stops(done: Session) -> list[int]:
    """The lines of the program at which the debugger asked."""
    places = [line for line in done.lines if line.startswith(("> ", "(Pdb) > "))]
    assert all("prog.py(" in place for place in places)
    return [int(place.split("prog.py(")[1].split(")")[0]) - FIRST for place in places]


def test_stepping_over_a_blocking_call(debug: Callable[..., Session]):
    done = debug([*ON, "p rank, y", "n", "p z", "n", "p w", "c"], stop=(1,))
    assert stops(done) == [*AT, 6, 7, 8]
    assert "(Pdb) (1, 2)" in done.lines
    assert "(Pdb) 6" in done.lines
    assert "(Pdb) 12" in done.lines
    assert [line for line in done.lines if "rank" in line] == ["(Pdb) rank 0 12", "(Pdb) rank 1 12", "rank 2 12"]
    assert done.status == 0


def test_stepping_goes_over_mpi_calls_as_over_compiled_code(debug: Callable[..., Session]):
    done = debug([*ON, "s", "s", "s", "c"], stop=(1,))
    assert stops(done) == [*AT, 6, 7, 8, 8]


def test_the_stack_is_the_program_s(debug: Callable[..., Session]):
    done = debug(["w", "up", "p x if 'x' in locals() else 'top'", "c"], stop=(2,))
    assert not [line for line in done.lines if "xsim_py" in line]
    assert "(Pdb) 'top'" in done.lines


def test_breakpoints_are_those_of_one_rank(debug: Callable[..., Session]):
    done = debug([*ON, f"b {FIRST + 8}", "c", "p rank, w", "c"], stop=(1,))
    assert stops(done) == [*AT, 6, 8]
    assert "(Pdb) (1, 12)" in done.lines


def test_each_rank_may_have_its_debugger(debug: Callable[..., Session]):
    commands = [*ON, "n"] * 3 + ["n", "p ('w', rank, w)", "c"] * 3
    done = debug(commands, stop=(0, 1, 2))
    assert stops(done) == [*AT, 6] * 3 + [7, 8] * 3
    assert [line for line in done.lines if "'w'" in line] == [f"(Pdb) ('w', {rank}, 12)" for rank in range(3)]


def test_quitting_ends_the_job(debug: Callable[..., Session]):
    done = debug(["q"], stop=(1,))
    assert done.status == 1
    assert "\nbdb.BdbQuit\n" in done.err
    assert "xsim_py" not in done.err
