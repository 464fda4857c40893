"""`select` in a rank: it waits for descriptors in virtual time, or only for the time if there are none."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Table

from . import child_processes, pipes, waits

if TYPE_CHECKING:
    from _typeshed import HasFileno

    from xsim_py.process.ranks.fiber import Fiber

_Files: TypeAlias = "Iterable[HasFileno | int]"
_real_select, _real_poll, _real_epoll = select.select, select.poll, getattr(select, "epoll", None)


def selected(
    fiber: Fiber, real: Callable[[float | None], Any], files: Iterable[Any], timeout_s: float | None, what: str = ""
) -> object:
    """Wait in virtual time for files; return the result of ``real(seconds)``, which would wait on the wall clock."""
    numbers = [file if isinstance(file, int) else file.fileno() for file in files]
    if not what:
        what = (
            f"waits for one of {len(numbers)} descriptors to be ready" if numbers else "waits indefinitely, for nothing"
        )

    def really() -> Callable[[float | None], Any] | None:
        return real if any(_is_real(fiber, number) for number in numbers) else None

    return waits.until(fiber, partial(real, 0), timeout_s, what, really)


def _is_real(fiber: Fiber, number: int) -> bool:
    """Return True if data may come from outside the simulation."""
    if number in pipes.ends:
        return pipes.is_of_child(fiber, number)
    return child_processes.has_real_threads(fiber.rank) or not stat.S_ISSOCK(os.fstat(number).st_mode)


def _select(reading: _Files, writing: _Files, special: _Files, timeout: float | None = None, /) -> object:
    """Wait in virtual time as `select.select` does."""
    fiber = current.here()
    if fiber is not None and timeout is not None and timeout <= 0:
        waits.await_turn(fiber)
        fiber = None  # it does not wait
    if fiber is None:
        return _real_select(reading, writing, special, timeout)
    lists = [list(files) for files in (reading, writing, special)]

    def real(timeout_s: float | None) -> object:
        found = _real_select(lists[0], lists[1], lists[2], timeout_s)
        return found if any(found) else ()

    return selected(fiber, real, chain(*lists), timeout) or ([], [], [])


class _Poll:
    """A `select.poll` or `select.epoll` that waits in virtual time; `per_second` is the unit of its timeouts."""

    def __init__(self, poll: Any, per_second: int) -> None:
        self._poll = poll
        self._per_second = per_second
        self._numbers: set[int] = set()

    def register(self, fd: HasFileno | int, *mask: int, **named: int) -> None:
        """Watch a file, as `select.poll.register` does."""
        self._poll.register(fd, *mask, **named)
        self._numbers.add(_number(fd))

    def unregister(self, fd: HasFileno | int) -> None:
        """Stop watching a file, as `select.poll.unregister` does."""
        self._poll.unregister(fd)
        self._numbers.discard(_number(fd))

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> object:
        """Wait in virtual time for one of the files, as `select.poll.poll` does."""
        more = () if self._per_second > 1 else (maxevents,)
        fiber = current.here()
        if timeout is not None and timeout < 0:
            timeout = None
        if fiber is not None and timeout == 0:
            waits.await_turn(fiber)
            fiber = None  # it does not wait
        if fiber is None:
            return self._poll.poll(timeout, *more)

        def real(timeout_s: float | None) -> object:
            return self._poll.poll(None if timeout_s is None else timeout_s * self._per_second, *more)

        return selected(fiber, real, self._numbers, None if timeout is None else timeout / self._per_second)

    def __enter__(self) -> _Poll:
        return self

    def __exit__(self, *_: object) -> None:
        self._poll.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poll, name)


def _number(file: HasFileno | int) -> int:
    return file if isinstance(file, int) else int(file.fileno())


def _make_poll() -> object:
    poll = _real_poll()
    return poll if current.here() is None else _Poll(poll, 1000)


def _make_epoll(*args: object, **kwargs: object) -> object:
    poll = _real_epoll(*args, **kwargs)  # type: ignore[misc]
    return poll if current.here() is None else _Poll(poll, 1)


PATCHED: Table = (
    ("select", "virtual: waits in virtual time", {"select": _select, "poll": _make_poll, "epoll": _make_epoll}),
)
