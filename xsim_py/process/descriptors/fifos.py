"""FIFOs between ranks: all ranks are notified of each operation after the delay of a launcher's signal.

The FIFOs are real. But a reader sees data only once it has been notified of them, so that the result is the same for
any number of shards. If child processes may have a FIFO open, or if no rank has created it, not all operations are
notified, and ranks poll the real FIFO.
"""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from . import child_processes, pipes, sockets, waits

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath

    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank
    from xsim_py.process.ranks.shard import Shard

_CAPACITY = 65536
_READER, _WRITER, _WRITTEN, _TAKEN, _MADE, _FOUND = range(6)

expected = False
"""Whether a rank has created a FIFO; before that, opening a file does not check for one."""

_real_close, _real_open, _real_read = os.close, os.open, os.read


class _FifoState:
    """The state of a FIFO, as known to the ranks of a shard."""

    def __init__(self) -> None:
        self.open, self.opened = [0, 0], [0, 0]  # the current and the total number of readers and of writers
        self.written: dict[int, int] = {}  # bytes, by rank
        self.taken: dict[int, int] = {}  # bytes, by rank


def _note(place: int, rank: int, what: int, amount: int, shard: Shard) -> None:
    """Record in a shard an operation of a rank on a FIFO."""
    global expected
    expected = True
    if what == _MADE:
        shard.fifos.pop(place, None)  # that was another file
    known = shard.fifos.setdefault(place, _FifoState())
    if what in (_READER, _WRITER):
        known.open[what] += amount
        known.opened[what] += amount > 0
    elif what in (_WRITTEN, _TAKEN):
        table = known.written if what == _WRITTEN else known.taken
        table[rank] = table.get(rank, 0) + amount


def _tell(fiber: Fiber, place: int, what: int, amount: int) -> None:
    sockets.tell(fiber, partial(_note, place, fiber.rank.number, what, amount))


def notify_created(fiber: Fiber, path: StrOrBytesPath, *, found: bool) -> None:
    """Notify all ranks that one has created a FIFO, or found an existing one."""
    global expected
    expected = True
    _tell(fiber, os.stat(path).st_ino, _FOUND if found else _MADE, 0)


def end(rank: Rank, time_ps: int) -> None:
    """Close the FIFOs of a rank that has ended."""
    for number, each in list(pipes.ends.items()):
        if each.fifo is not None and each.fifo.rank == rank.number:
            pipes.forget(number)
            _real_close(number)
            notify = partial(_note, each.fifo.place, rank.number, each.fifo.side, -1)
            sockets.tell_at(rank, time_ps, notify)


def forget() -> None:
    """Stop checking for FIFOs: the run has ended."""
    global expected
    expected = False


class FifoEnd:
    """One end of a FIFO, as opened by a rank."""

    def __init__(self, fiber: Fiber, place: int, side: int) -> None:
        self.place = place  # the FIFO's inode number
        self.side = side  # `_READER` or `_WRITER`
        self.amount = 0  # the number of bytes that it has written or read
        self.rank = fiber.rank.number
        _tell(fiber, place, side, 1)

    def known(self, fiber: Fiber) -> _FifoState | None:
        """Return the known state of the FIFO; None if it may be used outside the simulation."""
        known: _FifoState | None = fiber.rank.shard.fifos.get(self.place)
        return None if known is None or child_processes.exist() else known

    def _there(self, known: _FifoState) -> int:
        """Return the number of unread bytes that it has been notified of."""
        others = sum(taken for rank, taken in known.taken.items() if rank != self.rank)
        return sum(known.written.values()) - others - self.amount

    def read(self, fiber: Fiber, number: int, count: int) -> bytes:
        """Read from the FIFO as `os.read` does, waiting in virtual time."""

        def ready() -> bool:
            known = self.known(fiber)
            really = pipes.is_ready(number, select.POLLIN)
            if known is None:
                return really
            return (self._there(known) > 0 and really) or (not known.open[_WRITER] and self._there(known) <= 0)

        if os.get_blocking(number):
            self._wait(fiber, ready, "something to be written into")
        known = self.known(fiber)
        if known is not None and count:
            # There may be more data, from a rank of another shard that is ahead: they have not been notified yet.
            count = min(count, self._there(known))
            if count <= 0 and not known.open[_WRITER]:
                return b""
            if count <= 0:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        data = _real_read(number, count)
        self.amount += len(data)
        _tell(fiber, self.place, _TAKEN, len(data))
        return data

    def wait_for_room(self, fiber: Fiber, number: int, count: int) -> None:
        """Wait until there is room for `count` bytes, as far as the rank has been notified."""

        def ready() -> bool:
            known = self.known(fiber)
            if known is None or not known.open[_READER]:
                return True
            others = sum(written for rank, written in known.written.items() if rank != self.rank)
            return others + self.amount - sum(known.taken.values()) + count <= _CAPACITY

        self._wait(fiber, ready, "room in")

    def written(self, fiber: Fiber, count: int) -> None:
        """Notify all ranks that `count` bytes have been written."""
        self.amount += count
        _tell(fiber, self.place, _WRITTEN, count)

    def _wait(self, fiber: Fiber, ready: Callable[[], object], what: str) -> None:
        if self.known(fiber) is None:
            waits.poll(fiber, ready)
        waits.until(fiber, ready, None, f"waits for {what} a FIFO")


def notify_closed(fiber: Fiber, end: pipes.End) -> None:
    """Notify all ranks that one has closed its end."""
    if end.fifo is not None:
        _tell(fiber, end.fifo.place, end.fifo.side, -1)


def open_fifo(fiber: Fiber, path: StrOrBytesPath, flags: int) -> int:
    """Open a FIFO as `os.open` does, waiting in virtual time for the other end to be opened."""
    place = os.stat(path).st_ino
    side = _READER if flags & os.O_ACCMODE == os.O_RDONLY else _WRITER
    other = _WRITER if side == _READER else _READER
    shard = fiber.rank.shard
    before = shard.fifos[place].opened[other] if place in shard.fifos else 0
    number = -1

    def is_there() -> bool:
        nonlocal number
        known: _FifoState | None = None if child_processes.exist() else shard.fifos.get(place)
        if known is not None and side == _WRITER and not known.open[_READER] and flags & os.O_ACCMODE == os.O_WRONLY:
            return False
        if number < 0:
            try:
                # Without this flag the call would block this process, and all ranks, until the other end is opened.
                number = _real_open(path, flags | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return False
            pipes.note(number, fifo=FifoEnd(fiber, place, side))
        if side == _WRITER:
            return True
        if known is None:
            return _has_writer(number)
        return known.open[_WRITER] > 0 or known.opened[_WRITER] > before

    if flags & os.O_NONBLOCK:
        number = _real_open(path, flags)
        pipes.note(number, fifo=FifoEnd(fiber, place, side))
        return number
    if child_processes.exist() or place not in shard.fifos:
        fiber.sync()
    if child_processes.exist():
        waits.poll(fiber, is_there)
    waits.until(fiber, is_there, None, f"waits for the other end of the FIFO {os.fsdecode(path)} to be opened")
    os.set_blocking(number, True)
    return number


def _has_writer(number: int) -> bool:
    """Return True if a FIFO is or was open for writing."""
    if pipes.is_ready(number, select.POLLIN):
        return True
    try:
        return bool(_real_read(number, 1))  # it is empty, so no data are lost
    except BlockingIOError:
        return True
