"""What Python needs for child processes stays real: threads that wait for pipes, and the locks between them and a rank.

A child is a real process, outside of the simulation. `multiprocessing` and `concurrent.futures.process` have threads of
this process that serve it, and hand over what comes by events and queues made in `threading`. These are told from the
program's own by who makes them.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any
from weakref import WeakSet

__all__ = ["REAL_LOCKS", "SERVING", "are_served", "waits_really"]

REAL_LOCKS: WeakSet[Any] = WeakSet()
"""The real locks that were made in ranks for this."""

_BETWEEN = ("threading", "queue", "concurrent.futures._base")
_SERVANTS = ("concurrent.futures.process", "asyncio.unix_events")

SERVING = "threads that serve children"
"""Under this name a rank keeps its real threads."""


def are_served(depth: int) -> bool:
    """Whether the caller, so many frames above, makes something for child processes."""
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        if any(map(_is_of_child, _futures(frame))):
            return True
        frame = frame.f_back
    name = "" if frame is None else str(frame.f_globals.get("__name__"))
    return name in _SERVANTS or name.startswith("multiprocessing.")


def _futures(frame: FrameType) -> Any:
    """Those that a function of `concurrent.futures` is about to wait for."""
    return frame.f_locals.get("fs", ()) if frame.f_code.co_name == "_create_and_install_waiters" else ()


def _is_of_child(future: Any) -> bool:
    return future._condition._lock in REAL_LOCKS


def waits_really(depth: int) -> bool:
    """Whether the caller, so many frames above, is a condition whose lock is one of `REAL_LOCKS`."""
    condition = sys._getframe(depth + 1).f_locals.get("self")
    return isinstance(condition, threading.Condition) and condition._lock in REAL_LOCKS  # type: ignore[attr-defined]
