"""Checks of buffers in use.

A send buffer must not be written, a receive buffer not accessed (MPI 4.1, 3.7.2).

`touches` finds the program's instructions that access such memory. Before an instruction writes, its array becomes
read-only, so that the exception is raised at the program's own line. A checksum detects other writes when the request
completes. A receive buffer is filled with a value that no rank sends, so that reading it too early is visible; bytes
that the message does not fill get their old content back.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from xsim_py.findings import LOCAL_CONCURRENCY
from xsim_py.mpi.checksum import crc32
from xsim_py.mpi4py.bufspec import BlockBuffer, UserBuffer, filler, message
from xsim_py.mpi4py.memory import is_in_place

from .elements import MOST_PIECES, address_of, joined, overlap
from .in_use import FEW
from .signatures import KNOWN
from .sources import LOAD, MAYBE, STORE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from xsim_py.mpi.datatype import Type

    from .monitor import Monitor, MpiCall, RankState
    from .records import Place
    from .requests import RequestRecord

_ndarray, _LISTS = np.ndarray, (list, tuple)

_POISON = 0xA5
"""Numbers made of this byte are far from usual ones and not NaN, which would absorb whatever is added to it."""


class _Flat:
    """The bytes of a contiguous array; nearly all buffers are contiguous."""

    __slots__ = ("_memory", "_pieces", "array")

    def __init__(self, array: Any, *, reads: bool) -> None:
        self.array = array
        self._memory = array if reads else memoryview(array)  # stays writable if the array becomes read-only
        self._pieces: list[tuple[int, int]] | None = None

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """The addresses between which the bytes lie."""
        if self._pieces is None:
            at = address_of(self.array)
            self._pieces = [(at, at + self.array.nbytes)]
        return self._pieces

    def pack(self) -> bytes:
        """Return the current content."""
        data: bytes = self._memory.tobytes()
        return data

    def unpack(self, data: bytes) -> None:
        """Store bytes at the start of the memory."""
        fill = filler(len(data))
        if fill is not None:
            fill(self._memory, 0, data)
        else:
            self._memory.cast("B")[: len(data)] = data

    def crc(self) -> int:
        """Return the checksum of the current content."""
        return crc32(self._memory)


class PackedMemory:
    """The elements of any other buffer, as parsed by `bufspec`."""

    __slots__ = ("pack", "pieces", "unpack")
    array = None

    def __init__(self, parsed: Any) -> None:
        self.pack = parsed.pack
        self.unpack = parsed.unpack
        self.pieces = _pieces(parsed)

    def crc(self) -> int:
        """Return the checksum of the current content."""
        return crc32(self.pack())


class PackedBlocks:
    """The elements of a buffer with a block for each rank.

    Collectives store their results there themselves.
    """

    __slots__ = ("_parsed", "_pieces")
    array = None

    def __init__(self, parsed: BlockBuffer) -> None:
        self._parsed = parsed
        self._pieces: list[tuple[int, int]] | None = None

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """The addresses between which the elements lie."""
        if self._pieces is None:
            start = _start(self._parsed)
            self._pieces = joined([(start + low, start + high) for low, high, _ in pieces_of_blocks(self._parsed)])
        return self._pieces

    def crc(self) -> int:
        """Return the checksum of the current content."""
        return crc32(self._parsed.pack_blocks(len(self._parsed.counts)).data)


_Memory: TypeAlias = _Flat | PackedMemory | PackedBlocks


@lru_cache(maxsize=64)
def _poison(size_bytes: int) -> tuple[bytes, int]:
    """Return this number of bytes that no rank sends, and their checksum."""
    poison = bytes([_POISON]) * size_bytes
    return poison, crc32(poison)


class Used:
    """A buffer that a request uses."""

    __slots__ = (
        "check",
        "is_noted",
        "locked",
        "memory",
        "monitor",
        "old_content",
        "reads",
        "record",
        "state",
        "suspect",
    )
    is_window = False

    def __init__(self, monitor: Monitor, state: RankState, memory: Any, reads: bool) -> None:
        self.monitor = monitor
        self.state = state
        self.memory = memory
        self.reads = reads  # True if the request only reads it
        self.locked: list[Any] = []
        self.check = 0
        self.is_noted = False
        self.old_content = b""
        self.record: Any = None
        self.suspect: Place | None = None  # the last line that may have stored to an array of which it is a part

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """The addresses between which the buffer lies, in ascending order."""
        found: list[tuple[int, int]] = self.memory.pieces
        return found

    @property
    def kind(self) -> str:
        """The use of the buffer: ``send`` or ``receive``."""
        return "send" if self.reads else "receive"

    def begin(self, record: Any) -> None:
        """Guard the buffer for a request."""
        self.record = record
        record.used.append(self)
        self.state.buffers.begin(self)
        task = record.task
        if self.reads:
            self.check = self.memory.crc()
        # the request has a hook that runs when its message is stored
        elif task is not None and task.finish is not None:
            self.old_content = self.memory.pack()
            poison, self.check = _poison(len(self.old_content))
            self.memory.unpack(poison)
            if type(self.memory) is PackedMemory:  # its elements exclude padding
                self.check = self.memory.crc()
            if not isinstance(task.finish, _Restoring):  # also on each start of a persistent request
                task.finish = _Restoring(record, task.finish)

    def record_access(
        self, how: str, place: Place, pieces: list[tuple[int, int]], array: object, frame: object
    ) -> None:
        """Record that an instruction of the program is about to load from the buffer or store to it."""
        if self.record is None or (self.reads and how == LOAD):
            return
        if how == MAYBE:
            self.suspect = place
            return
        self.is_noted = True
        if how == STORE:
            self._lock(array)
        verb = "read" if how == LOAD else "written"
        text = f"the {self.kind} buffer of {self.record.title} is {verb} before the request completes"
        where = f"{self.monitor.where(self.record.place)}: {self.record.title}"
        self.monitor.note(LOCAL_CONCURRENCY, place, text, self.state.number, where)

    def _lock(self, array: Any) -> None:
        """Make an array read-only that the program is about to write illegally."""
        if array is not None and array.flags.writeable:
            array.flags.writeable = False
            self.locked.append(array)

    def unlock(self) -> None:
        """Make the locked arrays writable again."""
        for array in reversed(self.locked):
            array.flags.writeable = True
        self.locked.clear()

    def restore(self, filled_bytes: int = 0) -> None:
        """Restore the old content of a receive buffer before its message is stored.

        Check that it is unchanged.
        """
        if self.locked:
            self.unlock()
        if self.old_content:
            self._compare()
            if len(self.old_content) != filled_bytes:
                self.memory.unpack(self.old_content)
            self.old_content = b""

    def end(self) -> None:
        """Stop guarding the buffer."""
        self.state.buffers.end(self)
        if self.reads:
            if self.locked:
                self.unlock()
            self._compare()
        else:
            self.restore()

    def _compare(self) -> None:
        if self.is_noted or self.record is None or self.memory.crc() == self.check:
            return
        text = f"the {self.kind} buffer of {self.record.title} is written before the request completes"
        if self.suspect is None:
            self.monitor.note(LOCAL_CONCURRENCY, self.record.place, text, self.state.number)
        else:
            where = f"{self.monitor.where(self.record.place)}: {self.record.title}"
            self.monitor.note(LOCAL_CONCURRENCY, self.suspect, text, self.state.number, where)


class _Restoring:
    """A hook that restores the old content of the buffers of a request and then stores its data."""

    def __init__(self, record: RequestRecord, finish: Callable[[Any], Any]) -> None:
        self.record = record
        self.finish = finish

    def __call__(self, data: object) -> Any:
        filled_bytes = len(data) if type(data) is bytes and len(self.record.used) == 1 else 0
        for used in self.record.used:
            used.restore(filled_bytes)
        return self.finish(data)


class NoRequest:
    """A stand-in for the request of an operation without one."""

    persistent = False
    task = None

    def __init__(self, call: MpiCall) -> None:
        self.used: list[Used] = []
        self.title = call.title
        self.place = call.place


def _parsed(buf: object, *, writable: bool) -> UserBuffer | BlockBuffer | None:
    """Return a parsed buffer argument; None if it is empty or invalid."""
    if buf is None or is_in_place(buf):
        return None
    if isinstance(buf, BlockBuffer):
        return buf if any(buf.sizes()) else None
    try:
        parsed = buf if isinstance(buf, UserBuffer) else message(buf, writable=writable)
        return parsed if parsed.count and parsed.datatype.size else None
    except Exception:  # the call itself reports the error
        return None


def _pieces(parsed: UserBuffer) -> list[tuple[int, int]]:
    """Return the addresses between which the elements lie; empty if there are too many pieces."""
    return pieces_from(_start(parsed) + parsed.offset, parsed.datatype, parsed.count)


def _start(parsed: UserBuffer | BlockBuffer) -> int:
    """Return the address of the memory of a buffer; in that of a compiled program, offsets are addresses."""
    if not isinstance(parsed.memory, memoryview) or not len(parsed.memory):
        return 0
    return address_of(np.frombuffer(parsed.memory, np.uint8))


def pieces_of_blocks(parsed: BlockBuffer) -> list[tuple[int, int, int]]:
    """Return where the blocks of a buffer lie in its memory, each piece with its block.

    The result is empty like that of `pieces_from`.

    Consecutive blocks are one piece, which belongs to the first of them.
    """
    sizes = parsed.sizes()
    if parsed.is_run(sizes):
        return [(parsed.offsets[0], parsed.offsets[0] + sum(sizes), 0)]
    found: list[tuple[int, int, int]] = []
    for i, size_bytes in enumerate(sizes):
        if size_bytes:
            pieces = pieces_from(parsed.offsets[i], parsed.datatypes[i], parsed.counts[i])
            found += [(low, high, i) for low, high in pieces if low < high]
        if len(found) > MOST_PIECES:
            return []
    return found


def pieces_from(start: int, core: Type, count: int) -> list[tuple[int, int]]:
    """Return the pieces of memory of elements of a datatype, in ascending order.

    The result is empty if there are too many.
    """
    if core.is_contiguous:
        return [(start, start + count * core.size)]
    return [(start + first, start + end) for first, end in _pieces_from_origin(core, count)]


@lru_cache(maxsize=64)
def _pieces_from_origin(core: Type, count: int) -> list[tuple[int, int]]:
    layout = core.layout
    if count * len(layout.offsets) * prod(n for n, _ in layout.dims) > MOST_PIECES:
        return []
    offsets, lengths = layout.blocks()
    starts = (np.arange(count)[:, None] * core.extent + offsets).reshape(-1)
    return sorted(zip(starts.tolist(), (starts + np.tile(lengths, count)).tolist(), strict=True))


def guard_send_buffer(monitor: Monitor, call: MpiCall, buf: object) -> Used | None:
    """Return the guard of a send buffer, which the program must not write from now on."""
    return _use(monitor, call, buf, reads=True)


def guard_receive_buffer(monitor: Monitor, call: MpiCall, buf: object) -> Used | None:
    """Return the guard of a receive buffer, which the program must not access from now on."""
    return _use(monitor, call, buf, reads=False)


def _use(monitor: Monitor, call: MpiCall, buf: object, *, reads: bool) -> Used | None:
    memory = _memory(buf, reads=reads)
    if memory is None:
        return None
    _check_memory(monitor, call, memory, reads=reads)
    if not reads and type(memory) is PackedMemory:
        parsed = _parsed(buf, writable=True)
        if parsed is None:
            return None
        memory = PackedMemory(parsed)
    return Used(monitor, call.rank, memory, reads)


def _memory(buf: object, *, reads: bool) -> _Memory | None:
    """Return the memory of a buffer argument, or None."""
    if type(buf) is _ndarray and buf.size and buf.dtype in KNOWN:  # hot path
        flags = buf.flags
        if flags.c_contiguous and (reads or flags.writeable):
            return _Flat(buf, reads=reads)
    parsed = _parsed(buf, writable=False)
    if parsed is None:
        return None
    return PackedBlocks(parsed) if isinstance(parsed, BlockBuffer) else PackedMemory(parsed)


def _check_memory(monitor: Monitor, call: MpiCall, memory: _Memory, *, reads: bool) -> None:
    """Find requests that use the memory of a call, and notify the windows that contain it."""
    if call.rank.exposed:
        _notify_windows(call, memory.pieces, reads=reads)
    if call.rank.buffers:
        _check_unused(monitor, call, memory, reads=reads)


def overlapping(monitor: Monitor, call: MpiCall, buf: object, *, reads: bool = False) -> Callable[[Any], None] | None:
    """Find the requests whose buffers a blocking call would use.

    The returned function notifies the windows of what the call has stored when it ends: by then the accesses of other
    ranks to their memory may be complete, and the rank may know that from the received message.
    """
    if not call.rank.buffers and not call.rank.exposed:
        return None  # hot path
    memory = _memory(buf, reads=True)
    if memory is None:
        return None
    if call.rank.buffers:
        _check_unused(monitor, call, memory, reads=reads)
    if reads:
        _notify_windows(call, memory.pieces, reads=True)
        return None
    return lambda _: _notify_windows(call, memory.pieces, reads=False)


def check_freed(monitor: Monitor, call: MpiCall, mem: object) -> None:
    """Check ``Free_mem``: a request may still use the memory."""
    overlapping(monitor, call, mem)


def overlapping_object(monitor: Monitor, call: MpiCall, obj: Any) -> None:
    """Find requests that await an array, or one in a container, which a call is about to pickle."""
    if call.rank.buffers or call.rank.exposed:
        held = obj.values() if type(obj) is dict else obj if type(obj) in _LISTS else (obj,)
        for each in held:
            if type(each) is _ndarray:
                overlapping(monitor, call, each, reads=True)


def are_distinct(sendbuf: Any, recvbuf: Any) -> bool:
    """Return True if two buffer arguments certainly share no byte."""
    if sendbuf is None or recvbuf is None or is_in_place(sendbuf) or is_in_place(recvbuf):
        return True
    mine = sendbuf[0] if type(sendbuf) in _LISTS and sendbuf else sendbuf
    theirs = recvbuf[0] if type(recvbuf) in _LISTS and recvbuf else recvbuf
    return type(mine) is type(theirs) is _ndarray and _are_disjoint(mine, theirs)


def check_disjoint(
    monitor: Monitor, call: MpiCall, sendbuf: object, recvbuf: object, words: str = "send and receive"
) -> None:
    """Find a call that writes memory which it also reads (MPI 4.1, 2.3)."""
    if are_distinct(sendbuf, recvbuf):
        return  # hot path
    sent, received = _memory(sendbuf, reads=True), _memory(recvbuf, reads=True)
    if sent is not None and received is not None and _parsed(recvbuf, writable=True) is not None:
        _overlap(monitor, call, sent, received, words)


def exchange_guards(monitor: Monitor, call: MpiCall, title: str, *uses: Used | None) -> list[Used]:
    """Return the guards of the buffers of one operation, of which it may write the last.

    The result is empty if these overlap.

    `title` names the operation, which an earlier call may have prepared.
    """
    guards = [used for used in uses if used is not None]
    if len(guards) > 1 and not guards[-1].reads:
        written = guards[-1].memory
        if any(_overlap(monitor, call, used.memory, written, title=title) for used in guards[:-1]):
            return []
    return guards


def _overlap(
    monitor: Monitor, call: MpiCall, read: _Memory, written: _Memory, words: str = "send and receive", title: str = ""
) -> bool:
    """Return True if a call reads and writes the same bytes, after noting that."""
    if read.array is not None and written.array is not None and _are_disjoint(read.array, written.array):
        return False  # hot path
    mine, theirs = read.pieces, written.pieces
    if not overlap(mine, theirs):
        return False
    both = ((max(a, c), min(b, d)) for a, b in mine for c, d in theirs if a < d and c < b)
    low, high = next(both)
    ranges = [f"bytes {low - at[0][0]:,} to {high - 1 - at[0][0]:,}" for at in (mine, theirs)]
    first, second = words.split(" and ")
    where = f"{ranges[0]} of the {first} buffer are {ranges[1]} of the {second} buffer"
    text = f"the {words} buffers of {title or call.title} overlap"
    monitor.note(LOCAL_CONCURRENCY, call.place, text, call.rank.number, where)
    return True


def _are_disjoint(mine: NDArray[Any], theirs: NDArray[Any]) -> bool:
    """Return True if two arrays certainly share no memory; most often each owns its memory."""
    if mine.base is None and theirs.base is None:
        return mine is not theirs
    return not np.may_share_memory(mine, theirs)


def _notify_windows(call: MpiCall, pieces: list[tuple[int, int]], *, reads: bool) -> None:
    """Notify the windows of a rank that a call loads from their memory or stores to it."""
    for exposed in call.rank.exposed:
        low, high = exposed.pieces[0]
        inside = [(max(start, low), min(end, high)) for start, end in pieces if start < high and low < end]
        if inside:
            exposed.record_access(LOAD if reads else STORE, call.place, inside, None, None)


def _check_unused(monitor: Monitor, call: MpiCall, memory: _Memory, *, reads: bool) -> None:
    """Find the active requests that use memory which a call is about to use; both may read it."""
    mine, in_use = memory.array, call.rank.buffers
    noted: set[tuple[object, ...]] = set()  # a loop may leave many requests of one line open: one finding for all
    for other in in_use if len(in_use) <= FEW else in_use.near(memory, reads=reads):
        theirs = other.memory.array
        if (reads and other.reads) or other.record is None:
            continue
        if mine is not None and theirs is not None and _are_disjoint(mine, theirs):
            continue
        if overlap(memory.pieces, other.pieces):
            other.is_noted = other.is_noted or not reads
            code, *line = other.record.place
            if (found := (id(code), *line, other.record.title)) in noted:
                continue
            noted.add(found)
            text = f"{call.title} uses memory that the request of {other.record.title} still uses"
            where = f"{monitor.where(other.record.place)}: {other.record.title}"
            monitor.note(LOCAL_CONCURRENCY, call.place, text, call.rank.number, where)
