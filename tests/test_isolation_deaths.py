"""How a rank ends that is a process: by a signal, by compiled code, by what it does to its process."""

import ctypes
import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xsim_py import isolation, simulate, vitals
from xsim_py.report import Result

C = ctypes.CDLL(None)


def raised(number: int) -> None:
    C.kill(C.getpid(), number)


def play(act: Callable[[], Any]) -> int:
    """Rank 1 does this after a barrier, and then all meet again: how many that were."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    try:
        comm.Barrier()
        if comm.rank == 1:
            print("here", end="")
            act()
        comm.Barrier()
    except MPI.Exception:
        comm = comm.Shrink()
    return int(comm.allreduce(1))


def run(act: Callable[[], Any], how: str = "process", **options: Any) -> Result:
    return simulate(play, ranks=3, args=[act], isolation=how, **options)


def segmentation_fault() -> None:
    ctypes.string_at(0)


def of_c() -> None:
    C.exit(0)


def placed(function: Callable[[], Any], text: str) -> str:
    return f"(tests/test_isolation_deaths.py:{function.__code__.co_firstlineno + 1} in {function.__name__}: {text})"


ENDINGS = {
    "SIGKILL": (lambda: raised(9), 137, "its process was killed by SIGKILL, possibly out of memory", True),
    "SIGTERM": (lambda: raised(15), 143, "its process was killed by SIGTERM", True),
    "SIGSEGV that was sent": (lambda: raised(11), 139, "its process was killed by SIGSEGV", True),
    "segmentation fault": (
        segmentation_fault,
        139,
        f"its process was killed by SIGSEGV {placed(segmentation_fault, 'ctypes.string_at(0)')}",
        False,
    ),
    "exit of the C library": (
        of_c,
        1,
        f"exit() of the C library {placed(of_c, 'C.exit(0)')}",
        False,
    ),
    "_exit of the C library": (lambda: C._exit(0), 1, "its process has exited with status 0, bypassing Python", False),
    "another program": (
        lambda: C.execl(b"/bin/sh", b"sh", b"-c", b"exit 3", None),
        3,
        "its process has exited with status 3, bypassing Python",
        False,
    ),
    "descriptors": (
        lambda: os.closerange(3, 4096),
        1,
        f"its process {isolation._CUT_OFF}",
        False,
    ),
}


UNCOUNTED = "are missing from the counts: they are lost with the process"


@pytest.mark.sampled
@pytest.mark.parametrize("name", ENDINGS)
def test_a_rank_whose_process_ends_has_failed_with_its_line(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(Path(__file__).parents[1])
    act, status, cause, outside = ENDINGS[name]
    result = run(act)
    assert (result.ended, result.exit_status) == ("aborted", status)
    ((rank, time_s, said),) = [(f["rank"], f["time_s"], f["cause"]) for f in result.failures]
    assert (rank, said) == (1, cause)
    assert time_s < 100e-6  # in which the first barrier ends
    assert result.report.startswith("rank 1 ended the job at ")
    said = cause.removeprefix("its process ")
    killed = [f"a process {said} (rank 1): this run is not reproducible"] * outside
    assert result.warnings == [*killed, f"messages and calls of rank 1 {UNCOUNTED}"]


def test_the_signal_of_a_crash_that_was_sent_is_no_fault_of_the_rank_whose_turn_it_was():
    result = run(lambda: raised(11), "process:3")
    assert [(f["rank"], f["cause"]) for f in result.failures] == [
        (n, "its process was killed by SIGSEGV") for n in range(3)
    ]
    said = "a process was killed by SIGSEGV (ranks 0-2): this run is not reproducible"
    assert result.warnings == [said, f"messages and calls of ranks 0-2 {UNCOUNTED}"]


def test_what_it_has_printed_before_is_shown(capsys: pytest.CaptureFixture[str]):
    def prints() -> None:
        print(" and")
        print("there", end="", flush=True)
        segmentation_fault()

    run(prints)
    assert capsys.readouterr().out == "here and\nthere"


def test_others_survive_it_and_a_rank_in_the_same_process_does_not():
    result = run(segmentation_fault, ft=True)
    assert (result.ended, result.values) == ("finished", [2, None, 2])
    again = run(segmentation_fault, ft=True, collectives="arrays")
    assert again.digest == result.digest
    together = run(segmentation_fault, "process:2", ft=True)
    assert together.values == [None, None, 1]
    causes = [failure["cause"].partition(" (")[0] for failure in together.failures]
    assert causes == ["its process was killed by SIGSEGV in rank 1", "its process was killed by SIGSEGV"]


LINKS = {"network.contention": "links"}
FLOWS = {"network.contention": "flows"}
STORAGE = {"storage.latency": "3us"}


def go_on(folder: str) -> tuple[bool, bytes, list[str]]:
    """Rank 1 dies within an epoch, with a file open; the others go on with its window and the file, and start more."""
    import sys

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    window = MPI.Win.Allocate(8, comm=comm)
    file = open(f"{folder}/common", "ab", buffering=0)  # noqa: SIM115 - closed by hand
    comm.Barrier()
    if comm.rank == 1:
        segmentation_fault()
    failed = False
    try:
        for _ in range(100):
            window.Lock(1)
            window.Put(b"12345678", 1)
            window.Unlock(1)
    except MPI.Exception:
        failed = True
    file.write(b"x")
    file.close()
    comm = comm.Shrink()
    more = "from mpi4py import MPI; import os; MPI.Comm.Get_parent().gather(os.readlink('/proc/self'), 0)"
    inter = comm.Spawn(sys.executable, ["-c", more], 3)
    homes = inter.gather(None, MPI.PROC_NULL if comm.rank else MPI.ROOT)
    with open(f"{folder}/common", "rb") as again:
        return failed, again.read(), homes


@pytest.mark.parametrize("overrides", [{}, LINKS, FLOWS, STORAGE], ids=["plain", "links", "flows", "storage"])
def test_others_go_on_with_windows_files_and_places_of_the_dead(tmp_path: Path, overrides: dict[str, str]):
    options: dict[str, Any] = {"ranks": 3, "args": [str(tmp_path)], "isolation": "process", "ft": True}
    result = simulate(go_on, set=overrides, **options)
    assert result.ended == "finished"
    assert [value and value[:2] for value in result.values[:3]] == [(True, b"xx"), None, (True, b"xx")]
    assert len(result.values[0][2]) == 3
    assert str(os.getpid()) not in result.values[0][2]


def test_ranks_begin_once_where_a_process_dies_while_they_are_started():
    def starts() -> None:
        import sys
        import time

        from mpi4py import MPI

        if MPI.COMM_WORLD.rank == 0:
            for _ in range(2):
                MPI.COMM_SELF.Spawn(sys.executable, ["-c", "import mpi4py.MPI"], 2)
        else:
            time.sleep(1e-3)
            segmentation_fault()

    result = simulate(starts, ranks=2, isolation="process", ft=True)
    assert (result.ended, len(result.tables["ranks"].columns["rank"])) == ("finished", 6)


def test_a_job_that_is_started_again_finds_its_files(tmp_path: Path):
    def twice(folder: str) -> str:
        from mpi4py import MPI

        MPI.COMM_WORLD.Barrier()
        with open(f"{folder}/{MPI.COMM_WORLD.rank}", "a") as file:
            file.write("x")
        MPI.COMM_WORLD.Barrier()
        if MPI.COMM_WORLD.rank == 1:
            with open(f"{folder}/{MPI.COMM_WORLD.rank}") as file:
                if file.read() == "x":
                    segmentation_fault()
        MPI.COMM_WORLD.Barrier()
        with open(f"{folder}/1") as file:
            return file.read()

    options: dict[str, Any] = {"args": [str(tmp_path)], "restart": "on-abort", "isolation": "process"}
    result = simulate(twice, ranks=2, set=STORAGE, **options)
    assert (result.restarts, result.values) == (1, ["xx", "xx"])


@pytest.mark.parametrize(
    "act", [lambda: os._exit(3), lambda: os.abort(), lambda: 1 / 0], ids=["exit", "abort", "error"]
)
def test_an_end_that_python_knows_of_is_that_of_a_greenlet(act: Callable[[], Any], capsys: pytest.CaptureFixture[str]):
    one, other = (run(act, how) for how in ("greenlets", "process"))
    assert (one.digest, one.report, one.warnings) == (other.digest, other.report, other.warnings)


def test_a_job_that_real_deaths_have_ended_is_started_again_in_new_processes(tmp_path: Path):
    def once() -> None:
        if not list(tmp_path.iterdir()):
            (tmp_path / "died").touch()
            raised(9)

    result = run(once, restart="on-abort")
    assert (result.ended, result.restarts, result.values) == ("finished", 1, [3, 3, 3])
    assert len(result.warnings) == 2


@pytest.mark.sampled
@pytest.mark.parametrize("act", [lambda: sum(itertools.repeat(0)), lambda: raised(19)], ids=["computes", "stopped"])
def test_a_process_that_cannot_be_told_to_stop_is_ended_and_the_others_say_where_they_are(
    act: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(vitals, "GRACE_S", vitals.TICK_S)
    result = run(act, wall_limit=1.2)
    assert (result.ended, result.exit_status) == ("wall limit", 4)
    assert result.warnings == [f"messages and calls of rank 1 {UNCOUNTED}"]
    assert "0 of 3 ranks have ended" in result.report
    assert "comm.Barrier()\n      ranks 0, 2 at" in result.report
    assert ("stopped by a signal" if "raised" in act.__code__.co_names else "a call that does not come back") in (
        result.report
    )


def test_a_run_in_a_thread_has_processes_that_no_signal_of_this_one_reaches():
    found: list[Result] = []
    thread = threading.Thread(target=lambda: found.append(run(lambda: sum(range(10_000_000)))))
    thread.start()
    thread.join()
    assert (found[0].ended, found[0].values) == ("finished", [3, 3, 3])
