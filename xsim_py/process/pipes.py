"""Pipes that ranks have made: who finds one empty, or full, waits in virtual time.

They are real ones. One that a rank has made is its own, so what waits for it is another thread of the rank, which goes
on at the time when something is put there or taken out. Where a child process has the other end, as far as one can see
that, the rank really waits.

A FIFO is known to all ranks. What a rank does to one, the others learn after the time of a launcher's notice, as with
sockets, and who waits looks again.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from . import sockets, waits
from .standard import special

if TYPE_CHECKING:
    from .fiber import Fiber

__all__ = ["ends", "forget", "has_children", "is_of_child", "made", "open_fifo", "read", "same", "touched", "write"]

_ATOMIC = select.PIPE_BUF
_REALLY_WAITED_FOR = ("subprocess", "multiprocessing.", "concurrent.", "asyncio.")
_OURS = "multiprocessing.connection"

ends: dict[int, End] = {}
"""The ends of pipes, and what else ranks wait for by reading it, by their descriptors."""

_real_open, _real_read, _real_write, _real_poll = os.open, os.read, os.write, select.poll


class End:
    """One end of a pipe.

    Attributes
    ----------
    inode : int
        The pipe's.
    common : bool
        Whether other ranks may have the other end.
    """

    __slots__ = ("common", "inode")

    def __init__(self, inode: int, *, common: bool) -> None:
        self.inode = inode
        self.common = common


def made(*numbers: int) -> None:
    """A rank has made a pipe, or a pair of sockets without names, or the like; not for what waits for children."""
    name = str(sys._getframe(2).f_globals.get("__name__"))
    if name == _OURS or not name.startswith(_REALLY_WAITED_FOR):
        for number in numbers:
            _note(number)


def _note(number: int, *, fifo: bool = False) -> None:
    known = os.fstat(number)
    ends[number] = End(known.st_ino, common=fifo or stat.S_ISSOCK(known.st_mode))
    special.add(number)


def same(number: int, copy: int) -> None:
    """A rank has made `copy` the same as `number`."""
    end = ends.get(number)
    if end is not None:
        ends[copy] = end
        special.add(copy)
    elif copy in ends:
        forget(copy)


def forget(number: int) -> None:
    """A descriptor has been closed."""
    del ends[number]
    if number > 2:
        special.discard(number)


def touched(fiber: Fiber, end: End) -> None:
    """The running fiber has done something to a pipe: who waits for that may go on."""
    waits.wake(fiber)
    if end.common:
        sockets.tell(fiber)


def is_ready(number: int, event: int) -> bool:
    """Whether a call would not wait."""
    poll = _real_poll()
    poll.register(number, event)
    return bool(poll.poll(0))


def _wait(fiber: Fiber, number: int, event: int, what: str) -> None:
    def really(timeout_s: float | None) -> Any:
        poll = _real_poll()
        poll.register(number, event)
        return poll.poll(None if timeout_s is None else timeout_s * 1000)

    waits.until(fiber, partial(is_ready, number, event), None, what, really if is_of_child(fiber, number) else None)


def read(fiber: Fiber, number: int, count: int) -> bytes:
    """`os.read` from a pipe."""
    if os.get_blocking(number):
        _wait(fiber, number, select.POLLIN, f"os.read: something to be written into {_named(number)}")
    data = _real_read(number, count)
    touched(fiber, ends[number])
    return data


def write(fiber: Fiber, number: int, data: Any) -> int:
    """`os.write` into a pipe: so much at a time as there is room for."""
    if not os.get_blocking(number):
        written = _real_write(number, data)
        touched(fiber, ends[number])
        return written
    view = memoryview(data).cast("B")
    done = 0
    while done < len(view) or not done:
        _wait(fiber, number, select.POLLOUT, f"os.write: {_named(number)} to have room")
        done += _real_write(number, view[done : done + _ATOMIC])
        touched(fiber, ends[number])
        if not len(view):
            break
    return done


def _named(number: int) -> str:
    end = ends[number]
    return f"the {'FIFO' if end.common else 'pipe'} of descriptor {number}"


# ------------------------------------------------------------------------------------------------------------ FIFOs


def open_fifo(fiber: Fiber, path: Any, flags: int) -> int:
    """`os.open` of a FIFO, which waits for who opens the other end.

    Raises
    ------
    OSError
        As the real one.
    """
    number = -1

    def is_there() -> bool:
        nonlocal number
        if number < 0:
            try:
                number = _real_open(path, flags | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return False
            _note(number, fifo=True)
            sockets.tell(fiber)
        return flags & os.O_ACCMODE != os.O_RDONLY or _has_writer(number)

    if not flags & os.O_NONBLOCK:
        if has_children():
            waits.poll(fiber, is_there)
        waits.until(fiber, is_there, None, f"open: the other end of the FIFO {os.fsdecode(path)} to be opened")
        os.set_blocking(number, True)
    else:
        number = _real_open(path, flags)
        _note(number, fifo=True)
        sockets.tell(fiber)
    return number


def _has_writer(number: int) -> bool:
    """Whether somebody has a FIFO open for writing, or has had."""
    if is_ready(number, select.POLLIN):
        return True
    try:
        return bool(_real_read(number, 1))  # nothing is there, so nothing is taken
    except BlockingIOError:
        return True


# --------------------------------------------------------------------------------------------------------- children


def is_of_child(fiber: Fiber, number: int) -> bool:
    """Whether reality may do something to a descriptor: another process has it, or a thread that serves one."""
    if waits.serves_children(fiber.rank):
        return True
    if not has_children():
        return False
    end = ends.get(number)
    if end is None or stat.S_ISSOCK(os.fstat(number).st_mode):
        return True  # the other end of a socket has another inode
    try:
        return any(_has_open(child, end.inode) for child in _children("self"))
    except OSError:  # a system that does not tell
        return True


def has_children() -> bool:
    """Whether this process has any."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children(process: str) -> list[str]:
    """The processes that one has started, and those that they have."""
    found: list[str] = []
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/children") as file:
            for child in file.read().split():
                with suppress(FileNotFoundError):  # it has just ended
                    found += [child, *_children(child)]
    return found


def _has_open(process: str, inode: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        for name in os.listdir(f"/proc/{process}/fd"):
            with suppress(FileNotFoundError):
                if os.stat(f"/proc/{process}/fd/{name}").st_ino == inode:
                    return True
    return False
