"""The guard: the parent of a simulating process, which ends it if Python cannot.

The parent forks before anything large is imported, and only waits; it ends with its child's status. It acts if the
child has been told to stop, by the wall limit or Ctrl-C, but is inside a call of compiled code that does not return. It
also reports the location of a rank whose process was killed.

It inherits orphaned processes started by ranks, and ends them with the run, as launchers do, except for those in their
own process group, such as daemons.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Final, NoReturn

from xsim_py import vitals
from xsim_py.crashes import CRASHES
from xsim_py.process.descriptors.child_processes import descendants
from xsim_py.process.output.simulator_descriptors import high_number
from xsim_py.vitals import TICK_S, Frame, Vitals, Watch

_PASSED_ON: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
_ASKED_S: Final = 1.0
_TIDY_S: Final = 0.5
_MOST_BYTES: Final = 1 << 16
_LOST: Final = "unwritten output is lost"
_KEPT: Final = "; use --isolation process to keep it and the other ranks"


def continue_in_child() -> None:
    """Return in a forked child of this process, which the parent guards without returning.

    Returns in this process, without a child, if a fork could do harm: if there are other threads, or much is loaded.
    """
    if "xsim_py.run" in sys.modules or "mpi4py.MPI" in sys.modules or threading.active_count() > 1:
        return
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    reader, writer = _pipe()
    ours = {signal.SIGINT, *_PASSED_ON}
    signal.pthread_sigmask(signal.SIG_BLOCK, ours)  # until both have installed their handlers
    parent = os.getpid()
    try:
        child = os.fork()
    except OSError:  # too many processes: then run without a guard
        child = 0
    if child:
        os.close(writer)
        _Guard(child, memory, reader).stay(ours)
    if os.getpid() != parent:
        os.close(reader)
        vitals.live_with_parent(parent)
        vitals.show(memory, writer)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupted)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ours)


def _pipe() -> tuple[int, int]:
    """Create a nonblocking pipe whose writing end survives a program that closes descriptors."""
    reader, near = os.pipe()
    writer = high_number(near)
    os.close(near)
    os.set_blocking(writer, False)
    return reader, writer


def _interrupted(*_: object) -> NoReturn:
    vitals.mine.interrupts += 1
    raise KeyboardInterrupt


class _Guard:
    """The parent's guard over its child.

    Ctrl-C on a terminal reaches both; a signal sent to this process only has to be forwarded. So it is forwarded after
    a delay to a child that has not received it: no process gets one Ctrl-C twice.
    """

    def __init__(self, child: int, memory: mmap.mmap, answers: int) -> None:
        self._child = child
        self._answers = answers
        self._watch = Watch(memory)
        self._vitals: Vitals = self._watch.vitals
        self._heard = 0  # interrupts that the child had received at the last tick
        self._new = 0  # ticks until an interrupt must have been received
        self._asking = False
        self._verdict: int | None = None

    def stay(self, blocked: set[signal.Signals]) -> NoReturn:
        """Wait for the child and end this process with the same status."""
        vitals.inherit_orphans()
        signal.signal(signal.SIGINT, self._interrupt)
        for number in _PASSED_ON:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, self._pass_on)
        signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
        _, ended = os.waitpid(self._child, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        _end_descendants()
        code = os.waitstatus_to_exitcode(ended)
        status = code if code >= 0 else 128 - code
        try:
            status = self._status(code) if self._verdict is None else self._verdict
            sys.stderr.flush()
        finally:
            os._exit(status & 0xFF)

    def _pass_on(self, number: int, _: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._child, number)

    def _interrupt(self, *_: object) -> None:
        self._watch.interrupted = True
        self._new = 2

    def _tick(self, *_: object) -> None:
        _reap_orphans(self._child)
        if self._new:
            self._new -= 1
            if self._vitals.interrupts != self._heard:
                self._new = 0
            elif not self._new:
                self._pass_on(signal.SIGINT, None)
        if not self._new:
            self._heard = self._vitals.interrupts
        if self._verdict is None and self._watch.is_hanging() and not self._asking:
            self._asking = True  # which may take longer than a tick
            self._end()
            self._asking = False

    def _end(self) -> None:
        """End a child that hangs, and report its location."""
        _read(self._answers, 0)  # earlier output
        self._pass_on(vitals.ASK, None)
        stack = vitals.frames(_read(self._answers, _ASKED_S))
        if not stack and self._watch.is_patient:
            return
        interrupted = self._watch.interrupted
        self._verdict = 130 if interrupted else 4
        why = "interrupted" if interrupted else "the wall limit was reached"
        _print_message(f"{why}, and {vitals.hang_report(self._vitals.rank, stack)}; {_LOST}", stack)
        with suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)

    def _status(self, code: int) -> int:
        """Return the exit status for the child's (negative: a signal), and report an abnormal end."""
        stack = vitals.frames(output := _read(self._answers, 0))
        who = f"rank {self._vitals.rank}" if self._vitals.running and (stack or not output) else "the simulator"
        if code >= 0:
            if self._vitals.running:  # a rank does not end the process
                _print_message(f"{who} exited the process with status {code}, bypassing Python; {_LOST}", stack)
                code = code or 1
            return code
        number = -code
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        if number in CRASHES:
            advice = _KEPT if who.startswith("rank") else ""
            _print_message(f"{who} was killed by {name}; {_LOST}{advice}", stack)
        elif number == signal.SIGKILL:
            _print_message(f"killed by {name}, possibly out of memory", [])
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        return 128 + number


def _reap_orphans(child: int) -> None:
    """Reap exited orphans, up to the first process that is not one."""
    with suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid != child:
            os.waitpid(ended.si_pid, 0)


def _end_descendants() -> None:
    """End the remaining processes of the run after a grace period, if the system can list them."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _descendants():
            with suppress(OSError):
                os.kill(pid, number)
        until_s = time.monotonic() + _TIDY_S
        while _descendants() and time.monotonic() < until_s:
            time.sleep(0.002)
            _reap_orphans(0)


def _descendants() -> list[int]:
    """Return the descendants of this process in its process group."""
    found = []
    with suppress(OSError):
        for pid in map(int, descendants()):
            with suppress(ProcessLookupError):
                if os.getpgid(pid) == os.getpgrp():
                    found.append(pid)
    return found


def _read(answers: int, patience_s: float) -> str:
    """Read the output of `faulthandler` in the child: all, or until it has a rank's stack."""
    output = ""
    until_s = time.monotonic() + patience_s
    while not (patience_s and vitals.frames(output)):
        ready, _, _ = select.select([answers], [], [], max(0, until_s - time.monotonic()))
        piece = os.read(answers, _MOST_BYTES) if ready else b""
        if not piece:
            break
        output += piece.decode(errors="replace")
    return output


def _print_message(what: str, stack: list[Frame]) -> None:
    """Print a message if possible; nothing else depends on it."""
    with suppress(Exception):
        print(vitals.with_place(f"xsim: {what}", stack), file=sys.stderr, flush=True)
