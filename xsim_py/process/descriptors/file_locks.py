"""File locks between ranks in virtual time: `fcntl.flock`, `fcntl.lockf` and those of `fcntl.fcntl`.

One shard, in which rank 0 starts, keeps the table of all locks (`lock_table`); a request takes the time of a launcher's
signal, and so does the reply. So the order of locking does not depend on the number of shards or their processes.

A rank that gets a lock takes the real lock as well, for the sake of other processes, such as its children. Ranks of one
interpreter are one process to the operating system, so a per-process lock is taken for the open file. If a process
outside the simulation holds it, the rank polls every millisecond.

A lock is released when its owner closes the file. Most files are closed by C code without notice, so once ranks lock
files, each checks at its waits whether the files that it has locked are still open.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.process.files.open_files import StorageFile, of_descriptor
from xsim_py.process.ranks import current, fiber
from xsim_py.process.ranks.patches import Table, in_ranks, with_real
from xsim_py.process.ranks.rank import FIRST_PID, Rank

from . import waits
from .lock_table import DEADLOCK, EVERYTHING, EXCLUSIVE, GRANTED, NONE, SHARED, WAITS, LockRequest, LockTable

if TYPE_CHECKING:
    from _typeshed import HasFileno

    from xsim_py.process.ranks.shard import Shard

_ASKED, _ANSWERED, _ENDED = "file lock", "file lock answer", "file locks of failed ranks"
_KINDS = {fcntl.F_UNLCK: NONE, fcntl.F_RDLCK: SHARED, fcntl.F_WRLCK: EXCLUSIVE}
_TYPES = {kind: number for number, kind in _KINDS.items()}
_OPERATIONS = {NONE: fcntl.LOCK_UN, SHARED: fcntl.LOCK_SH, EXCLUSIVE: fcntl.LOCK_EX}
_RECORD = struct.Struct("hhqqi4x")  # `struct flock`
_COMMANDS = {
    getattr(fcntl, prefix + name): (prefix, name)
    for prefix in ("F_", "F_OFD_")
    for name in ("GETLK", "SETLK", "SETLKW")
    if hasattr(fcntl, prefix + name)
}
_TAGS = 64  # numbers of signals
_real_flock, _real_fcntl = fcntl.flock, fcntl.fcntl


class _Waiting(fiber.Parked):
    """A rank that waits for the reply to its lock request."""

    __slots__ = ("answer", "ask", "conflict", "fiber", "name")

    def __init__(self, waiter: fiber.Fiber, ask: LockRequest, name: str) -> None:
        self.fiber = waiter
        self.ask = ask
        self.name = name
        self.conflict: LockRequest | None = None
        self.answer = ""

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        how = "shared" if self.ask.kind == SHARED else "exclusive"
        held = "" if self.conflict is None else f": rank {self.conflict.rank} has it"
        return f"waits for the lock of {self.name} ({how}){held}"


def attach(shard: Shard) -> None:
    """Let ranks of a shard lock files."""
    shard.file_locks = {}  # the waiting ranks, by the key of the request
    table = LockTable(partial(_answer, shard))
    shard.handlers.update({_ASKED: table.ask, _ANSWERED: partial(_answered, shard), _ENDED: table.forget})


def _answer(shard: Shard, ask: LockRequest, answer: str, conflict: LockRequest | None) -> None:
    time_ps = shard.kernel.now_ps + shard.abort_delay_ps
    shard.post_to(ask.rank, time_ps, ask.key, _ANSWERED, (ask.key, answer, conflict))


def _answered(shard: Shard, message: tuple[int, str, LockRequest | None]) -> None:
    key, answer, conflict = message
    waiting: _Waiting | None = shard.file_locks.get(key)
    if waiting is None or waiting.fiber.rank.exit_status is not None:
        return
    waiting.conflict = conflict
    if answer != WAITS:
        del shard.file_locks[key]
        waiting.answer = answer
        waiting.fiber.clock_ps = max(waiting.fiber.clock_ps, shard.kernel.now_ps)
        waiting.fiber.resume()


def _send(rank: Rank, time_ps: int, what: str, content: Any) -> None:
    """Send a request, or the number of a rank that has ended, to the shard with the table."""
    rank.key += 1
    if what == _ASKED:
        content = content._replace(key=rank.key)
    rank.shard.post_to(0, time_ps + rank.shard.abort_delay_ps, rank.key, what, content)


# -------------------------------------------------------------------------------------------------- files


class _LockedFile:
    """An open file that a rank has locked, with all its descriptors."""

    def __init__(self, number: int, file: tuple[Any, ...], raw: StorageFile | None) -> None:
        self.number = number  # among the rank's locked files
        self.file = file  # its identity
        self.raw = raw  # if it is on the simulated storage
        self.numbers: set[int] = set()  # its known descriptors
        self.held: dict[tuple[str, Any], None] = {}  # the kinds of locks held, and their owners

    @property
    def tag(self) -> int:
        """The mark of its descriptors."""
        return 1 + self.number % _TAGS

    def has(self, number: int) -> bool:
        """Return True if a descriptor refers to this open file."""
        tag = _tag_of(number)
        return number in self.numbers if tag is None else tag == self.tag

    def closed(self) -> set[int]:
        """Return its descriptors that have been closed."""
        if self.raw is not None:
            return set(self.numbers) if self.raw.closed else set()
        return {number for number in self.numbers if _file_of(number) != self.file or not self.has(number)}

    def set_real_lock(self, number: int, space: str, kind: int, start: int = 0, end: int = EVERYTHING) -> bool:
        """Take or release the real lock; return False if another process holds it."""
        try:
            if self.raw is None and space == "flock":
                _real_flock(number, _OPERATIONS[kind] | fcntl.LOCK_NB)
            elif self.raw is None and hasattr(fcntl, "F_OFD_SETLK"):
                length = end - start if end < EVERYTHING else 0
                _real_fcntl(number, fcntl.F_OFD_SETLK, _RECORD.pack(_TYPES[kind], os.SEEK_SET, start, length, 0))
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Release the real locks: the file may stay open, as a failed rank's files are not closed."""
        for number in self.numbers - self.closed():
            for space in ("flock", "record"):
                with suppress(OSError):
                    self.set_real_lock(number, space, NONE)


locked: dict[int, list[_LockedFile]] = {}
"""The open files that ranks have locked, by rank."""


def _file_of(number: int) -> tuple[int, int] | None:
    try:
        known = os.fstat(number)
    except OSError:
        return None
    return known.st_dev, known.st_ino


def _tag_of(number: int) -> int | None:
    """Return the mark of an open file, the same for all its descriptors: the signal number set for it."""
    try:
        return int(_real_fcntl(number, fcntl.F_GETSIG))
    except (OSError, AttributeError):
        return None


def _storage_file(target: HasFileno | int) -> StorageFile | None:
    raw = getattr(getattr(target, "buffer", target), "raw", target)
    return raw if isinstance(raw, StorageFile) else of_descriptor(target)


def _number_of(target: HasFileno | int) -> int:
    raw = _storage_file(target)
    if raw is not None:
        return raw.descriptor()
    return target if isinstance(target, int) else int(target.fileno())


def _name_of(target: HasFileno | int, number: int) -> str:
    name = getattr(target, "name", None)
    if isinstance(name, str):
        return name
    try:
        return os.path.relpath(os.readlink(f"/proc/self/fd/{number}"))
    except OSError:
        return f"descriptor {number}"


def _locked_file(rank: Rank, target: HasFileno | int) -> _LockedFile:
    """Return the open file that a rank wants to lock."""
    raw, number = _storage_file(target), _number_of(target)
    file: Any = raw.place() if raw is not None else _file_of(number)
    if file is None:
        raise _error(errno.EBADF)
    fiber.check_at_waits(release_closed)
    mine = locked.setdefault(rank.number, [])
    for each in mine:
        if each.file == file and each.raw is raw and (raw is not None or each.has(number)):
            break
    else:
        each = _LockedFile(1 + max((each.number for each in mine), default=0), file, raw)
        mine.append(each)
        if raw is None:
            with suppress(OSError, AttributeError):
                # The kernel keeps this signal with the open file, whatever its descriptors, and few programs use it.
                _real_fcntl(number, fcntl.F_SETSIG, each.tag)
    each.numbers.add(number)
    return each


def note_copy(rank: Rank, number: int, copy: int) -> None:
    """Record that a rank has duplicated a descriptor of an open file."""
    for each in locked.get(rank.number, ()):
        if number in each.numbers:
            each.numbers.add(copy)


def release_closed(rank: Rank, time_ps: int) -> None:
    """Release the locks of files that a rank has closed."""
    for each in list(locked.get(rank.number, ())):
        closed = each.closed()
        each.numbers -= closed
        for space, owner in list(each.held) if closed else ():
            if not each.numbers or owner == rank.number:
                del each.held[space, owner]
                _send(rank, time_ps, _ASKED, LockRequest(rank.number, (space, *each.file), owner, NONE))
                for number in each.numbers:
                    each.set_real_lock(number, space, NONE)
        if not each.numbers:
            locked[rank.number].remove(each)


def end(rank: Rank, time_ps: int) -> None:
    """Release all locks of a rank that has ended."""
    if rank.number in locked:
        for each in locked.pop(rank.number):
            each.release()
        _send(rank, time_ps, _ENDED, rank.number)


def forget() -> None:
    """Release all real locks, at the end of a run."""
    for each in (each for files in locked.values() for each in files):
        each.release()
    locked.clear()
    fiber.check_at_waits(None)


# -------------------------------------------------------------------------------------------------- functions


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _lock(
    target: HasFileno | int,
    space: str,
    kind: int,
    start: int = 0,
    end: int = EVERYTHING,
    *,
    by_process: bool = False,
    **how: bool,
) -> LockRequest | None:
    """Request a lock, wait for the reply, and take the real lock as well; for a probe, return the conflicting lock."""
    waiter = current.running()
    rank = waiter.rank
    release_closed(rank, waiter.clock_ps)
    opened, number = _locked_file(rank, target), _number_of(target)
    owner: object = rank.number if by_process else (rank.number, opened.number)
    ask = LockRequest(rank.number, (space, *opened.file), owner, kind, start, end, **how)
    if kind == NONE:
        opened.set_real_lock(number, space, kind, start, end)
        _send(rank, waiter.clock_ps, _ASKED, ask)
        if space == "flock":
            opened.held.pop((space, owner), None)
        return None
    waiting = _Waiting(waiter, ask, _name_of(target, number))
    _send(rank, waiter.clock_ps, _ASKED, ask)
    rank.shard.file_locks[rank.key] = waiting
    waiter.park(waiting)
    if ask.probes:
        return waiting.conflict
    if waiting.answer == GRANTED:
        opened.held[space, owner] = None
        take = partial(opened.set_real_lock, number, space, kind, start, end)
        got = False
        try:
            got = take() or (ask.waits and waits.poll(waiter, take))
        finally:
            if not got:
                _send(rank, waiter.clock_ps, _ASKED, ask._replace(kind=NONE))
        if got:
            return None
    raise _error(errno.EDEADLK if waiting.answer == DEADLOCK else errno.EAGAIN)


def _kind_of(operation: int) -> int:
    for kind, number in _OPERATIONS.items():
        if operation & ~fcntl.LOCK_NB == number:
            return kind
    raise _error(errno.EINVAL)


def _range(target: HasFileno | int, start: int, length: int, whence: int) -> tuple[int, int]:
    """Return the first byte of a range, and the one after the last."""
    if whence != os.SEEK_SET:
        number = _number_of(target)
        start += os.lseek(number, 0, os.SEEK_CUR) if whence == os.SEEK_CUR else os.fstat(number).st_size
    if length < 0:
        start, length = start + length, -length
    if start < 0:
        raise _error(errno.EINVAL)
    return start, start + length if length else EVERYTHING


def _check_access(target: HasFileno | int, kind: int) -> None:
    """Reject a lock of a kind for which the file is not open."""
    if _storage_file(target) is None:
        access = _real_fcntl(_number_of(target), fcntl.F_GETFL) & os.O_ACCMODE
        if (kind == SHARED and access == os.O_WRONLY) or (kind == EXCLUSIVE and access == os.O_RDONLY):
            raise _error(errno.EBADF)


def _flock(fd: HasFileno | int, operation: int, /) -> None:
    _lock(fd, "flock", _kind_of(operation), waits=not operation & fcntl.LOCK_NB)


def _lockf(fd: HasFileno | int, cmd: int, len: int = 0, start: int = 0, whence: int = 0, /) -> None:
    kind, where = _kind_of(cmd), _range(fd, start, len, whence)
    _check_access(fd, kind)
    _lock(fd, "record", kind, *where, by_process=True, waits=not cmd & fcntl.LOCK_NB)


def _os_lockf(fd: int, command: int, length: int, /) -> None:
    kind = NONE if command == os.F_ULOCK else EXCLUSIVE
    how = {"waits": command == os.F_LOCK, "probes": command == os.F_TEST}
    if _lock(fd, "record", kind, *_range(fd, 0, length, os.SEEK_CUR), by_process=True, **how) is not None:
        raise _error(errno.EAGAIN)


def _fcntl(real: Callable[..., object], fd: HasFileno | int, cmd: int, arg: object = 0, /) -> object:
    if current.here() is None or cmd not in _COMMANDS or not isinstance(arg, bytes | bytearray | memoryview):
        return real(fd, cmd, arg)
    record = bytes(arg).ljust(_RECORD.size, b"\0")
    number, whence, start, length, _ = _RECORD.unpack(record)
    if number not in _KINDS:
        raise _error(errno.EINVAL)
    first, last = _range(fd, start, length, whence)
    prefix, command = _COMMANDS[cmd]
    how = {"by_process": prefix == "F_", "waits": command == "SETLKW", "probes": command == "GETLK"}
    if not how["probes"]:
        _check_access(fd, _KINDS[number])
    conflict = _lock(fd, "record", _KINDS[number], first, last, **how)
    return _described(record, conflict)[: len(arg)] if how["probes"] else bytes(arg)


def _described(record: bytes, conflict: LockRequest | None) -> bytes:
    """Return the result of F_GETLK for a conflicting lock."""
    if conflict is None:
        return struct.pack("h", fcntl.F_UNLCK) + record[struct.calcsize("h") :]
    length = conflict.end - conflict.start if conflict.end < EVERYTHING else 0
    process = FIRST_PID + conflict.rank if isinstance(conflict.owner, int) else -1
    return _RECORD.pack(_TYPES[conflict.kind], os.SEEK_SET, conflict.start, length, process)


_VIRTUAL = "virtual: waits in virtual time"
PATCHED: Table = (
    ("fcntl", _VIRTUAL, {"flock": in_ranks(_flock), "lockf": in_ranks(_lockf), "fcntl": with_real(_fcntl)}),
    ("os", _VIRTUAL, {"lockf": in_ranks(_os_lockf)}),
)
