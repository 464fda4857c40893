"""What the parent of a simulating process does where Python cannot."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cases import ROOT
from xsim_py import vitals
from xsim_py.cli import guard

START = (
    "import sys, ctypes; sys.argv[0] = 'xsim'; from xsim_py import vitals; vitals.GRACE_S = 0.5;"
    "from xsim_py.cli import command; command()"
)
FOR_EVER = "if rank == 1: sum(itertools.repeat(0))"
KEEP = "unwritten output is lost; use --isolation process to keep it and the other ranks"
CASES = {
    "a call that does not come back": (
        ["--wall-limit", "2s"],
        FOR_EVER,
        4,
        "the wall limit was reached, and rank 1",
    ),
    "Ctrl-C in such a call": ([], FOR_EVER, 130, "interrupted, and rank 1 is in a call that does not come back"),
    "segmentation fault": ([], "if rank == 1: ctypes.string_at(0)", 139, f"rank 1 was killed by SIGSEGV; {KEEP}"),
    "_exit of the C library": ([], "if rank == 1: ctypes.CDLL(None)._exit(0)", 1, "rank 1 exited the process"),
    "exit of the C library": ([], "if rank == 1: ctypes.CDLL(None).exit(0)", 1, "rank 1 ended this process at 0 s"),
    "terminated": ([], "open('there', 'w').close()\nwhile True: pass", -signal.SIGTERM, ""),
}
PROGRAM = """\
import ctypes, itertools
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
open(f"started-{rank}", "w").close()
"""


def begin(folder: Path, words: list[str], text: str) -> subprocess.Popen[str]:
    folder.mkdir()
    (folder / "prog.py").write_text(PROGRAM + text + "\nMPI.COMM_WORLD.Barrier()\n")
    line = [sys.executable, "-c", START, "run", "-n", "2", "--quiet", *words, "prog.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(line, cwd=folder, env=environment, text=True, start_new_session=True, **pipes)


def send(process: subprocess.Popen[str], number: int, started: Path) -> None:
    """A signal to the parent only, as soon as the program runs."""
    while not started.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, str]]:
    """Status and output of all cases, which run at the same time: they wait more than they compute."""
    folder = tmp_path_factory.mktemp("guard")
    processes = {name: begin(folder / str(n), *case[:2]) for n, (name, case) in enumerate(CASES.items())}
    for n, name in enumerate(CASES):
        if name.startswith("Ctrl-C"):
            send(processes[name], signal.SIGINT, folder / str(n) / "started-1")
        if name == "terminated":
            send(processes[name], signal.SIGTERM, folder / str(n) / "there")
    said = {name: process.communicate(timeout=60) for name, process in processes.items()}
    return {name: (process.returncode, *said[name]) for name, process in processes.items()}


@pytest.mark.parametrize(("name", "case"), CASES.items(), ids=list(CASES))
def test_a_rank_that_cannot_be_ended_by_python_ends_the_run_with_its_line(name: str, case, ended):
    _, text, status, said = case
    code, out, err = ended[name]
    assert (code, out) == (status, "")
    first, *places = err.splitlines() or [""]
    assert first.startswith(said and f"xsim: {said}")
    # Where nothing of C is told, there is no line.
    assert places == ([f"    prog.py:5 in <module>: {text}"] if said and "_exit" not in name else [])


def test_a_stack_that_comes_in_pieces_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch):
    fiber = Path(vitals.__file__).parent / "process" / "ranks" / "fiber.py"
    stack = f'Stack (most recent call first):\n  File "prog.py", line 4 in f\n  File "{fiber}", line 200 in _serve\n'
    pieces = [stack[at : at + 7].encode() for at in range(0, len(stack), 7)]
    reader, writer = os.pipe()

    def select(readers: list[int], *_: object) -> tuple[list[int], list[int], list[int]]:
        if not pieces:
            return [], [], []
        os.write(writer, pieces.pop(0))
        return readers, [], []

    monkeypatch.setattr(guard, "select", SimpleNamespace(select=select))
    assert vitals.frames(guard._read(reader, 60)) == [vitals.Frame("prog.py", 4, "f")]
    pieces.append(b"and more")
    assert "and more" in guard._read(reader, 0)
    os.close(writer)
    os.close(reader)


def test_a_child_does_not_outlive_its_parent(tmp_path: Path):
    process = begin(tmp_path / "run", [], FOR_EVER)
    send(process, signal.SIGKILL, tmp_path / "run" / "started-1")
    assert process.communicate(timeout=60) == ("", "")  # which waits until nobody has these pipes


def test_processes_of_ranks_do_not_outlive_the_one_that_coordinates_them(tmp_path: Path):
    process = begin(tmp_path / "run", ["--isolation", "process"], FOR_EVER)
    send(process, signal.SIGKILL, tmp_path / "run" / "started-1")
    assert process.communicate(timeout=60) == ("", "")


LEAVING = """
import subprocess
if rank == 1:
    started = [subprocess.Popen(["sleep", "60"], process_group=group, stdout=-3, stderr=-3) for group in (None, 0)]
    open("children", "w").write(" ".join(str(process.pid) for process in started))
    ctypes.CDLL(None)._exit(3)
"""


@pytest.mark.parametrize("words", [[], ["--isolation", "process"]], ids=["greenlets", "process"])
def test_children_of_ranks_end_with_the_run_unless_they_have_a_group_of_their_own(tmp_path: Path, words: list[str]):
    process = begin(tmp_path / "run", words, LEAVING)
    process.communicate()
    child, daemon = map(int, (tmp_path / "run" / "children").read_text().split())
    os.kill(daemon, signal.SIGKILL)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert process.returncode == 3
