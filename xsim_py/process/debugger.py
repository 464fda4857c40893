"""``pdb`` in a rank: it sees that rank's frames and no others, and steps over the simulator as over compiled code.

A trace function belongs to a process. `own` swaps it with the ranks; what is left to do is to hide the simulator's
frames, which a program would not have under a real MPI.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import greenlet

from . import current, own
from .complaint import is_simulator
from .modules import is_installed
from .patches import Patches

__all__ = ["install"]


def install(patches: Patches) -> None:
    """Give each rank a trace function of its own for the duration of a run."""
    real_settrace = sys.settrace
    follows = hidden = False

    def follow(*_: object) -> None:
        # Since Python 3.12 a trace function is told of the lines of those functions only that are running when it is
        # set, and of those that are called later. What is running in a greenlet is seen from inside of it, and to set
        # what is set already is to do nothing.
        function = sys.gettrace()
        if function is not None:
            real_settrace(None)
            real_settrace(function)

    def settrace(function: Any) -> None:
        nonlocal follows, hidden
        fiber = current.here()
        if fiber is not None:
            own.change(fiber.rank, "trace", sys.gettrace(), function)
            if not follows:
                follows = True
                before = greenlet.settrace(follow)
                patches.at_end(partial(greenlet.settrace, before))
            if not hidden and "bdb" in sys.modules:
                hidden = True
                _hide_simulator(patches, sys.modules["bdb"].Bdb)
        real_settrace(function)

    patches.set(sys, "settrace", settrace)


def _hide_simulator(patches: Patches, debugger: Any) -> None:
    stop_here: Callable[[Any, FrameType], bool] = debugger.stop_here
    get_stack: Callable[[Any, Any, Any], tuple[list[tuple[FrameType, int]], int]] = debugger.get_stack

    def stop_outside(self: Any, frame: FrameType) -> bool:
        return not _inside_simulator(frame) and stop_here(self, frame)

    def stack_outside(self: Any, frame: Any, traceback: Any) -> tuple[list[tuple[FrameType, int]], int]:
        stack, index = get_stack(self, frame, traceback)
        shown = [entry for entry in stack if not is_simulator(entry[0].f_code.co_filename)]
        return shown, max(0, sum(entry in shown for entry in stack[: index + 1]) - 1)

    patches.set(debugger, "stop_here", stop_outside)
    patches.set(debugger, "get_stack", stack_outside)


def _inside_simulator(frame: FrameType | None) -> bool:
    """Whether a frame is the simulator's, or that of a library which the simulator called."""
    while frame is not None:
        file = frame.f_code.co_filename
        if is_simulator(file):
            return True
        if not is_installed(file):
            return False
        frame = frame.f_back
    return False
