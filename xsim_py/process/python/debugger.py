"""``pdb`` in a rank shows the program's frames only, and steps over the simulator as over compiled code.

Under a real MPI a program has no frames of a simulator. That a debugger sees its own rank only is due to `watchers`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from xsim_py.code_origin import is_installed, is_simulator
from xsim_py.process.ranks.patches import Patches

__all__ = ["hide_simulator"]


def hide_simulator(patches: Patches, debugger: Any) -> None:
    """Have the class ``bdb.Bdb`` leave the simulator out for the duration of a run."""
    stop_here: Callable[[Any, FrameType], bool] = debugger.stop_here
    get_stack: Callable[[Any, Any, Any], tuple[list[tuple[FrameType, int]], int]] = debugger.get_stack
    if stop_here.__module__ == __name__:
        return

    def stop_outside(self: Any, frame: FrameType) -> bool:
        return not _inside_simulator(frame) and stop_here(self, frame)

    def stack_outside(self: Any, frame: Any, traceback: Any) -> tuple[list[tuple[FrameType, int]], int]:
        stack, index = get_stack(self, frame, traceback)
        shown = [entry for entry in stack if not _of_simulator(entry[0])]
        return shown, max(0, sum(entry in shown for entry in stack[: index + 1]) - 1)

    patches.set(debugger, "stop_here", stop_outside)
    patches.set(debugger, "get_stack", stack_outside)


def _of_simulator(frame: FrameType) -> bool:
    """Return whether a frame is the simulator's own."""
    file = frame.f_code.co_filename
    # The methods that `dataclasses` writes have no file, but the globals of the module of their class.
    return is_simulator(file) or (file[:1] == "<" and frame.f_globals.get("__name__", "").startswith("xsim_py."))


def _inside_simulator(frame: FrameType | None) -> bool:
    """Return whether a frame is the simulator's, or that of a library which the simulator called."""
    while frame is not None:
        if _of_simulator(frame):
            return True
        if not is_installed(frame.f_code.co_filename):
            return False
        frame = frame.f_back
    return False
