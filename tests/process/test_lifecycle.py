"""How virtual processes end: what is said, what still runs, and what becomes of the others."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from tests.process.launch import Launched, launch

SHARDS = pytest.mark.parametrize("shards", [1, 2])


def test_returning_is_status_zero_after_atexit_last_first(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import atexit
        atexit.register(print, "first", rank)
        @atexit.register
        def second():
            print("second", rank)
            atexit.register(print, "registered late", rank)
        atexit.register(print, "never")
        atexit.unregister(print)
        atexit.register(print, "third", rank)
        print("body", rank)
        """,
        ranks=2,
    )
    assert done.lines == [
        f"{word} {rank}" for rank in (0, 1) for word in ("body", "third", "second", "registered late")
    ]
    assert (done.result.ended, done.result.exit_status) == ("finished", 0)


@pytest.mark.parametrize(
    ("call", "status", "said"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(0)", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("sys.exit(-1)", 255, ""),
        ("sys.exit('no more')", 1, "no more\n"),
        ("exit(3)", 3, ""),
        ("raise SystemExit(4)", 4, ""),
    ],
)
def test_exit_ends_one_rank_with_its_status(tmp_path: Path, call: str, status: int, said: str):
    done = launch(
        tmp_path,
        f"""
        import atexit, sys
        atexit.register(print, "atexit")
        if rank == 1:
            try:
                {call}
            finally:
                print("finally")
            print("not reached")
        comm.Get_name()
        """,
        ranks=3,
    )
    assert done.lines == ["atexit", "finally", "atexit", "atexit"]
    assert done.err == said
    assert (done.result.ended, done.result.exit_status) == ("finished", status)


def test_the_first_bad_status_in_virtual_time_is_the_run_s(tmp_path: Path):
    done = launch(tmp_path, "import sys, time; time.sleep(5 - rank); sys.exit(rank)", ranks=4)
    assert done.result.exit_status == 3


@SHARDS
def test_an_uncaught_exception_is_shown_as_by_python_and_ends_the_job(tmp_path: Path, shards: int):
    done = launch(
        tmp_path,
        """
        import atexit, time
        atexit.register(print, "atexit", rank)
        def fail():
            raise ValueError("wrong")
        if rank == 1:
            print("before")
            fail()
        time.sleep(1)
        print("too late")
        """,
        ranks=3,
        shards=shards,
    )
    program = tmp_path / "prog.py"
    marks = "~^ \n"  # below a call, since Python 3.13
    assert "".join(line for line in done.err.splitlines(keepends=True) if line.strip(marks)) == (
        "Traceback (most recent call last):\n"
        f'  File "{program}", line 11, in <module>\n'
        "    fail()\n"
        f'  File "{program}", line 8, in fail\n'
        '    raise ValueError("wrong")\n'
        "ValueError: wrong\n"
    )
    assert done.lines == ["before", "atexit 1"]
    assert (done.result.ended, done.result.exit_status) == ("aborted", 1)
    assert done.result.report == "rank 1 ended the job at 0 s: ValueError: wrong"


def test_tracebacks_have_no_frames_of_the_simulator(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import helper
        try:
            helper.send(comm)
        except MPI.Exception as error:
            raise RuntimeError("sending failed") from error
        """,
        files={"helper.py": "import second\ndef send(comm):\n    comm.send(1, dest=99)\n", "second.py": "import json"},
    )
    assert "xsim_py" not in done.err
    assert "importlib" not in done.err
    assert done.err.count("  File ") == 3
    assert "helper.send(comm)" in done.err
    assert "MPI_ERR_RANK" in done.err


def test_an_exception_while_a_module_is_imported_shows_the_module(tmp_path: Path):
    done = launch(tmp_path, "import helper", files={"helper.py": "def f():\n    return 1 / 0\n\nf()\n"})
    places = [line.strip() for line in done.err.splitlines() if line.startswith("  File")]
    assert places == [
        f'File "{tmp_path / "prog.py"}", line 4, in <module>',
        f'File "{tmp_path / "helper.py"}", line 4, in <module>',
        f'File "{tmp_path / "helper.py"}", line 2, in f',
    ]


def test_a_module_that_does_not_exist_is_python_s_error(tmp_path: Path):
    done = launch(tmp_path, "import no_such_module")
    assert done.err.splitlines()[-1] == "ModuleNotFoundError: No module named 'no_such_module'"
    assert len(done.err.splitlines()) == 4
    assert done.result.exit_status == 1


def test_a_hook_for_exceptions_is_called_in_its_own_rank(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import sys
        def hook(kind, error, traceback):
            print("hook", rank, kind.__name__, error, traceback.tb_lineno)
            comm.Abort(17 + rank)
        sys.excepthook = hook
        comm.Barrier()
        if rank == 1:
            raise KeyError("k")
        comm.Barrier()
        """,
        ranks=3,
    )
    assert done.lines == ["hook 1 KeyError 'k' 12"]
    assert done.err == ""
    assert (done.result.ended, done.result.exit_status) == ("aborted", 18)


def test_a_hook_that_fails_hides_nothing(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import sys
        def hook(*_):
            raise TypeError("in the hook")
        sys.excepthook = hook
        raise ValueError("wrong")
        """,
    )
    assert "TypeError: in the hook" in done.err
    assert done.err.splitlines()[-1] == "ValueError: wrong"


DEATHS = {
    "_exit": ("os._exit(9)", 9),
    "kill": ("os.kill(os.getpid(), signal.SIGKILL)", 137),
    "raise_signal": ("signal.raise_signal(signal.SIGTERM)", 143),
    "abort": ("os.abort()", 134),
    "Abort": ("comm.Abort(5)", 5),
}


def die(tmp_path: Path, call: str, *, shards: int) -> Launched:
    return launch(
        tmp_path,
        f"""
        import atexit, os, signal, time, helper
        atexit.register(print, "atexit", rank)
        class Noisy:
            def __del__(self):
                print("freed", rank)
        helper.noisy = kept = Noisy()
        def last():
            local = Noisy()
            try:
                print("alive", rank)
                {call}
                print("not reached")
            except BaseException:
                print("caught")
            finally:
                print("finally")
        time.sleep(1)
        if rank == 2:
            last()
        request = comm.irecv(source=2)
        time.sleep(1)
        print("too late", rank)
        """,
        ranks=4,
        shards=shards,
        files={"helper.py": ""},
    )


@SHARDS
@pytest.mark.parametrize(("call", "status"), DEATHS.values(), ids=list(DEATHS))
def test_a_dead_rank_runs_nothing_and_takes_the_job_with_it(
    tmp_path: Path, call: str, status: int, shards: int, capfd: pytest.CaptureFixture[str]
):
    done = die(tmp_path, call, shards=shards)
    assert done.out == "alive 2\n"
    assert done.err == ""
    assert (done.result.ended, done.result.exit_status) == ("aborted", status)
    assert done.result.report.startswith("rank 2 ended the job at 1 s: ")
    assert done.result.virtual_time_s == pytest.approx(1 + 10e-6, abs=11e-6)
    assert capfd.readouterr() == ("", "")


def test_what_was_printed_before_the_signal_arrives_is_shown(tmp_path: Path):
    """The launcher needs one latency to end the others; nothing is known before it can be."""
    done = launch(
        tmp_path,
        """
        import time
        if rank == 0:
            comm.Abort(1)
        for step in range(100):
            time.sleep(1e-6)
            print(step)
        """,
        ranks=2,
    )
    assert 5 <= len(done.lines) <= 20


def test_process_ids_differ_and_others_cannot_be_killed(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import os, signal
        os.kill(os.getpid(), 0)
        pids = comm.allgather(os.getpid())
        print(len(set(pids)), os.getpid() == pids[rank])
        try:
            os.kill(os.getppid(), signal.SIGTERM)
        except PermissionError as error:
            print(error.strerror)
        """,
        ranks=3,
    )
    assert done.lines.count("3 True") == 3
    assert "itself and its children only" in done.lines[1]
    assert os.getppid() > 0


@pytest.mark.parametrize("call", ["alarm(1)", "setitimer(signal.ITIMER_REAL, 1)"])
def test_a_timer_that_sends_a_signal_is_refused_with_what_to_use(tmp_path: Path, call: str):
    done = launch(tmp_path, f"import signal; signal.{call}")
    name = call.partition("(")[0]
    said = f"NotImplementedError: signal.{name} is not simulated; use threading.Timer, which runs in virtual time"
    assert said in done.err


def test_signals_have_handlers_for_each_rank(tmp_path: Path):
    before = signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGINT)
    done = launch(
        tmp_path,
        """
        import os, signal
        assert signal.signal(signal.SIGUSR1, lambda number, frame: print("got", number == signal.SIGUSR1, rank)) == 0
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        comm.Barrier()
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGCHLD)
        comm.Barrier()
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            print("interrupted", rank, signal.getsignal(signal.SIGTERM) == signal.SIG_IGN)
        """,
        ranks=2,
    )
    assert sorted(done.lines) == ["got True 0", "got True 1", "interrupted 0 True", "interrupted 1 True"]
    assert (signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGINT)) == before


def test_errors_in_atexit_functions_are_shown_and_do_not_stop_the_others(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import atexit
        atexit.register(print, "still")
        atexit.register(lambda: 1 / 0)
        """,
    )
    assert done.out == "still\n"
    assert done.err.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert done.result.exit_status == 0


def test_a_traceback_comes_before_atexit(tmp_path: Path):
    done = launch(tmp_path, "import atexit, sys; atexit.register(print, 'atexit', file=sys.stderr); 1 / 0")
    assert done.err.splitlines()[-2:] == ["ZeroDivisionError: division by zero", "atexit"]


def test_an_interrupt_of_its_own_is_130(tmp_path: Path):
    assert launch(tmp_path, "raise KeyboardInterrupt").result.exit_status == 130


def test_children_are_real_processes(tmp_path: Path):
    before = multiprocessing.active_children()  # what the module keeps of its children outlives the run
    done = launch(
        tmp_path,
        """
        import multiprocessing, os, subprocess, sys, time
        def square(x):
            return x * x, time.time() > 1_700_000_000
        with multiprocessing.get_context("fork").Pool(1) as pool:
            print(rank, pool.map(square, [1, 2]))
        print(os.getpid() == multiprocessing.current_process().pid == 10_000 + rank)
        child = os.fork()
        if child == 0:
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        child = os.fork()
        if child == 0:
            try:
                comm.Barrier()
            except Exception as error:
                os._exit(8 if "has forked is a real one" in str(error) and error.__context__ is None else 9)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        line = [sys.executable, "-c", "print('child')"]
        print(subprocess.run(line, capture_output=True, text=True, timeout=300).stdout.strip())
        """,
        ranks=2,
    )
    assert done.err == ""
    squares = ["0 [(1, True), (4, True)]", "1 [(1, True), (4, True)]"]
    assert sorted(done.lines) == [*squares, "7", "7", "8", "8", "True", "True", "child", "child"]
    assert multiprocessing.active_children() == before


@pytest.mark.parametrize(
    ("call", "ended", "status"),
    [
        ("sys.exit(5)", "finished", 5),
        ("comm.Abort(6)", "aborted", 6),
        ("os._exit(7)", "aborted", 7),
        ("raise ValueError", "aborted", 1),
    ],
)
def test_ends_inside_a_non_blocking_collective_are_those_of_the_rank(
    tmp_path: Path, call: str, ended: str, status: int
):
    """A user-defined operation runs in a thread of control of its own, as if in a progress thread."""
    done = launch(
        tmp_path,
        f"""
        import os, sys, time, numpy
        def operation(a, b, datatype):
            if rank == 1:
                {call}
            b[:] = a
        request = comm.Ireduce(numpy.ones(1), numpy.zeros(1), MPI.Op.Create(operation, commute=True), root=1)
        time.sleep(1)
        request.Wait()
        print("not reached by rank 1:", rank)
        """,
        ranks=3,
    )
    assert (done.result.ended, done.result.exit_status) == (ended, status)
    assert "not reached by rank 1: 1" not in done.lines


@pytest.mark.parametrize("pause", [0, 15e-6], ids=["at once", "under way"])
def test_a_dead_rank_s_progress_threads_are_dead_too(tmp_path: Path, pause: float):
    done = launch(
        tmp_path,
        f"""
        import os, time, numpy
        def operation(a, b, datatype):
            print("operation", rank, time.perf_counter())
            b[:] = a
        request = comm.Ireduce(numpy.ones(1), numpy.zeros(1), MPI.Op.Create(operation, commute=True), root=1)
        if rank == 1:
            time.sleep({pause})
            os._exit(3)
        request.Wait()
        """,
        ranks=2,
    )
    assert done.out == ""
    assert done.result.exit_status == 3
