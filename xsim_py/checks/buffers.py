"""Checks of buffers that are in use: a send buffer must not be written, a receive buffer not touched (MPI 4.1, 3.7.2).

While a send is under way the numpy array that holds its buffer is read-only, so that a write raises an exception at
the program's own line. What can be written by another way is found by its check sum when the request is completed. A
receive buffer is filled with a value that nobody sends, so that whoever reads it too early sees that; what a message
does not fill gets its old content back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.findings import LOCAL_CONCURRENCY
from xsim_py.mpi.checksum import crc32
from xsim_py.mpi4py.bufspec import message
from xsim_py.mpi4py.memory import is_in_place

from .touches import LOAD

if TYPE_CHECKING:
    from collections.abc import Callable

    from .monitor import Monitor, MpiCall, RankState
    from .requests import RequestRecord

_POISON = 0xA5
"""A number of this byte is far from usual ones, and is no NaN, which stays the same whatever is added to it."""
_MOST_PIECES = 4096


class Used:
    """A buffer that a request uses.

    Attributes
    ----------
    pieces : list of (int, int)
        The addresses between which it lies, in ascending order.
    reads : bool
        Whether the request only reads it.
    """

    __slots__ = (
        "array",
        "check",
        "is_noted",
        "kept",
        "kind",
        "locked",
        "monitor",
        "parsed",
        "pieces",
        "reads",
        "record",
        "state",
    )

    def __init__(self, monitor: Monitor, state: RankState, buf: Any, parsed: Any, *, reads: bool) -> None:
        self.monitor = monitor
        self.state = state
        self.array = buf[0] if isinstance(buf, list | tuple) else buf
        self.parsed = parsed
        self.reads = reads
        self.kind = "send" if reads else "receive"
        self.pieces = _pieces(parsed)
        self.locked: list[Any] = []
        self.check = 0
        self.is_noted = False
        self.kept = b""
        self.record: Any = None

    def begin(self, record: Any) -> None:
        """Guard the buffer from now on, for a request."""
        self.record = record
        record.used.append(self)
        self.state.buffers.append(self)
        task = record.task
        if self.reads:
            self._lock()
            self.check = crc32(self.parsed.pack())
        elif task is not None and task.finish is not None:  # it can be told when its message is stored
            self.kept = self.parsed.pack()
            self.parsed.unpack(bytes([_POISON]) * len(self.kept))
            self._lock()
            self.check = crc32(self.parsed.pack())
            if not isinstance(task.finish, _Restoring):  # each start of a persistent request comes here
                task.finish = _Restoring(record, task.finish)

    def touched(self, how: str, place: tuple[str, int], pieces: list[tuple[int, int]]) -> None:
        """Take note that a line of the program loads from the buffer or stores to it."""
        if self.record is None or (self.reads and how == LOAD):
            return
        self.is_noted = True
        verb = "read" if how == LOAD else "written"
        text = f"the {self.kind} buffer of {self.record.title} is {verb} before the request is completed"
        where = f"{self.monitor.where(self.record.place)}: {self.record.title}"
        self.monitor.note(LOCAL_CONCURRENCY, place, text, self.state.number, where)

    def _lock(self) -> None:
        """Make the program's array read-only, and what it is a view of where that is the same memory."""
        array = self.array
        size_bytes = sum(end - start for start, end in self.pieces)
        while type(array) is np.ndarray and array.flags.writeable and array.nbytes == size_bytes:
            array.flags.writeable = False
            self.locked.append(array)
            array = array.base

    def unlock(self) -> None:
        """Let the array be written again."""
        for array in reversed(self.locked):
            array.flags.writeable = True
        self.locked.clear()

    def restore(self) -> None:
        """Put the old content back into a receive buffer, before a message fills what it does: it must be untouched."""
        self.unlock()
        if self.kept:
            self._compare()
            self.parsed.unpack(self.kept)
            self.kept = b""

    def end(self) -> None:
        """Leave the buffer to the program again."""
        if self in self.state.buffers:
            self.state.buffers.remove(self)
        if self.reads:
            self.unlock()
            self._compare()
        else:
            self.restore()

    def _compare(self) -> None:
        if self.is_noted or self.record is None or crc32(self.parsed.pack()) == self.check:
            return
        text = f"the {self.kind} buffer of {self.record.title} is written before the request is completed"
        self.monitor.note(LOCAL_CONCURRENCY, self.record.place, text, self.state.number)


class _Restoring:
    """Stores the data of a request, after the buffer has got its old content back."""

    def __init__(self, record: RequestRecord, finish: Callable[[Any], Any]) -> None:
        self.record = record
        self.finish = finish

    def __call__(self, data: Any) -> Any:
        for used in self.record.used:
            used.restore()
        return self.finish(data)


def _parsed(buf: Any, *, writable: bool) -> Any:
    """Return a buffer argument as it is understood, or None."""
    if buf is None or is_in_place(buf):
        return None
    try:
        parsed = message(buf, writable=writable)
        return parsed if parsed.count and parsed.datatype.size else None
    except Exception:  # the call itself will say what is wrong
        return None


def _address(memory: Any) -> int:
    # `ctypes.data` takes three times as long.
    return int(np.frombuffer(memory, np.uint8).__array_interface__["data"][0]) if len(memory) else 0


def _pieces(parsed: Any) -> list[tuple[int, int]]:
    """Return the addresses between which the elements lie; empty where they are too many to tell."""
    core, count = parsed.datatype, parsed.count
    at = _address(parsed.memory) + parsed.offset
    if core.is_contiguous:
        return [(at, at + count * core.size)]
    inner = core.layout.pieces()
    if len(inner) * count > _MOST_PIECES:
        return []
    starts = [at + i * core.extent for i in range(count)]
    return sorted((start + first, start + first + n) for start in starts for first, n in inner)


def overlap(mine: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> bool:
    """Return whether two lists of pieces of memory, each in ascending order, have a byte in common."""
    if not mine or not theirs or mine[-1][1] <= theirs[0][0] or theirs[-1][1] <= mine[0][0]:
        return False
    i = j = 0
    while i < len(mine) and j < len(theirs):
        if mine[i][1] <= theirs[j][0]:
            i += 1
        elif theirs[j][1] <= mine[i][0]:
            j += 1
        else:
            return True
    return False


def lent(monitor: Monitor, call: MpiCall, buf: Any) -> Used | None:
    """Return the guard of a send buffer, which must not be written from now on."""
    return _use(monitor, call, buf, reads=True)


def awaited(monitor: Monitor, call: MpiCall, buf: Any) -> Used | None:
    """Return the guard of a receive buffer, which must be left alone from now on."""
    return _use(monitor, call, buf, reads=False)


def _use(monitor: Monitor, call: MpiCall, buf: Any, *, reads: bool) -> Used | None:
    parsed = _parsed(buf, writable=False)  # it may be read-only just because another request uses it
    if parsed is None:
        return None
    used = Used(monitor, call.rank, buf, parsed, reads=reads)
    _check_apart(monitor, call, buf, used.pieces, reads=reads)
    if not reads:
        used.parsed = _parsed(buf, writable=True)
    return used if used.parsed is not None else None


def overlapping(monitor: Monitor, call: MpiCall, buf: Any, *, reads: bool = False) -> None:
    """Find the requests whose buffers a blocking call would use."""
    if call.rank.buffers:
        parsed = _parsed(buf, writable=False)
        if parsed is not None:
            _check_apart(monitor, call, buf, _pieces(parsed), reads=reads)


def apart(monitor: Monitor, call: MpiCall, sendbuf: Any, recvbuf: Any) -> None:
    """Find a call that receives to where it sends from."""
    if not call.rank.buffers:
        mine, theirs = (buf[0] if isinstance(buf, list | tuple) and buf else buf for buf in (sendbuf, recvbuf))
        if type(mine) is type(theirs) is np.ndarray and not np.may_share_memory(mine, theirs):
            return  # hot path: two arrays far apart
    sent, received = _parsed(sendbuf, writable=False), _parsed(recvbuf, writable=True)
    if sent is None or received is None:
        return
    if overlap(_pieces(sent), _pieces(received)):
        text = f"{call.title} receives to where it sends from"
        monitor.note(LOCAL_CONCURRENCY, call.place, text, call.rank.number)
    _check_apart(monitor, call, recvbuf, _pieces(received), reads=False)


def _check_apart(monitor: Monitor, call: MpiCall, buf: Any, pieces: list[tuple[int, int]], *, reads: bool) -> None:
    """Find the active requests that use memory which a call is about to use; two may read it."""
    for other in call.rank.buffers:
        if not (reads and other.reads) and overlap(pieces, other.pieces) and other.record is not None:
            text = f"{call.title} uses memory that the request of {other.record.title} still uses"
            where = f"{monitor.where(other.record.place)}: {other.record.title}"
            monitor.note(LOCAL_CONCURRENCY, call.place, text, call.rank.number, where)
            # The call itself is to do what it would do without the check.
            other.unlock()
            array = buf[0] if isinstance(buf, list | tuple) else buf
            if type(array) is np.ndarray and not array.flags.writeable:
                array.flags.writeable = True  # it was made from one that was read-only then
