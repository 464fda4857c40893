"""A process that simulates shows a few numbers of itself to another one, which watches it and ends it if need be.

A rank may be inside one call of compiled code for ever: then no line of Python runs any more in this process, no
handler of a signal and no other thread. So another process looks at a few numbers in memory that both have, and finds
out where the rank stands by a signal that `faulthandler` answers without the interpreter.
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
"""How often a process shows that it is alive, and how often the other one looks."""

GRACE_S: Final = 3.0
"""How long it may show nothing after it should have ended."""

ASK: Final = signal.SIGUSR2
"""The signal that asks a process where it stands."""

_PATIENT_ROUNDS: Final = 4
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_LOWEST: Final = (os.path.join(PACKAGE, "process", "ranks", "fiber.py"), "_serve")  # of every rank
_CUT: Final = "\n  ...\n"  # what stands for more than a hundred frames
_BEGIN: Final = re.compile(r"^(?:Stack|(?:Current t|T)hread 0x.*) \(most recent call first\):$", re.MULTILINE)
_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


class Vitals(ctypes.Structure):
    """The numbers that a process shows."""

    _fields_ = [(name, ctypes.c_int64) for name in ("running", "rank", "beats", "interrupts", "due_ns", "struck")]

    running: int
    """1 while ranks run, and only then: what comes before and after may take its time."""
    rank: int
    """Whose turn it was last."""
    beats: int
    """Grows while Python runs."""
    interrupts: int
    """How many times it has heard of Ctrl-C."""
    due_ns: int
    """When the run should have ended, by `time.monotonic_ns`; 0 for no limit."""
    struck: int
    """1 when somebody has sent it the signal of a crash, which is none of its own."""

    def begin(self, due_ns: int) -> None:
        """Show a process that has done nothing yet."""
        self.running = self.beats = self.interrupts = self.struck = 0
        self.rank, self.due_ns = -1, due_ns


mine = Vitals()
"""The numbers of this process stand here, in memory of its own until it is told to `show` them."""


def show(memory: mmap.mmap, answers: int, *, at: int = 0, anew: bool = False) -> None:
    """From now on, keep the vitals of this process in that memory, and say where it stands when it is asked or dies.

    Parameters
    ----------
    memory, at : mmap, int
        Shared with the process that watches, and where in it, in bytes.
    answers, anew : int, bool
        The descriptor to which the stack goes, as `faulthandler` writes it; also where another one was inherited.
    """
    global mine
    mine = Vitals.from_buffer(memory, at)
    if anew or not faulthandler.is_enabled():  # else somebody has asked for it elsewhere
        faulthandler.enable(file=answers, all_threads=False)
    faulthandler.register(ASK, file=answers, all_threads=False)


def live_with_parent(parent: int | None = None) -> None:
    """Have the system end this process when its parent is killed, which Linux can.

    Where `parent` is given and is the parent no more, this process ends now.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def inherit_orphans() -> None:
    """Have the system give this process the children of its children when these end, which Linux can."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_CHILD_SUBREAPER, 1)


class Watch:
    """Finds out that a process is stuck: it should have ended, and has shown no sign of life for `GRACE_S`.

    Parameters
    ----------
    memory, at : mmap, int
        Where the process shows its vitals, and how many bytes from the beginning.
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

    def is_stuck(self, *, whatever: bool = False) -> bool:
        """Return whether it is stuck, asked every `TICK_S`; ticks count, for nobody runs while a computer sleeps.

        Only while ranks run there, or `whatever` it does.
        """
        if not (self.vitals.running or whatever) or not self.is_due or self.vitals.beats != self._beats:
            self._beats, self._still = self.vitals.beats, 0
            return False
        self._still += 1
        return self._still % round(GRACE_S / TICK_S) == 0

    @property
    def is_still(self) -> bool:
        """True if it has shown no sign of life since it was last looked at."""
        return self._still > 0

    @property
    def is_patient(self) -> bool:
        """True if one that is stuck, and in no line of a program, should be left alone for a while.

        It may wait for another process of a real MPI, which is stuck itself and will be ended by whoever watches it.
        """
        return self._still < _PATIENT_ROUNDS * round(GRACE_S / TICK_S)


class Frame(NamedTuple):
    """One entry of a stack."""

    file: str
    line: int
    function: str


def frames(said: str) -> list[Frame]:
    """Return the frames of a rank that `faulthandler` has written, innermost first, without those of the simulator.

    There are none where it was the simulator's turn, or where the end is missing, as it writes in pieces; below a
    rank's are none of whoever called the simulator. What was written last counts.
    """
    said = _BEGIN.split(said)[-1]
    found = [Frame(file, int(line), function) for file, line, function in _FRAME.findall(said)]
    if not (found and (_CUT in said or (found[-1].file, found[-1].function) == _LOWEST)):
        return []
    return _outside(found)


def innermost() -> Frame | None:
    """Return where the program stands that has called the simulator just now."""
    frame = sys._getframe(1)
    found = []
    while frame is not None:
        found.append(Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back  # type: ignore[assignment]
    return of_program(_outside(found))


def stuck(rank: int, stack: list[Frame]) -> str:
    """Say who does not come to an end: that rank, or the simulator if the stack has no frames."""
    return f"{f'rank {rank}' if stack else 'the simulator'} is in a call that does not come back"


def with_place(said: str, stack: list[Frame]) -> str:
    """Add the innermost line of a stack that is not installed, if there is one."""
    frame = of_program(stack)
    return said if frame is None else f"{said}\n    {shown(frame)}"


def shown(frame: Frame) -> str:
    """Show a frame to people: file, line, function and text."""
    file = frame.file
    with suppress(OSError):  # the folder may have been removed
        file = name_of(file, os.getcwd())
    text = text_of(frame.file, frame.line)
    return f"{file}:{frame.line} in {frame.function}{text and ': '}{text}"


def _outside(stack: list[Frame]) -> list[Frame]:
    return [frame for frame in stack if not (is_simulator(frame.file) or frame.file.startswith("<frozen "))]


def of_program(stack: list[Frame]) -> Frame | None:
    """Return the innermost frame that is not installed, if there is one; else the innermost."""
    own = [frame for frame in stack if not is_installed(frame.file)]
    return next(iter([*own, *stack]), None)
