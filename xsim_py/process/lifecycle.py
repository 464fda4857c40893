"""The life of a virtual rank: it runs its program and ends like a real process under its launcher.

==========================  =====================================================================================
the program                 the rank
==========================  =====================================================================================
returns                     ends with status 0, after its non-daemon threads and its ``atexit`` functions
``sys.exit(n)``             ends with status n; the others continue, as they do until a real launcher notices
raises                      prints its traceback and ends with status 1; the launcher ends the job
``os._exit(n)``             ends at once: no ``finally``, no ``atexit``; the launcher ends the job (not finalised)
``os.abort()``, ``kill``    the same, with status 128 + signal, unless it has a handler for that signal
``MPI.Comm.Abort(n)``       ends the job with status n
==========================  =====================================================================================

The launcher's signal takes one network latency to reach the other ranks: no information travels faster.

In a fault-tolerant run, as under ``mpirun --with-ft ulfm``, the launcher does not end the job: a process that raises or
ends without MPI_Finalize has failed, like one that is killed by the simulator (`kill`), and the others are notified by
their failure detector. An unhandled error that reports such a failure still ends the job, as the default error handler
of MPI would.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, NoReturn

from greenlet import getcurrent

from xsim_py.process.descriptors import fifos, file_locks, pipes
from xsim_py.process.files import virtual_files
from xsim_py.process.output import tracebacks
from xsim_py.process.output.collector import finish_lines
from xsim_py.process.output.tracebacks import report, say, without_simulator
from xsim_py.process.programs import import_locks, registrations
from xsim_py.process.python import finalizers, threads
from xsim_py.process.python.sys_modules import is_for_all
from xsim_py.process.ranks import context, current
from xsim_py.process.ranks.dead_objects import DEAD_GREENLET
from xsim_py.process.ranks.fiber import Fiber
from xsim_py.process.ranks.meter import begin_thread, end_thread
from xsim_py.process.ranks.patches import Table, in_ranks
from xsim_py.process.ranks.rank import FIRST_PID, Abort, Rank

UNFINALIZED = "ended without MPI_Finalize"
_KILLED = 128 + signal.SIGKILL
_STALLED = 3


def body(program: object) -> Callable[[Fiber], None]:
    """Return the function that a rank's first fiber runs: the program, then the end of the process."""

    def run(fiber: Fiber) -> None:
        rank = fiber.rank
        begin_thread(fiber)
        status, message, fatal = _run_program(rank, program)
        end_thread(fiber)
        if not current.thread:  # in a forked child of the program, after it has returned
            sys.stdout.flush()
            _real_exit(status)
        if rank.extra is not None:
            threads.end(rank)
            _run_atexit(rank.extra.get("atexit", []))
        finalizers.end(rank)
        if message is None and rank.shard.unfinalized(rank):
            message = UNFINALIZED
        if rank.extra is not None:
            threads.abandon_daemons(rank)
        context.release(rank, dead=False)
        if rank.extra is not None:
            finish_lines(rank, fiber.clock_ps)
        if message is not None:
            fiber.sync()
        survivable = rank.shard.fault_tolerant and not fatal
        if message is not None and not survivable:
            if message == UNFINALIZED and current.events is not None:
                current.events.unfinalized(rank)
            announce(rank, fiber.clock_ps, status, message)
        _ended(rank, fiber.clock_ps, status)
        if message is not None:
            _abandon_fibers(rank)
        if message is not None and not fatal:
            rank.shard.on_failure(rank, message, survivable)

    return run


def _run_program(rank: Rank, program: Any) -> tuple[int, str | None, bool]:
    """Run the program; return the exit status, a message for the launcher, and whether the job ends in any case."""
    try:
        program.run(rank)
    except SystemExit as stop:
        return _exit_status(stop.code), None, False
    except BaseException as error:
        message, fatal = _message(error), _is_fatal(error)
        registrations.advise(error, rank)
        _call_hook(rank, error)
        return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1, message, fatal
    return 0, None, False


def _message(error: BaseException) -> str:
    """Return the launcher's description of an exception that ended a rank."""
    rendered = traceback.TracebackException.from_exception(error, limit=0)
    rendered.__notes__ = None  # the traceback includes them
    return "".join(rendered.format_exception_only()).strip()


def _is_fatal(error: BaseException) -> bool:
    """Return True if an unhandled exception reports a process failure, which ends the job."""
    return getattr(error, "_is_about_failures", False)


def _ended_thread(error: BaseException) -> None:
    """End the job if such an exception has ended a thread."""
    if _is_fatal(error):
        leave(1, _message(error), job=True)


threads.at_thread_error(_ended_thread)


def _run_atexit(functions: list[tuple[Callable[..., Any], Any, Any]]) -> None:
    while functions:
        function, args, kwargs = functions.pop()
        try:
            function(*args, **kwargs)
        except BaseException as error:
            report(error)


def _exit_status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    say(f"{code}\n")
    return 1


def _call_hook(rank: Rank, error: BaseException) -> None:
    """Show an uncaught exception with ``sys.excepthook``; many MPI programs set one that calls Abort."""
    hook = (rank.private_state or {}).get("excepthook")
    if hook is None:
        report(error)
        return
    tracebacks.uncaught(error)
    without_simulator(error)
    try:
        hook(type(error), error, error.__traceback__)
    except SystemExit:
        pass
    except BaseException as another:
        say("Error in sys.excepthook:\n")
        report(another)
        say("\nOriginal exception was:\n")
        report(error)


def _ended(rank: Rank, time_ps: int, status: int) -> None:
    rank.exit_status = status
    rank.ended_ps = time_ps
    for act in (rank.extra or {}).get("at death", ()):
        act()
    shard = rank.shard
    shard.finished += 1
    if file_locks.locked:
        file_locks.end(rank, time_ps)
    if pipes.ends:
        fifos.end(rank, time_ps)
    # Its core is free once the launcher is notified, and its pending requests are dropped.
    if rank.number >= shard.initial or (rank.extra is not None and rank.extra.get("asks")):
        rank.key += 1
        shard.post_to_first(time_ps + shard.abort_delay_ps, rank.key, "gone", rank.number)


def announce(rank: Rank, time_ps: int, status: int, message: str, *, mismatch: bool = False) -> None:
    """Notify the launcher that this rank has failed or is in a mismatched collective; it ends the job."""
    rank.key += 1
    shard = rank.shard
    abort = Abort(rank.number, time_ps, status, message, mismatch)
    shard.post_everywhere(time_ps + shard.abort_delay_ps, rank.key, "abort", abort)
    if not mismatch:
        shard.on_fatal_end(rank)


def leave(status: int, message: str, *, job: bool = False) -> NoReturn:
    """End the running rank immediately; none of its code runs again.

    `message` says what has happened. It ends the job, or it is a failure that the job survives; with `job`, it ends the
    job in any case.
    """
    fiber = current.running()
    rank = fiber.rank
    fiber.sync()
    fiber.greenlet = getcurrent()
    _die(rank, fiber.clock_ps, status, message, job=job)
    fiber.yield_forever()
    raise AssertionError("a rank that has ended was resumed")


def _die(rank: Rank, time_ps: int, status: int, cause: str, *, job: bool = False) -> None:
    """End a rank wherever it is, and notify everything that depends on it."""
    shard = rank.shard
    finish_lines(rank, time_ps)
    survivable = shard.fault_tolerant and not job
    if not survivable:
        announce(rank, time_ps, status, cause)
    if virtual_files.active is not None:
        virtual_files.active.died(rank, time_ps)
    _ended(rank, time_ps, status)
    import_locks.drop(rank)
    context.release(rank, dead=True)
    running = current.fiber  # may be that of a non-blocking collective, or of another rank
    stood = running if running is not None and running in threads.others(rank) else rank.fiber
    rank.private("left", lambda: stood.greenlet)
    _abandon_fibers(rank, rank.fiber)
    if not job:
        shard.on_failure(rank, cause, survivable)


def _abandon_fibers(rank: Rank, *fibers: Fiber) -> None:
    """Stop these fibers for good, and those of threads and of non-blocking collectives."""
    for each in (*fibers, *(rank.extra or {}).get("fibers", ())):
        each.abandon()
        each.greenlet = DEAD_GREENLET


def kill(entry: tuple[Rank, str] | tuple[Rank, str, int]) -> None:
    """End a rank from outside, with a cause and optionally an exit status other than that of a killed process.

    An event handler, called when the rank's clock has reached this time.
    """
    rank, cause = entry[:2]
    status = _KILLED if len(entry) == 2 else entry[2]
    if rank.exit_status is None and not rank.shard.defer_for_all(kill, entry):
        _die(rank, rank.shard.kernel.now_ps, status, cause)


def fail_here(cause: str) -> NoReturn:
    """End the running rank as if it had been killed."""
    leave(_KILLED, cause)


def stop_mismatch(message: str, reason: object) -> NoReturn:
    """Make the launcher end a job whose ranks are in different collectives, and suspend the running rank until then.

    `reason` is the rank's entry in the deadlock report: anything with ``describe()``.
    """
    fiber = current.running()
    fiber.sync()
    announce(fiber.rank, fiber.clock_ps, _STALLED, message, mismatch=True)
    fiber.park(reason)
    raise AssertionError("a rank that is kept was resumed")


def abort_job(status: int, message: str) -> NoReturn:
    """Implement `MPI.Comm.Abort`: end the running rank and then the job."""
    leave(status & 0xFF, message, job=True)


# ------------------------------------------------------------------------------- calls to the operating system


def _os_exit(status: int) -> NoReturn:
    leave(status & 0xFF, f"os._exit({status}) without MPI_Finalize")


def _os_abort() -> NoReturn:
    leave(128 + signal.SIGABRT, "os.abort()")


def _no_exec(name: str, *_: object) -> NoReturn:
    raise NotImplementedError(f"os.{name}: a virtual rank cannot become another program; use subprocess")


def _getpid() -> int:
    fiber = current.here()
    if fiber is None or _is_about_children(sys._getframe(1)):
        return _real_getpid()
    return FIRST_PID + fiber.rank.number


def _is_about_children(caller: FrameType) -> bool:
    """Return True if `multiprocessing` asks, to identify its children: they are real and may outlast the run."""
    name = caller.f_globals.get("__name__")
    return isinstance(name, str) and name.startswith("multiprocessing.") and caller.f_code.co_name != "ident"


def _register(function: Callable[..., Any], *args: object, **kwargs: object) -> Callable[..., Any]:
    fiber = current.here()
    if fiber is None or is_for_all():  # it is then registered for all ranks, and beyond them
        return _real_register(function, *args, **kwargs)
    fiber.rank.private("atexit", list).append((function, args, kwargs))
    return function


def _unregister(function: Callable[..., Any]) -> None:
    functions = current.rank().private("atexit", list)
    functions[:] = [entry for entry in functions if entry[0] != function]


_real_exit, _real_getpid, _real_register = os._exit, os.getpid, atexit.register


PATCHED: Table = (
    ("os", "virtual: ends the rank", {"_exit": in_ranks(_os_exit), "abort": in_ranks(_os_abort)}),
    ("os", "private: process ID of the rank", {"getpid": _getpid}),
    ("os", "refused: use `subprocess`", {name: in_ranks(partial(_no_exec, name)) for name in ("execv", "execve")}),
    (
        "atexit",
        "private: functions called at the end of the rank",
        {"register": _register, "unregister": in_ranks(_unregister)},
    ),
)
