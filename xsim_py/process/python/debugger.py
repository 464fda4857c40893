"""``pdb`` in a rank shows the program's frames only, and steps over the simulator as over compiled code.

Under a real MPI a program has no frames of a simulator. That a debugger sees its own rank only is due to `watchers`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from xsim_py.code_origin import is_installed, is_simulator
from xsim_py.process.ranks.patches import Around, Patches, Table


def _stopping(real: Callable[[Any, FrameType], bool]) -> Callable[[Any, FrameType], bool]:
    return lambda self, frame: not _inside_simulator(frame) and real(self, frame)


def _stacking(real: Callable[[Any, Any, Any], tuple[list[tuple[FrameType, int]], int]]) -> Callable[..., Any]:
    def get_stack(self: Any, frame: Any, traceback: Any) -> tuple[list[tuple[FrameType, int]], int]:
        stack, index = real(self, frame, traceback)
        shown = [entry for entry in stack if not _of_simulator(entry[0])]
        return shown, max(0, sum(entry in shown for entry in stack[: index + 1]) - 1)

    return get_stack


PATCHED: Table = (
    (
        "bdb.Bdb",
        "private: stack without the simulator",
        {"stop_here": Around(_stopping), "get_stack": Around(_stacking)},
    ),
)


def hide_simulator() -> None:
    """Have debuggers leave the simulator out for the rest of a run, if there are any."""
    if "bdb" in sys.modules and sys.modules["bdb"].Bdb.stop_here.__module__ != __name__:
        Patches.latest.install(PATCHED)


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
        # What `collections.namedtuple` writes is Python's library, too.
        if not (
            is_installed(frame.f_code.co_filename) or frame.f_globals.get("__name__", "").startswith("namedtuple_")
        ):
            return False
        frame = frame.f_back
    return False
