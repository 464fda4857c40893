"""Worker processes: who dies is known, the others go on, and nobody is left."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from types import ModuleType

import pytest

from tests.real_mpi import MPIEXEC, mpiexec
from xsim_py import vitals
from xsim_py.study import run_study
from xsim_py.study.task import StudyTask
from xsim_py.study.workers import do_in_executor, do_in_workers, mpi_executor

ROOT = Path(__file__).parents[2]


def task(code: str) -> StudyTask:
    return StudyTask({"program": code, "kind": "code", "ranks": 1}, {"pid": ("pid (.*)", "last")}, None)


TELL = "import os; print('pid', os.popen('echo $PPID').read())"
SEGFAULT = "import ctypes; ctypes.string_at(0)"
START_A_THREAD = "import threading; threading.Thread(target=threading.Event().wait).start()"
LEAVE_A_THREAD = f"exec({START_A_THREAD!r}, dict(__name__='multiprocessing.test')); {TELL}"  # a real one


def children() -> set[str]:
    return set(Path(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/children").read_text().split())


def test_workers_do_one_task_after_the_other():
    before = children()
    outcomes = dict(do_in_workers([task(TELL) for _ in range(6)], 2))
    assert sorted(outcomes) == list(range(6))
    assert {outcome["ended"] for outcome in outcomes.values()} == {"finished"}
    assert 1 <= len({outcome["captured"]["pid"] for outcome in outcomes.values()}) <= 2
    assert children() <= before  # an earlier test may have left one behind that has ended since


def test_the_run_of_a_worker_that_dies_is_the_one_to_blame_and_one_with_threads_left_behind_does_no_other_run():
    codes = (TELL, SEGFAULT, TELL, LEAVE_A_THREAD, TELL)
    outcomes = dict(do_in_workers([task(code) for code in codes], 1))
    assert [outcomes[number]["ended"] for number in range(4)] == ["finished", "crashed", "finished", "finished"]
    assert outcomes[1]["exit_status"] == 128 + signal.SIGSEGV
    assert outcomes[1]["said"] == "the worker process was killed by SIGSEGV in rank 0\n    <string>:1 in <module>"
    pids = [outcomes[number]["captured"]["pid"] for number in (0, 2, 3, 4)]
    assert pids[0] != pids[1] == pids[2] != pids[3]


def test_a_run_that_ends_its_worker_or_cannot_be_ended_is_told_with_its_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vitals, "GRACE_S", 0.5)
    tasks = [
        task("import ctypes; ctypes.CDLL(None).exit(0)"),
        task("import itertools; sum(itertools.repeat(0))"),
    ]
    enough_to_begin = {"wall_limit": "1s"}  # also on a busy machine
    tasks[1] = tasks[1]._replace(arguments={**tasks[1].arguments, **enough_to_begin})
    exited, stuck = (outcome for _, outcome in sorted(do_in_workers(tasks, 2), key=itemgetter(0)))
    assert (exited["ended"], exited["exit_status"]) == ("crashed", 1)
    assert exited["said"].splitlines()[1:] == [
        "xsim: rank 0 ended this process at 0 s, and all ranks with it: exit() of the C library",
        "    <string>:1 in <module>",
    ]
    assert (stuck["ended"], stuck["exit_status"]) == ("wall limit", 4)
    assert stuck["said"].splitlines() == [
        "the wall limit was reached, and rank 0 is in a call that does not come back",
        "    <string>:1 in <module>",
    ]


def test_a_worker_that_keeps_much_memory_does_no_other_run():
    kept = f"kept = b'x' * {420 << 20}; ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))"  # nobody frees it
    keep = f"import ctypes; {kept}; {TELL}"
    outcomes = dict(do_in_workers([task(keep), task(TELL)], 1))
    assert outcomes[0]["captured"]["pid"] != outcomes[1]["captured"]["pid"]


def test_closing_ends_workers_whatever_they_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    before = children()
    with closing(do_in_workers([task(TELL), task("while True: pass")], 2)) as outcomes:
        assert next(outcomes)[0] == 0
        assert children() != before
    assert children() <= before  # an earlier test may have left one behind that has ended since
    assert [*tmp_path.iterdir()] == []


def test_without_tasks_there_are_no_workers():
    assert not list(do_in_workers([], 2))


def test_workers_and_their_folders_go_when_the_process_that_started_them_is_killed(tmp_path: Path):
    (temporary := tmp_path / "temporary").mkdir()
    os.mkfifo(began := tmp_path / "began")
    program = f"open('left', 'w').close(); open({str(began)!r}, 'w').close()\nwhile True: pass"
    code = (
        "from tests.study.test_workers import children, do_in_workers, task\n"
        f"work = do_in_workers([task('pass'), task({program!r})], 2)\n"
        "next(work); print(*children(), flush=True); next(work)\n"
    )
    environment = {**os.environ, "TMPDIR": str(temporary)}
    line = [sys.executable, "-c", code]
    caller = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    assert caller.stdout is not None
    workers = caller.stdout.readline().split()
    assert len(workers) == 2
    assert began.read_text() == ""
    assert [*temporary.glob("*/left")] != []
    handles = [os.pidfd_open(int(pid)) for pid in workers]
    caller.kill()
    caller.wait()
    caller.stdout.close()
    for handle in handles:
        poll = select.poll()
        poll.register(handle)
        assert poll.poll(20_000)
        os.close(handle)
    assert [*temporary.iterdir()] == []


def test_any_executor_can_do_the_work():
    with ThreadPoolExecutor(1) as executor:
        outcomes = dict(do_in_executor([task("pass"), task("1/0")], executor))
    assert [outcomes[number]["ended"] for number in range(2)] == ["finished", "aborted"]


def test_a_worker_of_an_executor_that_fails_is_an_outcome():
    class Failing(ThreadPoolExecutor):
        def submit(self, *_):
            return super().submit(lambda: 1 / 0)

    with Failing(1) as executor:
        ((number, outcome),) = do_in_executor([task("pass")], executor)
    assert (number, outcome["ended"], outcome["said"]) == (0, "crashed", "ZeroDivisionError: division by zero")


@pytest.mark.parametrize("ranks", ["", "1"])
def test_futures_without_other_ranks_take_nobody_away(ranks: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mpi4py.futures", ModuleType("mpi4py.futures"))
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "PMIX_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PMI_SIZE", ranks)
    with mpi_executor(None) as executor:
        assert executor is None  # worker processes, one a core


if MPIEXEC.exists():

    def test_ranks_of_a_real_mpi_do_the_runs_of_a_study(tmp_path: Path):
        (tmp_path / "program.py").write_text(
            "import os, sys\nfrom mpi4py import MPI\n"
            "print('sum', MPI.COMM_WORLD.allreduce(int(sys.argv[1])))\nprint('by', os.readlink('/proc/self'))"
        )
        study = {
            "name": "shared",
            "program": str(tmp_path / "program.py"),
            "args": ["{mine}"],
            "ranks": 6,
            "sweep": {"mine": [1, 2, 3, 4]},
            "capture": {"total": "sum (.*)", "by": "by (.*)"},
        }
        (tmp_path / "study.yaml").write_text(json.dumps(study))
        command = ["-m", "mpi4py.futures", "-m", "xsim_py", "study", "--quiet", "--out"]
        done = mpiexec(3, *command, str(tmp_path / "mpi"), str(tmp_path / "study.yaml"))
        assert (done.returncode, done.stderr) == (0, "")
        told = run_study(study, out=tmp_path / "mpi", jobs=1).runs
        assert told["total"] == [6, 12, 18, 24]
        assert len(set(told["by"])) <= 2  # processes: rank 0 only hands them out
