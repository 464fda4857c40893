"""The semaphores of `multiprocessing` in a rank: its other threads continue while one waits.

They are real semaphores, which child processes share. A thread that finds one taken is parked until another thread of
the rank releases it; if children may do so, the rank polls every millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Table

from . import child_processes, waits

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber

_module: Any = import_module("_multiprocessing")  # it has no type stubs
_Real: Any = _module.SemLock
_RECURSIVE = 0


class SemLock(_Real):  # type: ignore[misc]
    """The semaphore on which all locks of `multiprocessing.synchronize` are based."""

    _owner: Fiber | None = None

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Acquire it, waiting in virtual time, as `multiprocessing.Lock.acquire` does."""
        fiber = current.here()
        if fiber is None:
            taken: bool = super().acquire(block, timeout)
            return taken
        take = partial(self._take, fiber, super().acquire)
        if not block:
            return take()
        if child_processes.exist() or child_processes.has_real_threads(fiber.rank):
            return waits.poll(fiber, take, timeout)
        what = "waits for a lock or semaphore of multiprocessing that another thread is to release"
        return bool(waits.until(fiber, take, timeout, what))

    def _take(self, fiber: Fiber, acquire: Callable[[bool], bool]) -> bool:
        """Acquire it if it is free; the real one does not distinguish threads of ranks."""
        # The real one is held by this operating system thread, and any rank could acquire it again.
        if self.kind == _RECURSIVE and self._count() and self._owner is not fiber:
            return False
        if not acquire(False):
            return False
        self._owner = fiber
        return True

    def release(self) -> None:
        """Release it, as `multiprocessing.Lock.release` does."""
        super().release()
        fiber = current.here()
        if fiber is not None:
            waits.wake(fiber)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


PATCHED: Table = (("_multiprocessing", "virtual: waits in virtual time", {"SemLock": SemLock}),)
