"""Vitals: a few numbers by which a simulating process shows its state to a watching process.

A rank may stay inside one call of compiled code forever: then this process runs no Python code, no signal handler and
no other thread. So another process, which ends it if needed, reads numbers in shared memory, and gets the rank's
location with a signal that `faulthandler` handles without the interpreter.
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import re
import signal
import sys
import time
from contextlib import suppress
from typing import Final, NamedTuple

from xsim_py.code_origin import PACKAGE, is_installed, is_simulator, text_of
from xsim_py.code_origin import shown as name_of

TICK_S: Final = 0.25
"""The interval in which a process updates its heartbeat, and in which the other one checks it."""

GRACE_S: Final = 3.0
"""The time without a heartbeat, after it should have ended, that is tolerated."""

ASK: Final = signal.SIGUSR2
"""The signal that requests a process's stack."""

_PATIENT_ROUNDS: Final = 4
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_LOWEST: Final = (os.path.join(PACKAGE, "process", "ranks", "fiber.py"), "_serve")  # of every rank
_CUT: Final = "\n  ...\n"  # replaces frames beyond a hundred
_BEGIN: Final = re.compile(r"^(?:Stack|(?:Current t|T)hread 0x.*) \(most recent call first\):$", re.MULTILINE)
_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


class Vitals(ctypes.Structure):
    """The numbers shown by a process."""

    _fields_ = [(name, ctypes.c_int64) for name in ("running", "rank", "beats", "interrupts", "due_ns", "signalled")]

    running: int
    """1 while ranks run, and only then: start and end may take time."""
    rank: int
    """The rank that ran last."""
    beats: int
    """A heartbeat counter, which grows while Python runs."""
    interrupts: int
    """The number of Ctrl-C signals received."""
    due_ns: int
    """The time limit of the run, by `time.monotonic_ns`; 0 for no limit."""
    signalled: int
    """1 if another process has sent it a crash signal."""

    def begin(self, due_ns: int) -> None:
        """Reset to the state of a new process."""
        self.running = self.beats = self.interrupts = self.signalled = 0
        self.rank, self.due_ns = -1, due_ns


mine = Vitals()
"""The vitals of this process, in private memory until it calls `show`."""


def show(memory: mmap.mmap, answers: int, *, at: int = 0, renew: bool = False) -> None:
    """Keep this process's vitals in shared memory; write its stack on request or on a crash.

    The watching process shares the memory, from the offset `at` in bytes. `faulthandler` writes to the descriptor
    `answers`; with `renew`, it replaces an inherited one.
    """
    global mine
    mine = Vitals.from_buffer(memory, at)
    if renew or not faulthandler.is_enabled():  # otherwise `faulthandler` is already in use
        faulthandler.enable(file=answers, all_threads=False)
    faulthandler.register(ASK, file=answers, all_threads=False)


def live_with_parent(parent: int | None = None) -> None:
    """Make the system end this process when its parent is killed, on Linux.

    If `parent` is given and no longer the parent, this process ends now.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def inherit_orphans() -> None:
    """Make this process the parent of orphaned descendants, on Linux."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_CHILD_SUBREAPER, 1)


class Watch:
    """Detection of a hanging process: it should have ended, and had no heartbeat for `GRACE_S`.

    The memory has the process's vitals at the offset `at`, in bytes.
    """

    def __init__(self, memory: mmap.mmap, at: int = 0) -> None:
        self.vitals = Vitals.from_buffer(memory, at)
        self.interrupted = False
        self._beats = -1
        self._still = 0

    @property
    def is_due(self) -> bool:
        """True if it should have ended."""
        return self.interrupted or 0 < self.vitals.due_ns <= time.monotonic_ns()

    def is_hanging(self, *, whatever: bool = False) -> bool:
        """Return True if it hangs; call every `TICK_S`, to ignore the time of a suspended computer.

        Applies only while ranks run there, or always with `whatever`.
        """
        if not (self.vitals.running or whatever) or not self.is_due or self.vitals.beats != self._beats:
            self._beats, self._still = self.vitals.beats, 0
            return False
        self._still += 1
        return self._still % round(GRACE_S / TICK_S) == 0

    @property
    def is_still(self) -> bool:
        """True if it had no heartbeat since the last check."""
        return self._still > 0

    @property
    def is_patient(self) -> bool:
        """True if a hanging process outside of a program's code should be given more time.

        It may wait for another process of a real MPI, which hangs itself and will be ended by its own watcher.
        """
        return self._still < _PATIENT_ROUNDS * round(GRACE_S / TICK_S)


class Frame(NamedTuple):
    """One entry of a stack."""

    file: str
    line: int
    function: str


def frames(output: str) -> list[Frame]:
    """Return a rank's frames from `faulthandler`, innermost first, without the simulator's.

    The list is empty if the simulator was running, or if the end is missing, as the text is written in pieces; frames
    of the simulator's caller are excluded. The last stack counts.
    """
    output = _BEGIN.split(output)[-1]
    found = [Frame(file, int(line), function) for file, line, function in _FRAME.findall(output)]
    if not (found and (_CUT in output or (found[-1].file, found[-1].function) == _LOWEST)):
        return []
    return _outside(found)


def innermost() -> Frame | None:
    """Return the program's location that has just called the simulator."""
    frame = sys._getframe(1)
    found = []
    while frame is not None:
        found.append(Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back  # type: ignore[assignment]
    return of_program(_outside(found))


def hang_report(rank: int, stack: list[Frame]) -> str:
    """Return a sentence about the hanging rank, or the simulator if the stack has no frames."""
    return f"{f'rank {rank}' if stack else 'the simulator'} is in a call that does not come back"


def with_place(message: str, stack: list[Frame]) -> str:
    """Append the innermost line of a stack that is not installed, if there is one."""
    frame = of_program(stack)
    return message if frame is None else f"{message}\n    {shown(frame)}"


def shown(frame: Frame) -> str:
    """Return a frame as text: file, line, function and source line."""
    file = frame.file
    with suppress(OSError):  # the directory may have been removed
        file = name_of(file, os.getcwd())
    text = text_of(frame.file, frame.line)
    return f"{file}:{frame.line} in {frame.function}{text and ': '}{text}"


def _outside(stack: list[Frame]) -> list[Frame]:
    return [frame for frame in stack if not (is_simulator(frame.file) or frame.file.startswith("<frozen "))]


def of_program(stack: list[Frame]) -> Frame | None:
    """Return the innermost frame that is not installed, else the innermost, or None."""
    own = [frame for frame in stack if not is_installed(frame.file)]
    return next(iter([*own, *stack]), None)
