"""Interruptions of a run from outside: the wall clock, Ctrl-C, and compiled code that ends this process."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn, TextIO

from xsim_py import vitals
from xsim_py.engine import UNBOUNDED_PS
from xsim_py.process.output.collector import finish_lines
from xsim_py.process.ranks import current
from xsim_py.ticks import Ticks, c_library
from xsim_py.units import format_time
from xsim_py.vitals import TICK_S

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.shard import Control, Shard

Progress = Callable[[int, int, int, int], None]
"""Called with virtual time (ps), events, finished ranks, and ranks."""

_real_pid = os.getpid  # a rank has a different one
_at_exit_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@contextmanager
def watched(
    control: Control,
    shards: Sequence[Shard],
    wall_limit_s: float | None,
    progress: Progress | None,
    cpu_limit_s: float | None = None,
) -> Iterator[None]:
    """Poll the wall clock and CPU time, and let Ctrl-C end the run with a report.

    Signals reach the main thread only; in other threads there is neither a limit nor a status line. The polling also
    shows other processes that this one is alive (`xsim_py.vitals`).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    clock_s, used_s = time.perf_counter, time.process_time
    start_s, before_s = clock_s(), used_s()

    def look(*_: object) -> None:
        vitals.mine.beats += 1
        limit_reached = wall_limit_s is not None and clock_s() - start_s >= wall_limit_s
        limit_reached = limit_reached or (cpu_limit_s is not None and used_s() - before_s >= cpu_limit_s)
        if limit_reached or control.stop_reason:
            control.stop("wall limit")
        if not shards:  # the timer may fire before there are any, or between two starts of the job
            return
        if shards[0].alone:
            shards[0].output.flush(shards[0].kernel.now_ps)
        if progress is not None:
            kernels = [shard.kernel for shard in shards]
            finished = sum(shard.finished for shard in shards)
            total = shards[0].population
            progress(max(k.now_ps for k in kernels), sum(k.events for k in kernels), finished, total)

    def interrupt(*_: object) -> None:
        vitals.mine.interrupts += 1
        control.stop("interrupted")

    before = (signal.signal(signal.SIGALRM, look), signal.signal(signal.SIGINT, interrupt))
    limits_s = [limit_s for limit_s in (wall_limit_s, cpu_limit_s) if limit_s is not None]
    tick_s = min(TICK_S, *(max(limit_s / 4, 0.001) for limit_s in limits_s)) if limits_s else TICK_S
    vitals.mine.due_ns = 0 if wall_limit_s is None else time.monotonic_ns() + round(wall_limit_s * 1e9)
    ticks = Ticks(tick_s)
    try:
        yield
    finally:
        vitals.mine.due_ns = 0
        ticks.stop()
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # discards a pending one, which could end the process
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGINT, before[1])


@contextmanager
def c_exit_watched(shards: Sequence[Shard], stderr: TextIO, leave: Callable[[int], NoReturn]) -> Iterator[None]:
    """Report the rank and write pending output if compiled code calls ``exit``, as Fortran's STOP does.

    The call would end this process, and with it all ranks, with any status, also 0. It cannot be prevented.

    In a process that is forked meanwhile, see `on_c_exit`.

    `shards` are those of this process, once there are any. `leave` is called with the exit status, and ends the run in
    all its processes.
    """
    libc = c_library()
    # Other C libraries may not be able to unregister it, and Python has gone when their own exit calls it.
    if threading.current_thread() is not threading.main_thread() or not hasattr(libc, "gnu_get_libc_version"):
        yield
        return

    def here() -> None:
        _report_exit(shards, stderr)
        leave(1)

    def called(_: object) -> None:
        function = _on_c_exit.get(_real_pid())
        if function is not None:
            function()

    callback, ours = _at_exit_type(called), ctypes.c_char()
    libc.__cxa_atexit(callback, None, ctypes.byref(ours))
    on_c_exit(here)
    try:
        yield
    finally:
        _on_c_exit.clear()
        libc.__cxa_finalize(ctypes.byref(ours))


_on_c_exit: dict[int, Callable[[], None]] = {}  # by process: a fork inherits its parent's


def on_c_exit(function: Callable[[], None]) -> None:
    """Call a function if compiled code calls ``exit`` in this process, inside of `c_exit_watched`."""
    _on_c_exit[_real_pid()] = function


def last_location(shards: Sequence[Shard]) -> tuple[Fiber | None, vitals.Frame | None]:
    """Return the running fiber and its source location; end lines printed without a newline."""
    vitals.mine.running = 0
    fiber, frame = current.fiber, vitals.innermost()
    current.fiber = None
    for shard in shards:
        for rank in shard.ranks:
            if rank.extra is not None:
                finish_lines(rank, rank.fiber.clock_ps)
    return fiber, frame


def _report_exit(shards: Sequence[Shard], stderr: TextIO) -> None:
    with suppress(Exception):  # or this process would not end
        fiber, frame = last_location(shards)
        for shard in shards:
            if shard.number:
                shards[0].output.add(shard.output.take(far=False))
        if shards:
            shards[0].output.flush(UNBOUNDED_PS, last=True)
        who = "compiled code" if fiber is None else f"rank {fiber.rank.number}"
        when = "" if fiber is None else f" at {format_time(fiber.clock_ps, digits=None)}"
        message = f"xsim: {who} ended this process{when}, and all ranks with it: exit() of the C library"
        where = "" if frame is None else f"\n    {vitals.shown(frame)}"
        print(f"{message}{where}", file=stderr, flush=True)
        if not hasattr(stderr, "fileno"):  # which only code in this process would read
            print(f"{message}{where}", file=sys.__stderr__, flush=True)
