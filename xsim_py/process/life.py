"""How a virtual rank runs its program and how it ends: what a launcher and the operating system do for a real process.

==========================  =====================================================================================
the program                 the rank
==========================  =====================================================================================
returns                     ends with status 0, after its ``atexit`` functions
``sys.exit(n)``             ends with status n; the others go on, as they do until a real launcher notices
raises                      prints its traceback and ends with status 1; the launcher ends the job
``os._exit(n)``             ends at once: no ``finally``, no ``atexit``; the launcher ends the job (it did not finalise)
``os.abort()``, ``kill``    the same, with status 128 + signal, unless it has a handler for that signal
``MPI.Comm.Abort(n)``       ends the job with status n
==========================  =====================================================================================

The launcher's signal takes one network latency to reach the other ranks: nothing is known before it can be.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from . import context, current, signals
from .complaint import report, without_simulator
from .fiber import Fiber
from .grave import GRAVE
from .modules import is_installed
from .output import finish_lines
from .patches import Patches

if TYPE_CHECKING:
    from .rank import Rank

__all__ = ["abort_job", "body", "install", "leave", "stop_job"]

_FIRST_PID = 10_000


def body(program: Any) -> Callable[[Fiber], None]:
    """What a rank's first fiber runs: the program, and then the end of the process."""

    def run(fiber: Fiber) -> None:
        rank = fiber.rank
        status, message = _run_program(rank, program)
        if current.fiber is not fiber:  # in a child that the program has forked, and that came back here
            sys.stdout.flush()
            _real_exit(status)
        if rank.extra is not None and "atexit" in rank.extra:
            _run_atexit(rank.extra["atexit"])
        context.release(rank, dead=False)
        finish_lines(rank, fiber.clock_ps)
        if message is not None:
            _announce(rank, status, message)
        _ended(rank, status)

    return run


def _run_program(rank: Rank, program: Any) -> tuple[int, str | None]:
    """The exit status, and what to tell the launcher if it has to end the job."""
    try:
        program.run(rank)
    except SystemExit as stop:
        return _exit_status(stop.code), None
    except BaseException as error:
        message = "".join(traceback.format_exception_only(error)).strip()
        _call_hook(rank, error)
        return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1, message
    return 0, None


def _run_atexit(functions: list[tuple[Callable[..., Any], Any, Any]]) -> None:
    while functions:
        function, args, kwargs = functions.pop()
        try:
            function(*args, **kwargs)
        except BaseException as error:
            report(error)


def _exit_status(code: Any) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _call_hook(rank: Rank, error: BaseException) -> None:
    """Let ``sys.excepthook`` show an uncaught exception; many MPI programs set one that calls Abort."""
    hook = (rank.own or {}).get("excepthook")
    if hook is None:
        report(error)
        return
    without_simulator(error)
    try:
        hook(type(error), error, error.__traceback__)
    except SystemExit:
        pass
    except BaseException as another:
        print("Error in sys.excepthook:", file=sys.stderr)
        report(another)
        print("\nOriginal exception was:", file=sys.stderr)
        report(error)


def _ended(rank: Rank, status: int) -> None:
    rank.exit_status = status
    rank.ended_ps = rank.fiber.clock_ps
    rank.shard.finished += 1


def _announce(rank: Rank, status: int, message: str) -> None:
    """Tell the launcher that this rank ended badly: it ends the job."""
    fiber = current.fiber
    assert fiber is not None
    fiber.sync()
    rank.key += 1
    shard = rank.shard
    shard.post_everywhere(
        fiber.clock_ps + shard.abort_delay_ps, rank.key, "abort", (rank.number, fiber.clock_ps, status, message)
    )


def leave(status: int, message: str | None) -> NoReturn:
    """End the running rank here and now; nothing of it runs any more. With a message, the launcher ends the job."""
    fiber = current.fiber
    assert fiber is not None
    assert fiber.greenlet is not None
    rank = fiber.rank
    finish_lines(rank, fiber.clock_ps)
    if message is not None:
        _announce(rank, status, message)
    rank.fiber.clock_ps = fiber.clock_ps
    _ended(rank, status)
    context.release(rank, dead=True)
    rank.private("left", lambda: rank.fiber.greenlet)
    hub: Any = fiber.greenlet.parent
    # The running one may be that of a non-blocking collective, and there may be more of those.
    for each in {fiber, rank.fiber, *(rank.extra or {}).get("fibers", ())}:
        each.abandon()
        each.greenlet = GRAVE
    hub.switch()
    raise AssertionError("a rank that has ended was resumed")


def stop_job(status: int, message: str, reason: Any) -> NoReturn:
    """Have the launcher end the job, and keep the running rank where it is until then: the fault is not its own.

    Parameters
    ----------
    reason : object
        What the roll-call says of the rank: anything with ``describe()``.
    """
    fiber = current.fiber
    assert fiber is not None
    _announce(fiber.rank, status, message)
    fiber.park(reason)
    raise AssertionError("a rank that is kept was resumed")


def abort_job(status: int, message: str) -> NoReturn:
    """`MPI.Comm.Abort`: end the running rank and then the job."""
    leave(status & 0xFF, message)


# ------------------------------------------------------------------------------- the doors to the operating system


def _os_exit(status: int) -> NoReturn:
    if current.here() is None:
        _real_exit(status)
    leave(status & 0xFF, f"os._exit({status}) without MPI_Finalize")


def _os_abort() -> NoReturn:
    if current.here() is None:
        _real_abort()
    leave(128 + signal.SIGABRT, "os.abort()")


def _getpid() -> int:
    fiber = current.here()
    return _real_getpid() if fiber is None else _FIRST_PID + fiber.rank.number


def _register(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    fiber = current.here()
    if fiber is None or is_installed(sys._getframe(1).f_code.co_filename):
        # An installed package that a rank is the first to import is there for all of them, and after them.
        return _real_register(function, *args, **kwargs)
    fiber.rank.private("atexit", list).append((function, args, kwargs))
    return function


def _unregister(function: Callable[..., Any]) -> None:
    fiber = current.here()
    if fiber is None:
        _real_unregister(function)
        return
    functions = fiber.rank.private("atexit", list)
    functions[:] = [entry for entry in functions if entry[0] != function]


_real_exit, _real_abort, _real_getpid = os._exit, os.abort, os.getpid
_real_register, _real_unregister = atexit.register, atexit.unregister


def install(patches: Patches) -> None:
    """Replace the ways out of a process for the duration of a run."""
    patches.set(os, "_exit", _os_exit)
    patches.set(os, "abort", _os_abort)
    patches.set(os, "getpid", _getpid)
    patches.set(atexit, "register", _register)
    patches.set(atexit, "unregister", _unregister)
    signals.install(patches, leave)
