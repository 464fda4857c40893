"""Worker processes for independent tasks; a crash loses only the worker's current task.

Prior art: `concurrent.futures.ProcessPoolExecutor` does the same, but if one of its processes dies, all pending tasks
are lost and the responsible one is unknown. Here each worker has a separate pipe: the task of a crashed worker is
reported as failed, with its last output, and a new worker replaces it. Workers do not import the caller's main module,
as those of `multiprocessing` do, so they can be started from any script and notebook.

Workers run in a separate session: Ctrl-C reaches only the caller, which ends them. If the caller itself is killed, they
see the end of a pipe that only it holds open. Their temporary directories are removed in either case.
"""

from __future__ import annotations

import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import IO, Any, Final, NamedTuple, Self

from xsim_py import vitals
from xsim_py.atomic_files import in_use, remove_left_by, undisturbed
from xsim_py.errors import XsimError
from xsim_py.vitals import TICK_S, Watch

_LAST_WORDS_BYTES: Final = 4000
_STACK_BYTES: Final = 1 << 16
_ANSWER_S: Final = 1.0
_TIDY_S: Final = 2.0  # for workers to exit by themselves, and the CPU time for that if they wait for a core
_MOST_KEPT_BYTES: Final = 400 << 20
_BOOT: Final = (
    "import sys; sys.path[:] = sys.argv[5:]; from xsim_py.workers import serve; "
    "serve(sys.argv[1].split(), *map(int, sys.argv[2:5]))"
)
_CLEAN: Final = "import shutil, sys; [shutil.rmtree(path, ignore_errors=True) for path in sys.argv[1:]]"


class Crash(NamedTuple):
    """A task lost with its worker process: exit status and description."""

    exit_status: int
    said: str
    was_hanging: bool = False
    """It was ended by this process after the wall limit, because it was in a call that did not return."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def do_in_workers(
    function: str, tasks: Iterable[Any], jobs: int, *, imports: Sequence[str] = ()
) -> Generator[tuple[int, Any]]:
    """Run tasks in at most `jobs` processes; yield each one's number and result on completion.

    The function is ``module:name``; tasks and results are pickled. Each task is taken when the previous one starts, so
    that results can influence later tasks. `imports` are modules to import before the first task, so that it is not
    charged for them. The result is a `Crash` if the process died. Closing the generator ends the workers, whatever they
    do.
    """
    waiting = iter(tasks)
    first = list(islice(waiting, jobs + 1))  # one more, so that no worker waits for our caller
    with Pool(function, min(jobs, len(first)), imports=imports) as pool:
        for task in first:
            pool.submit(task)
        for result in pool.results():
            yield result
            for task in islice(waiting, 1):
                pool.submit(task)


class Pool:
    """Worker processes that run tasks as they are submitted, also while others are running.

    Parameters as for `do_in_workers`; all processes start when the first result is requested.
    """

    def __init__(self, function: str, jobs: int, *, imports: Sequence[str] = ()) -> None:
        self._words = [function, *imports]
        self._jobs = jobs
        self._workers: list[_Worker] = []
        self._todo: deque[tuple[int, Any]] = deque()
        self._submitted = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with undisturbed():
            until_s = time.monotonic() + _TIDY_S
            for worker in self._workers:
                worker.ask_to_end()
            for worker in self._workers:
                worker.end(until_s)
            remove_left_by([worker.pid for worker in self._workers], until_s + _TIDY_S)

    def submit(self, task: object) -> int:
        """Queue a task; return its number, counted from 0."""
        self._todo.append((self._submitted, task))
        self._submitted += 1
        return self._submitted - 1

    def results(self) -> Generator[tuple[int, Any]]:
        """Yield number and result of each completed task, until none is left; more may be submitted."""
        if not self._workers and self._todo:
            self._workers += [_Worker(self._words) for _ in range(self._jobs)]
            for worker in self._workers:
                worker.greet()
        self._dispatch()
        while busy := {worker.connection: worker for worker in self._workers if worker.number is not None}:
            for worker in busy.values():
                worker.end_if_hanging()
            for connection in wait(list(busy), TICK_S):
                worker = busy[connection]  # type: ignore[index]
                number, result = worker.receive()
                worker.number = None
                if worker.ended:
                    self._workers.remove(worker)
                    worker = _Worker(self._words)
                    self._workers.append(worker)
                    worker.greet()
                self._dispatch()
                yield number, result
                self._dispatch()

    def _dispatch(self) -> None:
        """Give each idle worker the next task."""
        for worker in self._workers:
            if worker.number is None and self._todo:
                worker.send(self._todo.popleft())


class _Worker:
    """The caller's end of a worker process.

    `number` is that of its current task; an `ended` worker accepts no more tasks.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.number: int | None = None
        self.ended = False
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self.connection, theirs = Pipe()
        lifeline, self._lifeline = os.pipe()
        os.set_inheritable(self._lifeline, False)
        self._was_stuck = False
        self._most_s = 0.0  # CPU time until it is ended by force
        self._look_s = 0.0  # when to check it again
        with _page() as numbers:
            self._watch = Watch(mmap.mmap(numbers.fileno(), mmap.PAGESIZE))
            self._start(words, theirs, lifeline, numbers.fileno())

    def _start(self, words: Sequence[str], theirs: Connection[Any, Any], lifeline: int, numbers: int) -> None:
        passed = (theirs.fileno(), lifeline, numbers)
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _BOOT,
                " ".join(words),
                *map(str, passed),
                *(path or os.getcwd() for path in sys.path),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=passed,
            start_new_session=True,
            env={"OMP_NUM_THREADS": "1", **os.environ},  # one run per core rather than threads of one
        )
        theirs.close()
        os.close(lifeline)

    def greet(self) -> None:
        """Wait until the worker is ready; raise XsimError if it does not start."""
        try:
            self.connection.recv()
        except (EOFError, OSError):
            raise XsimError(f"cannot start a worker process: {self._last_output()}") from None

    def send(self, numbered: tuple[int, Any]) -> None:
        """Send it a task."""
        self.number, task = numbered
        self._log.seek(0)
        self._log.truncate()
        try:
            self.connection.send(task)
        except OSError:
            return  # it has died, which hear() will detect

    def receive(self) -> tuple[int, Any]:
        """Return the number and result of its task; a `Crash` if the worker died."""
        assert self.number is not None
        try:
            result, self.ended = self.connection.recv()
        except (EOFError, OSError):
            result = Crash(*self._post_mortem())
            self.ended = True
        if self.ended:
            self.end()
        return self.number, result

    def end_if_hanging(self) -> None:
        """End it if its run should have ended but hangs; call this at least every `TICK_S`."""
        if self._was_stuck or time.monotonic() < self._look_s:
            return
        self._look_s = time.monotonic() + TICK_S
        if not self._watch.is_hanging():
            return
        self._was_stuck = True
        self._process.send_signal(vitals.ASK)
        until_s = time.monotonic() + _ANSWER_S
        while not self._stack() and time.monotonic() < until_s:
            time.sleep(_ANSWER_S / 100)
        self._process.kill()

    def _post_mortem(self) -> tuple[int, str, bool]:
        if self._was_stuck:
            self._process.wait()
            stack = self._stack()
            said = f"the wall limit was reached, and {vitals.hang_report(self._watch.vitals.rank, stack)}"
            return 4, vitals.with_place(said, stack), True
        status = self._process.wait()
        if status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
            if stack := self._stack():
                how += f" in rank {self._watch.vitals.rank}"
                return 128 - status, vitals.with_place(f"the worker process {how}", stack), False
            how += ", possibly out of memory" if -status == signal.SIGKILL else ""
        else:
            how = f"ended with status {status}"
        return 128 - status if status < 0 else status, f"the worker process {how}\n{self._last_output()}".strip(), False

    def _stack(self) -> list[vitals.Frame]:
        """Return the frames of its rank, if it has written them."""
        return vitals.frames(self._last_output(_STACK_BYTES))

    def _last_output(self, most: int = _LAST_WORDS_BYTES) -> str:
        number = self._log.fileno()
        size = os.fstat(number).st_size
        # The worker writes at this file's current offset, so that must not be changed.
        return os.pread(number, most, max(0, size - most)).decode(errors="replace").strip()

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._process.pid

    def ask_to_end(self) -> None:
        """Make the process remove its directories and exit."""
        self._most_s = _activity(self.pid)[1] + _TIDY_S
        self._process.terminate()

    def end(self, until_s: float = 0.0) -> None:
        """End the process, by force after a given time; a second call does nothing.

        A process that was asked to end, and waits for a core then, is given `_TIDY_S` of CPU time.
        """
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, until_s - time.monotonic()))
        while self._process.poll() is None:
            waits_for_core, used_s = _activity(self.pid)
            if not waits_for_core or used_s >= self._most_s:
                break
            time.sleep(_ANSWER_S / 100)
        self._process.kill()
        self._process.wait()
        self.connection.close()
        self._log.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


def _activity(pid: int) -> tuple[bool, float]:
    """Return whether a process runs, or waits for a core or the disk only, and its CPU time; False if unknown."""
    with suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8") as file:  # Linux only
        state, *numbers = file.read().rpartition(")")[2].split()
        return state in "RD", (int(numbers[10]) + int(numbers[11])) / os.sysconf("SC_CLK_TCK")
    return False, 0.0


def _page() -> IO[bytes]:
    """Create a file of one page for memory shared by two processes; OSError if the disk is full."""
    memfd_create: Callable[[str], int] | None = getattr(os, "memfd_create", None)  # on Linux
    file: IO[bytes]
    if memfd_create is None:
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the caller closes it
    else:
        file = open(memfd_create("vitals"), "r+b", buffering=0)  # noqa: SIM115
    try:
        file.write(bytes(mmap.PAGESIZE))
    except OSError as error:
        file.close()
        raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from None
    return file


def serve(words: Sequence[str], pipe: int, lifeline: int, numbers: int) -> None:
    """Run as a worker: process tasks from the pipe until its other end is closed.

    The first word is the function, as ``module:name``; the others are modules to import.
    """
    vitals.show(mmap.mmap(numbers, mmap.PAGESIZE), sys.stderr.fileno())
    module, _, name = words[0].partition(":")
    for needed in words[1:]:
        import_module(needed)
    do = getattr(import_module(module), name)
    _die_with(lifeline)
    connection: Connection[Any, Any] = Connection(pipe)
    connection.send("ready")
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        result = do(task)
        connection.send((result, _is_stale()))


def _is_stale() -> bool:
    """Return True if a new process should run the next task.

    Threads that a program has left running could interfere with it. Memory freed by a large run is not returned to the
    system by Python's allocator, and would count for the next run.
    """
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        return True
    with suppress(OSError), open("/proc/self/statm") as file:  # Linux only; elsewhere memory is kept
        return int(file.read().split()[1]) * resource.getpagesize() > _MOST_KEPT_BYTES
    return False


def _die_with(lifeline: int) -> None:
    """End this process when its parent has exited, also during a run."""
    leave, read, become = os._exit, os.read, os.execv
    clean = [sys.executable, "-ISc", _CLEAN]

    def watch() -> None:
        read(lifeline, 1)
        if folders := in_use():  # it is replaced by a program without threads that could continue to write there
            become(clean[0], [*clean, *folders])
        leave(1)

    threading.Thread(target=watch, daemon=True).start()
