"""Child processes, which are real, as are the threads that wait for their pipes, and those threads' locks.

A child is a real process, outside of the simulation. `multiprocessing` and `concurrent.futures.process` serve children
with threads of this process, which pass results on by events and queues of `threading`. They are distinguished from the
program's own threads by the module that creates them. A multi-threaded caller of `simulate` may also have created an
event that one of these sets.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from contextlib import suppress
from operator import attrgetter
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

REAL_LOCKS: WeakSet[Any] = WeakSet()
"""The real locks created in ranks for this purpose."""

_real_threads = _thread._count  # excludes the main thread; patched in ranks
_REAL = (type(_thread.allocate_lock()), type(_thread.RLock()))
_lock_of = attrgetter("_lock")
_BETWEEN = ("threading", "queue", "concurrent.futures._base")
_SERVANTS = ("concurrent.futures.process", "asyncio.unix_events")

REAL_THREADS = "threads that serve children"
"""The key under which a rank keeps its real threads."""


def serves_children(depth: int) -> bool:
    """Return True if the caller, `depth` frames above, creates an object for child processes."""
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        if any(_lock_of(future._condition) in REAL_LOCKS for future in _futures(frame)):
            return True
        frame = frame.f_back
    name = "" if frame is None else str(frame.f_globals.get("__name__"))
    return name in _SERVANTS or name.startswith("multiprocessing.")


def _futures(frame: FrameType) -> Any:
    """Return the futures that a function of `concurrent.futures` is about to wait for, if any."""
    return frame.f_locals.get("fs", ()) if frame.f_code.co_name == "_create_and_install_waiters" else ()


def waits_for_real_thread(depth: int) -> bool:
    """Return True if the caller, `depth` frames above, is a condition that a real thread may notify.

    Its lock is one of `REAL_LOCKS`, or was created outside the simulation while other threads exist.
    """
    condition = sys._getframe(depth + 1).f_locals.get("self")
    if not isinstance(condition, threading.Condition):
        return False
    lock = _lock_of(condition)
    return lock in REAL_LOCKS or (isinstance(lock, _REAL) and _real_threads() > 0)


def has_real_threads(rank: Rank) -> bool:
    """Return True if a rank has real threads, which wait for child processes."""
    return any(thread.is_alive() for thread in (rank.extra or {}).get(REAL_THREADS, ()))


def exist() -> bool:
    """Return True if this process has child processes, except for one that `multiprocessing` has for itself."""
    try:
        # It fails if there are no children, and WNOWAIT leaves ended ones for the program to wait for.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    tracker: Any = sys.modules.get("multiprocessing.resource_tracker")
    pid = None if tracker is None else tracker._resource_tracker._pid
    if pid is None:
        return True
    try:
        return descendants() != [str(pid)]
    except OSError:
        return True


def descendants(process: str = "self") -> list[str]:
    """Return the children of a process and all their descendants."""
    found: list[str] = []
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/children") as file:
            for child in file.read().split():
                with suppress(FileNotFoundError):  # it has just ended
                    found += [child, *descendants(child)]
    return found
