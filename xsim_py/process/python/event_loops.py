"""`asyncio` in a rank: its loop waits in virtual time, and each rank has its own running loop.

A loop waits in one function, its selector's. There a rank is parked until its next timer is due, or until a socket may
be ready, of which other ranks and threads notify it (`waits`). If a loop waits for a child process's pipe, it waits in
real time, and the same time passes on its clock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from xsim_py.process.descriptors.polls import selected
from xsim_py.process.ranks import current, private_state
from xsim_py.process.ranks.patches import Patches, Table, Wrapper

if TYPE_CHECKING:
    from asyncio.base_events import BaseEventLoop
    from selectors import BaseSelector
    from types import ModuleType

_WHAT = "the event loop of asyncio, for a timer, a socket or another thread"


_LOOP = "running loop"


def _running_loop(events: ModuleType) -> private_state.Setting:
    """Return how to read and set asyncio's running loop."""
    return private_state.Setting(events._get_running_loop, events._set_running_loop)


def _select(real: Callable[..., Any], selector: BaseSelector, timeout: float | None) -> object:
    """Wait for events like the selector of a rank's event loop, and return them."""
    fiber = current.running()
    events: Any = sys.modules["asyncio.events"]
    setting = _running_loop(events)
    if _LOOP not in (fiber.rank.private_state or ()):  # from now on the rank's running loop is swapped with the rank
        private_state.touched(fiber.rank, _LOOP, setting, None)
    loop = setting.get()
    setting.set(None)  # for the other threads of the rank
    try:
        return selected(fiber, partial(real, selector), selector.get_map(), timeout, _WHAT)
    finally:
        setting.set(loop)


def _selecting(real: Callable[..., Any]) -> Callable[..., Any]:
    def select(self: BaseSelector, timeout: float | None = None) -> object:
        fiber = current.here()
        if fiber is None:
            return real(self, timeout)
        # A selector used directly by a program has no loop to remove.
        if sys._getframe(1).f_globals.get("__name__") == "asyncio.base_events":
            return _select(real, self, timeout)
        return selected(fiber, partial(real, self), self.get_map(), timeout)

    return select


def _making(real: Callable[..., None]) -> Callable[..., None]:
    """Return the initializer of a selector: a loop calls it when asyncio is imported but has no task yet."""

    def initialize(self: object) -> None:
        real(self)
        base: Any = sys.modules.get("asyncio.base_events")
        if base is not None and base.BaseEventLoop.create_task.__module__ != __name__:
            Patches.latest.install(_TASKS)

    return initialize


def _naming(real: Callable[..., Any]) -> Callable[..., Any]:
    """Number unnamed tasks separately in each rank; asyncio has one counter for all."""

    def create_task(self: BaseEventLoop, coro: object, **options: object) -> object:
        fiber = current.here()
        if fiber is None or options.get("name") is not None:
            return real(self, coro, **options)
        name = f"Task-{next(fiber.rank.private('asyncio tasks', partial(count, 1)))}"
        if self.get_task_factory() is None:
            return real(self, coro, **{**options, "name": name})
        task = real(self, coro, **options)  # a factory may not accept names
        if hasattr(task, "set_name"):
            task.set_name(name)
        return task

    return create_task


_TASKS: Table = (
    ("asyncio.base_events.BaseEventLoop", "private: counter in the names of tasks", {"create_task": Wrapper(_naming)}),
)
_KINDS = ("SelectSelector", "_PollLikeSelector", "EpollSelector", "KqueueSelector")
PATCHED: Table = (
    *((f"selectors.{name}", "virtual: waits in virtual time", {"select": Wrapper(_selecting)}) for name in _KINDS),
    ("selectors._BaseSelectorImpl", "watched: the simulator detects event loops", {"__init__": Wrapper(_making)}),
    *_TASKS,
)


def install(patches: Patches) -> None:
    """Make event loops of ranks wait in virtual time for the duration of a run."""
    patches.install(PATCHED)
    events: Any = sys.modules.get("asyncio.events")
    if events is None:
        return
    setting = _running_loop(events)
    running = setting.get()
    if running is not None:  # as in a notebook
        setting.set(None)
        patches.at_end(partial(setting.set, running))
