"""How a virtual rank runs its program and how it ends: what a launcher and the operating system do for a real process.

==========================  =====================================================================================
the program                 the rank
==========================  =====================================================================================
returns                     ends with status 0, after its ``atexit`` functions
``sys.exit(n)``             ends with status n; the others go on, as they do until a real launcher notices
raises                      prints its traceback and ends with status 1; the launcher ends the job
``os._exit(n)``             ends at once: no ``finally``, no ``atexit``; the launcher ends the job (it did not finalise)
``os.abort()``, ``kill``    the same, with status 128 + signal
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

from . import current
from .fiber import Fiber, hub_switch
from .output import finish_lines
from .patches import Patches

if TYPE_CHECKING:
    from .rank import Rank

__all__ = ["abort_job", "body", "install", "leave"]

_FIRST_PID = 10_000


def body(program: Any) -> Callable[[Fiber], None]:
    """What a rank's first fiber runs: the program, and then the end of the process."""

    def run(fiber: Fiber) -> None:
        rank = fiber.rank
        status, error = _run_program(rank, program)
        if error is not None:
            print(_traceback(error), end="", file=sys.stderr)
        finish_lines(rank, fiber.clock_ps)
        if error is not None:
            _announce(rank, status, f"{type(error).__name__}: {error}")
        _ended(rank, status)

    return run


def _run_program(rank: Rank, program: Any) -> tuple[int, BaseException | None]:
    try:
        program.run(rank)
        status: int = 0
        error = None
    except SystemExit as stop:
        status, error = _exit_status(stop.code), None
    except BaseException as caught:
        status, error = 1, caught
    for function, args, kwargs in reversed(rank.private("atexit", list)):
        try:
            function(*args, **kwargs)
        except BaseException as caught:
            print(_traceback(caught), end="", file=sys.stderr)
    return status, error


def _exit_status(code: Any) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _traceback(error: BaseException) -> str:
    """The traceback as Python prints it, without the simulator's own frames at its top."""
    here = os.path.dirname(__file__)
    tb = error.__traceback__
    while tb is not None and os.path.dirname(tb.tb_frame.f_code.co_filename) == here:
        tb = tb.tb_next
    return "".join(traceback.format_exception(type(error), error, tb))


def _ended(rank: Rank, status: int) -> None:
    rank.exit_status = status
    rank.ended_ps = rank.fiber.clock_ps
    rank.main = rank.modules = rank.argv = None
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
    rank = fiber.rank
    finish_lines(rank, fiber.clock_ps)
    if message is not None:
        _announce(rank, status, message)
    _ended(rank, status)
    hub_switch()
    raise AssertionError("a rank that has ended was resumed")


def abort_job(status: int, message: str) -> NoReturn:
    """`MPI.Comm.Abort`: end the running rank and then the job."""
    leave(status & 0xFF, message)


# ------------------------------------------------------------------------------- the doors to the operating system


def _os_exit(status: int) -> NoReturn:
    if current.fiber is None:
        _real_exit(status)
    leave(status & 0xFF, f"os._exit({status}) without MPI_Finalize")


def _os_abort() -> NoReturn:
    if current.fiber is None:
        _real_abort()
    leave(128 + signal.SIGABRT, "os.abort()")


def _getpid() -> int:
    return _real_getpid() if current.fiber is None else _FIRST_PID + current.fiber.rank.number


def _kill(pid: int, number: int) -> None:
    if current.fiber is None:
        _real_kill(pid, number)
        return
    if pid != _getpid():
        raise PermissionError(1, f"a virtual rank can send signals to itself only, not to process {pid}")
    _signal_self(number)


def _signal_self(number: int) -> None:
    if number == 0:
        return
    name = signal.Signals(number).name
    leave(128 + number, f"killed by {name}")


def _raise_signal(number: int) -> None:
    if current.fiber is None:
        _real_raise_signal(number)
    else:
        _signal_self(number)


def _register(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    if current.fiber is None:
        return _real_register(function, *args, **kwargs)
    current.fiber.rank.private("atexit", list).append((function, args, kwargs))
    return function


def _unregister(function: Callable[..., Any]) -> None:
    if current.fiber is None:
        _real_unregister(function)
        return
    functions = current.fiber.rank.private("atexit", list)
    functions[:] = [entry for entry in functions if entry[0] != function]


_real_exit, _real_abort, _real_getpid, _real_kill = os._exit, os.abort, os.getpid, os.kill
_real_raise_signal = signal.raise_signal
_real_register, _real_unregister = atexit.register, atexit.unregister


def install(patches: Patches) -> None:
    """Replace the ways out of a process for the duration of a run."""
    patches.set(os, "_exit", _os_exit)
    patches.set(os, "abort", _os_abort)
    patches.set(os, "getpid", _getpid)
    patches.set(os, "kill", _kill)
    patches.set(signal, "raise_signal", _raise_signal)
    patches.set(atexit, "register", _register)
    patches.set(atexit, "unregister", _unregister)
