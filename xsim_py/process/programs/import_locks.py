"""Import locks in virtual time: a rank or thread waits for a module that is being imported.

Real processes share no modules, and a thread waits for a module that another thread is importing. A rank may wait in
the middle of an import (for a message, a time; with ``--compute measured`` at any call), and then other ranks run. Each
module that a rank executes is recorded here; Python's own import locks only know the one thread that runs all ranks.
"""

from __future__ import annotations

import importlib
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from xsim_py.process.python import dates, sys_modules
from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Patches, Table, Wrapper, with_real
from xsim_py.process.ranks.queues import QueuedFiber, wait_in_queue, wake_next

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank

_modules = sys.modules


class _Making:
    """A module that is being executed, by a fiber for its rank or for all ranks."""

    __slots__ = ("failed", "fiber", "key", "line", "module")

    def __init__(self, fiber: Fiber, key: tuple[Rank | None, str], module: ModuleType) -> None:
        self.fiber = fiber
        self.key = key
        self.module = module
        self.line: deque[QueuedFiber] = deque()
        self.failed = False

    def described(self, _: Rank) -> str:
        """Return the deadlock report's description of a fiber that waits for this module."""
        return f"rank {self.fiber.rank.number} to import {self.key[1]}"

    def end(self, *, failed: bool) -> None:
        """Resume the fibers that wait for it."""
        self.failed = failed
        if _now.get(self.key) is self:
            del _now[self.key]
        for place in self.line:
            place.fiber.clock_ps = max(place.fiber.clock_ps, self.fiber.clock_ps)
        while self.line:
            wake_next(self.line)


_now: dict[tuple[Rank | None, str], _Making] = {}
_waiting: dict[Fiber, _Making] = {}


@contextmanager
def being_imported(module: ModuleType, *, rank: Rank | None) -> Iterator[None]:
    """Record a module while the running fiber executes it, for a rank or (None) for all of them."""
    fiber = current.running()
    making = _Making(fiber, (rank, module.__name__), module)
    _now[making.key] = making
    failed = True
    try:
        with dates.virtual(), sys_modules.importing(fiber, for_all=rank is None):
            yield
        failed = False
    finally:
        making.end(failed=failed)


def drop(rank: Rank) -> None:
    """Drop the unfinished imports of a failed rank; other ranks then import the modules themselves."""
    for making in [each for each in _now.values() if each.fiber.rank is rank]:
        if making.key[0] is None and _modules.get(making.key[1]) is making.module:
            del _modules[making.key[1]]
        making.end(failed=True)


def _wait(name: str, *, within: bool = False) -> _Making | None:
    """Wait for a module that is being imported, unless that import waits for this fiber's.

    A thread that imports a module of a package (`within`) does not wait for another thread's import of the package.
    """
    fiber = current.here()
    if fiber is None or not _now:
        return None
    making = _now.get((fiber.rank, name)) or _now.get((None, name))
    if making is None or _depends(making.fiber, fiber) or (within and making.fiber.rank is fiber.rank):
        return None
    _waiting[fiber] = making
    try:
        wait_in_queue(fiber, making.line, making)
    finally:
        del _waiting[fiber]
    return making


def _depends(fiber: Fiber, on: Fiber) -> bool:
    """Return True if a fiber is `on`, or waits for a module that `on` is to import."""
    seen = set()
    while fiber is not on and fiber in _waiting and fiber not in seen:
        seen.add(fiber)
        fiber = _waiting[fiber].fiber
    return fiber is on


def _find_and_load(real: Callable[..., Any], name: str, import_: object) -> object:
    if name.startswith("mpi4py") and (module := sys_modules.show_mpi(name)) is not None:
        return module
    while _now and any(_wait(package, within=True) for package in _packages(name)):
        pass
    return real(name, import_)


def _packages(name: str) -> list[str]:
    """Return the packages that contain a module, from the outermost on."""
    return [name[:place] for place, sign in enumerate(name) if sign == "."]


def _lock_unlock_module(real: Callable[..., Any], name: str) -> None:
    making = _wait(name)
    if making is None:
        real(name)
    elif making.failed:  # Python has got the other rank's incomplete module
        vars(making.module).update(vars(importlib.import_module(name)))


def _unseen(function: Callable[..., Any]) -> Wrapper:
    """Replace a function by one that Python omits from tracebacks, because its code claims this file name."""
    code = function.__code__.replace(co_filename="<frozen importlib._bootstrap>")
    return with_real(FunctionType(code, globals(), function.__name__))


_TWINS = {each.__name__: _unseen(each) for each in (_find_and_load, _lock_unlock_module)}
PATCHED: Table = (("_frozen_importlib", "virtual: waits while another rank imports the module", _TWINS),)


def install(patches: Patches) -> None:
    """Make imports wait for each other for the duration of a run."""
    patches.install(PATCHED)
    patches.at_end(_forget)


def _forget() -> None:
    """Remove the modules whose import was unfinished at the end of the run."""
    for making in list(_now.values()):
        if _modules.get(making.key[1]) is making.module:
            del _modules[making.key[1]]
    _now.clear()
    sys_modules.forget()
    _waiting.clear()
