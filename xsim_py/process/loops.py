"""`asyncio` in a rank: its loop waits in virtual time, and each process has a running loop of its own.

A loop waits in one place, its selector. There a rank is parked until its next timer is due, or until a socket may have
something: other ranks and threads say so (`sockets`). Where a loop waits for anything but sockets, such as the pipe of
a child process, it really waits, and then the same time passes on its clock.
"""

from __future__ import annotations

import os
import selectors
import stat
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from . import current, own
from .children import SERVING
from .fiber import Fiber
from .locks import give_way, is_shared, look

if TYPE_CHECKING:
    from .patches import Patches
    from .rank import Rank

__all__ = ["install"]

_LEAST_PS = 1000  # loops count in nanoseconds
_SLICE_S = 0.001  # so long a loop really waits before the rank's other threads go on
_PATIENT_SLICES = 1000  # so often no time passes for them: then they may have to do something first


class _Pause:
    """A fiber that waits for a socket or a time; `sockets` takes it for the fiber.

    Attributes
    ----------
    over : bool
        Whether it has come.
    """

    __slots__ = ("fiber", "over")

    def __init__(self, fiber: Fiber) -> None:
        self.fiber = fiber
        self.over = False

    @property
    def rank(self) -> Rank:
        """Whose it is."""
        return self.fiber.rank

    @property
    def clock_ps(self) -> int:
        """The fiber's."""
        return self.fiber.clock_ps

    @clock_ps.setter
    def clock_ps(self, time_ps: int) -> None:
        if not self.over:
            self.fiber.clock_ps = time_ps

    def resume(self) -> None:
        """It has come, unless it had come before."""
        if not self.over and self.rank.exit_status is None:
            self.over = True
            self.fiber.resume()

    def describe(self) -> str:
        """One line for the roll-call."""
        return "the event loop of asyncio, for a timer, a socket or another thread"


_LOOP = "running loop"


def _select(real: Callable[..., Any], selector: Any, timeout: float | None) -> Any:
    """What a loop of a rank gets from its selector."""
    fiber: Any = current.fiber
    look(fiber)
    _note_loop(fiber.rank)
    found = real(selector, 0)
    if found or (timeout is not None and timeout <= 0):
        return found
    if _is_about_children(fiber.rank, selector):
        return _wait_really(fiber, partial(real, selector), timeout)
    fiber.sync()
    until_ps = None if timeout is None else fiber.clock_ps + max(_LEAST_PS, round(timeout * 10**12))
    while not found and (until_ps is None or fiber.clock_ps < until_ps):
        _pause(fiber, until_ps)
        found = real(selector, 0)
    return found


def _wait_really(fiber: Fiber, select: Callable[[float | None], Any], timeout: float | None) -> Any:
    """Wait for a child. Its time does not count, but if it does not come the loop's timer does."""
    if not is_shared(fiber.rank):
        found = select(timeout)
        if not found and timeout is not None:
            fiber.sleep(round(timeout * 10**12))
        return found
    slices: list[int] = fiber.rank.private("slices", lambda: [0])
    found = select(_SLICE_S)
    slices[0] = 0 if found else slices[0] + 1
    if slices[0] > _PATIENT_SLICES:
        fiber.sleep(round(_SLICE_S * 10**12))
    elif not found:
        give_way(fiber)
    return found


def _is_about_children(rank: Rank, selector: Any) -> bool:
    """Whether something may come from outside of the simulation."""
    if any(thread.is_alive() for thread in (rank.extra or {}).get(SERVING, ())):
        return True
    return not all(stat.S_ISSOCK(os.fstat(key.fd).st_mode) for key in selector.get_map().values())


def _pause(fiber: Fiber, until_ps: int | None) -> None:
    pause = _Pause(fiber)
    rank = fiber.rank
    rank.shard.socket_waiters.append(pause)
    if until_ps is not None:
        rank.key += 1
        rank.shard.kernel.post(until_ps, rank.key, _due, (pause, until_ps))
    events: Any = sys.modules["asyncio.events"]
    loop = events._get_running_loop()
    events._set_running_loop(None)  # for the other threads of the rank
    fiber.park(pause)
    events._set_running_loop(loop)


def _due(entry: tuple[_Pause, int]) -> None:
    pause, until_ps = entry
    if not pause.over and pause.rank.exit_status is None:
        pause.clock_ps = max(pause.clock_ps, until_ps)
        pause.rank.shard.socket_waiters.remove(pause)
        pause.resume()


def _note_loop(rank: Rank) -> None:
    """From now on the rank's running loop is put in place and taken away with the rank."""
    if rank.own is None or _LOOP not in rank.own:
        events: Any = sys.modules["asyncio.events"]
        setting = own.Setting(events._get_running_loop, events._set_running_loop)
        own.touched(rank, _LOOP, setting, None)


def _selecting(real: Callable[..., Any]) -> Callable[..., Any]:
    def select(self: Any, timeout: float | None = None) -> Any:
        if current.here() is None or sys._getframe(1).f_globals.get("__name__") != "asyncio.base_events":
            return real(self, timeout)
        return _select(real, self, timeout)

    return select


def _making(real: Callable[..., None], patches: Patches) -> Callable[..., None]:
    """The initializer of a selector: a loop makes one, so by then asyncio has been imported, and has no task yet."""

    def initialize(self: Any) -> None:
        real(self)
        base: Any = sys.modules.get("asyncio.base_events")
        if base is not None and base.BaseEventLoop.create_task.__module__ != __name__:
            patches.set(base.BaseEventLoop, "create_task", _naming(base.BaseEventLoop.create_task))

    return initialize


def _naming(real: Callable[..., Any]) -> Callable[..., Any]:
    """Number the tasks that get no name in each process by itself: asyncio has one counter for all."""

    def create_task(self: Any, coro: Any, **told: Any) -> Any:
        fiber = current.here()
        if fiber is None or told.get("name") is not None:
            return real(self, coro, **told)
        name = f"Task-{next(fiber.rank.private('asyncio tasks', partial(count, 1)))}"
        if self.get_task_factory() is None:
            return real(self, coro, **{**told, "name": name})
        task = real(self, coro, **told)  # a factory need not know of names
        if hasattr(task, "set_name"):
            task.set_name(name)
        return task

    return create_task


def install(patches: Patches) -> None:
    """Let loops of ranks wait in virtual time for the duration of a run."""
    kinds = {name: kind for name, kind in vars(selectors).items() if isinstance(kind, type) and kind.__name__ == name}
    for kind in kinds.values():  # one of them has two names
        if "select" in vars(kind):
            patches.set(kind, "select", _selecting(vars(kind)["select"]))
    common: Any = selectors._BaseSelectorImpl
    patches.set(common, "__init__", _making(common.__init__, patches))
    events: Any = sys.modules.get("asyncio.events")
    running = None if events is None else events._get_running_loop()
    if running is not None:  # as in a notebook
        events._set_running_loop(None)
        patches.at_end(partial(events._set_running_loop, running))
