"""Pipes created by ranks: a rank that finds one empty or full waits in virtual time.

The pipes are real. One that a rank has created is private to it, so another of its threads waits for it, which
continues when data are written or read. If a child process has the other end, as far as can be determined, the rank
waits in real time.

FIFOs are known to all ranks; see `fifos`.
"""

from __future__ import annotations

import os
import select
import stat
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import outside_frame
from xsim_py.process.output.standard_descriptors import virtual_descriptors

from . import child_processes, sockets, waits

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from xsim_py.process.ranks.fiber import Fiber

_ATOMIC = select.PIPE_BUF
_REALLY_WAITED_FOR = ("multiprocessing.", "concurrent.", "asyncio.")
_OURS = "multiprocessing.connection"

ends: dict[int, End] = {}
"""The ends of pipes and other descriptors that ranks wait for by reading, by descriptor."""

_real_open, _real_read, _real_write, _real_poll = os.open, os.read, os.write, select.poll


class End:
    """One end of a pipe."""

    __slots__ = ("common", "fifo", "inode", "is_of_child", "served")

    def __init__(self, inode: int, *, common: bool, served: bool) -> None:
        self.inode = inode
        self.common = common  # whether other ranks may have the other end
        self.served = served  # whether a real thread of `multiprocessing` may have the other end
        self.is_of_child = False  # whether it was created for a child process
        self.fifo: Any = None  # a `FifoEnd` if it is one of a FIFO


def note_made(*numbers: int) -> None:
    """Register a pipe, socket pair or similar created by a rank; not those of real threads."""
    name = str(outside_frame().f_globals.get("__name__"))
    if name == _OURS or not name.startswith(_REALLY_WAITED_FOR):
        for number in numbers:
            note(number, served=name == _OURS).is_of_child = name == "subprocess"


def note(number: int, *, fifo: object = None, served: bool = False) -> End:
    """Register a descriptor as the end of a pipe or FIFO."""
    known = os.fstat(number)
    end = ends[number] = End(known.st_ino, common=stat.S_ISSOCK(known.st_mode), served=served)
    end.fifo = fifo
    virtual_descriptors.add(number)
    return end


def note_copy(number: int, copy: int) -> None:
    """Record that a rank has made `copy` a duplicate of `number`."""
    end = ends.get(number)
    if end is not None:
        ends[copy] = end
        virtual_descriptors.add(copy)
    elif copy in ends:
        forget(copy)


def forget(number: int) -> None:
    """Forget a closed descriptor."""
    del ends[number]
    if number > 2:
        virtual_descriptors.discard(number)


def wake_waiters(fiber: Fiber, end: End) -> None:
    """Make ranks that wait for a pipe check again, after an operation of the running fiber."""
    waits.wake(fiber)
    if end.common:
        sockets.tell(fiber)


def is_ready(number: int, event: int) -> bool:
    """Return True if a call on a descriptor would not block."""
    poll = _real_poll()
    poll.register(number, event)
    return bool(poll.poll(0))


def _wait(fiber: Fiber, number: int, event: int, what: str) -> None:
    def really(timeout_s: float | None) -> list[tuple[int, int]]:
        poll = _real_poll()
        poll.register(number, event)
        return poll.poll(None if timeout_s is None else timeout_s * 1000)

    ready = partial(is_ready, number, event)
    waits.until(fiber, ready, None, what, lambda: really if is_of_child(fiber, number) else None)


def read(fiber: Fiber, number: int, count: int) -> bytes:
    """Read from a pipe as `os.read` does, waiting in virtual time."""
    if ends[number].fifo is not None:
        data: bytes = ends[number].fifo.read(fiber, number, count)
        return data
    if os.get_blocking(number):
        _wait(fiber, number, select.POLLIN, f"waits for something to be written into {_named(number)}")
    data = _real_read(number, count)
    wake_waiters(fiber, ends[number])
    return data


def write(fiber: Fiber, number: int, data: ReadableBuffer) -> int:
    """Write to a pipe as `os.write` does, in pieces for which there is room."""
    if not os.get_blocking(number):
        written = _real_write(number, data)
        wake_waiters(fiber, ends[number])
        return written
    view = memoryview(data).cast("B")
    done = 0
    while done < len(view) or not done:
        # A pipe that is ready for writing has room for at least this many bytes, so the real call never blocks.
        piece = view[done : done + _ATOMIC]
        fifo = ends[number].fifo
        if fifo is not None:
            fifo.wait_for_room(fiber, number, len(piece))
        _wait(fiber, number, select.POLLOUT, f"waits for room in {_named(number)}")
        done += _real_write(number, piece)
        if fifo is not None:
            fifo.written(fiber, len(piece))
        wake_waiters(fiber, ends[number])
        if not len(view):
            break
    return done


def _named(number: int) -> str:
    end = ends[number]
    return f"the {'FIFO' if end.fifo else 'pipe'} of descriptor {number}"


# --------------------------------------------------------------------------------------------------------- children


def is_of_child(fiber: Fiber, number: int) -> bool:
    """Return True if a real process or thread may use the other end of a descriptor."""
    end = ends.get(number)
    if end is not None and end.is_of_child:
        return True
    if (end is None or end.served) and child_processes.has_real_threads(fiber.rank):
        return True
    if not child_processes.exist():
        return False
    if end is None or stat.S_ISSOCK(os.fstat(number).st_mode):
        return True  # the other end of a socket has a different inode
    try:
        return any(_has_open(child, end.inode) for child in child_processes.descendants())
    except OSError:  # the system does not provide this
        return True


def _has_open(process: str, inode: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        for name in os.listdir(f"/proc/{process}/fd"):
            with suppress(FileNotFoundError):
                if os.stat(f"/proc/{process}/fd/{name}").st_ino == inode:
                    return True
    return False
