"""A command that simulates has two processes: one that simulates, and its parent, which ends it where Python cannot.

The parent starts as a fork before anything large is imported, and does nothing but wait. It ends as the other one ends.
It acts when that one has been told to end, by the wall limit or Ctrl-C, and is inside one call of compiled code that
does not come back; and it says where a rank stood whose process was killed.

It inherits the processes that ranks have started and left behind, and ends them with the run, as launchers do: all but
those that are in a process group of their own, such as daemons.
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
from typing import TYPE_CHECKING, Final, NoReturn

from xsim_py import vitals
from xsim_py.crashes import CRASHES
from xsim_py.process.descriptors.child_processes import descendants
from xsim_py.process.output.simulator_descriptors import far_up
from xsim_py.vitals import TICK_S, Watch

if TYPE_CHECKING:
    from xsim_py.vitals import Frame, Vitals

_PASSED_ON: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
_ASKED_S: Final = 1.0
_TIDY_S: Final = 0.5
_MOST_BYTES: Final = 1 << 16
_LOST: Final = "unwritten output is lost"
_KEPT: Final = "; use --isolation process to keep it and the other ranks"


def go_on_in_a_child() -> None:
    """Return in a child of this process, which the parent watches from now on; the parent never returns.

    Returns in this process, without a child, where a fork could harm: beside other threads, or when much is loaded.
    """
    if "xsim_py.run" in sys.modules or "mpi4py.MPI" in sys.modules or threading.active_count() > 1:
        return
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    reader, writer = _pipe()
    ours = {signal.SIGINT, *_PASSED_ON}
    signal.pthread_sigmask(signal.SIG_BLOCK, ours)  # until both know what to do with them
    parent = os.getpid()
    try:
        child = os.fork()
    except OSError:  # too many processes: there is no watch then, and all the rest
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
    """Make a pipe whose writing end stays when a program closes whatever it finds, and is never waited for."""
    reader, near = os.pipe()
    writer = far_up(near)
    os.close(near)
    os.set_blocking(writer, False)
    return reader, writer


def _interrupted(*_: object) -> NoReturn:
    vitals.mine.interrupts += 1
    raise KeyboardInterrupt


class _Guard:
    """The parent: what it knows of its child, and what it does.

    Ctrl-C on a terminal reaches both, a signal that is sent to this process only has to be passed on. So it is sent
    after a while to a child that has not heard of it: nobody hears of one Ctrl-C twice.
    """

    def __init__(self, child: int, memory: mmap.mmap, answers: int) -> None:
        self._child = child
        self._answers = answers
        self._watch = Watch(memory)
        self._vitals: Vitals = self._watch.vitals
        self._heard = 0  # interrupts that the child knew of at the last tick
        self._new = 0  # ticks until an interrupt has to have been heard
        self._asking = False
        self._verdict: int | None = None

    def stay(self, blocked: set[signal.Signals]) -> NoReturn:
        """Wait for the child and end this process like it."""
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
        _end_left_behind()
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
        if self._verdict is None and self._watch.is_stuck() and not self._asking:
            self._asking = True  # which may take longer than a tick
            self._end()
            self._asking = False

    def _end(self) -> None:
        """End a child that is stuck, and say where it was."""
        _read(self._answers, 0)  # what it may have said before
        self._pass_on(vitals.ASK, None)
        stack = vitals.frames(_read(self._answers, _ASKED_S))
        if not stack and self._watch.is_patient:
            return
        interrupted = self._watch.interrupted
        self._verdict = 130 if interrupted else 4
        why = "interrupted" if interrupted else "the wall limit was reached"
        _say(f"{why}, and {vitals.stuck(self._vitals.rank, stack)}; {_LOST}", stack)
        with suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)

    def _status(self, code: int) -> int:
        """Return the exit status for that of the child (negative: a signal), and say so if it did not end by itself."""
        stack = vitals.frames(said := _read(self._answers, 0))
        who = f"rank {self._vitals.rank}" if self._vitals.running and (stack or not said) else "the simulator"
        if code >= 0:
            if self._vitals.running:  # the end of a rank is none of the process
                _say(f"{who} exited the process with status {code}, bypassing Python; {_LOST}", stack)
                code = code or 1
            return code
        number = -code
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        if number in CRASHES:
            advice = _KEPT if who.startswith("rank") else ""
            _say(f"{who} was killed by {name}; {_LOST}{advice}", stack)
        elif number == signal.SIGKILL:
            _say(f"killed by {name}, possibly out of memory", [])
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        return 128 + number


def _reap_orphans(child: int) -> None:
    """Let those go that have ended, up to the first one that is not an orphan."""
    with suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid != child:
            os.waitpid(ended.si_pid, 0)


def _end_left_behind() -> None:
    """End what is left of the run, where the system tells what that is; it has a moment to tidy up."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _left_behind():
            with suppress(OSError):
                os.kill(pid, number)
        until_s = time.monotonic() + _TIDY_S
        while _left_behind() and time.monotonic() < until_s:
            time.sleep(0.002)
            _reap_orphans(0)


def _left_behind() -> list[int]:
    """The processes that this one has started or inherited, and that are in its group."""
    found = []
    with suppress(OSError):
        for pid in map(int, descendants()):
            with suppress(ProcessLookupError):
                if os.getpgid(pid) == os.getpgrp():
                    found.append(pid)
    return found


def _read(answers: int, patience_s: float) -> str:
    """Read what `faulthandler` has written in the child, in pieces: all that is there, or until a rank's stack is."""
    said = ""
    until_s = time.monotonic() + patience_s
    while not (patience_s and vitals.frames(said)):
        ready, _, _ = select.select([answers], [], [], max(0, until_s - time.monotonic()))
        piece = os.read(answers, _MOST_BYTES) if ready else b""
        if not piece:
            break
        said += piece.decode(errors="replace")
    return said


def _say(what: str, stack: list[Frame]) -> None:
    """Tell people, if that is possible; what else is to be done does not depend on it."""
    with suppress(Exception):
        print(vitals.with_place(f"xsim: {what}", stack), file=sys.stderr, flush=True)
