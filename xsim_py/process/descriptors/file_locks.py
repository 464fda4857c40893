"""File locks between ranks in virtual time: `fcntl.flock`, `fcntl.lockf` and those of `fcntl.fcntl`.

One shard, in which rank 0 starts, keeps the table of all locks (`lock_table`); a request takes the time of a launcher's
signal, and so does the reply. So the order of locking does not depend on the number of shards or their processes.

A rank that gets a lock takes the real lock as well, for the sake of other processes, such as its children. Ranks of one
interpreter are one process to the operating system, so a per-process lock is taken for the open file. If a process
outside the simulation holds it, the rank polls every millisecond.

A lock is released when its owner closes the file. Most files are closed by C code without notice, so a rank that has
locked a file checks at each wait whether it is still open.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xsim_py.process.files.open_files import StorageFile, of_descriptor
from xsim_py.process.ranks import current
from xsim_py.process.ranks.fiber import Fiber, Parked
from xsim_py.process.ranks.patches import Table
from xsim_py.process.ranks.rank import FIRST_PID

from . import waits
from .lock_table import DEADLOCK, EXCLUSIVE, GRANTED, NONE, REFUSED, SHARED, WAITS, LockRequest, LockTable

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank
    from xsim_py.process.ranks.shard import Shard

_ASKED, _ANSWERED, _ENDED = "file lock", "file lock answer", "file locks of failed ranks"
_LOCKED = "file locks"
_EVERYTHING = 1 << 62
_KINDS = {fcntl.F_UNLCK: NONE, fcntl.F_RDLCK: SHARED, fcntl.F_WRLCK: EXCLUSIVE}
_TYPES = {kind: number for number, kind in _KINDS.items()}
_OPERATIONS = {NONE: fcntl.LOCK_UN, SHARED: fcntl.LOCK_SH, EXCLUSIVE: fcntl.LOCK_EX}
_FLOCK = "hhqq"  # `struct flock` without the process
_WHOLE = "hhqqi4x"
_COMMANDS = ("GETLK", "SETLK", "SETLKW")
_PROCESS = {name: getattr(fcntl, f"F_{name}") for name in _COMMANDS}
_OFD = {name: getattr(fcntl, f"F_OFD_{name}") for name in _COMMANDS if hasattr(fcntl, f"F_OFD_{name}")}
_TAGS = 64  # numbers of signals
_real_flock, _real_fcntl, _real_lockf = fcntl.flock, fcntl.fcntl, fcntl.lockf


class _Waiting(Parked):
    """A rank that waits for the reply to its lock request."""

    __slots__ = ("answer", "ask", "conflict", "fiber", "name")

    def __init__(self, fiber: Fiber, ask: LockRequest, name: str) -> None:
        self.fiber = fiber
        self.ask = ask
        self.name = name
        self.conflict: LockRequest | None = None
        self.answer = ""

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        how = "shared" if self.ask.kind == SHARED else "exclusive"
        held = "" if self.conflict is None else f": rank {self.conflict.rank} has it"
        return f"waits for the lock of {self.name} ({how}){held}"


# ------------------------------------------------------------------------------------------------- table


class _LockService:
    """The lock service of a shard: the first shard keeps the table, and all wake waiting ranks."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._table = LockTable(self._answer)
        self.waiting: dict[int, _Waiting] = {}
        shard.handlers[_ASKED] = self._asked
        shard.handlers[_ANSWERED] = self._answered
        shard.handlers[_ENDED] = self._table.forget

    def _asked(self, ask: LockRequest) -> None:
        if ask.file[0] == "flock":
            self._table.convert(ask)
        else:
            self._table.ask(ask)

    def _answer(self, ask: LockRequest, answer: str, conflict: LockRequest | None) -> None:
        if ask.key:
            time_ps = self._shard.kernel.now_ps + self._shard.abort_delay_ps
            self._shard.post_to(ask.rank, time_ps, ask.key, _ANSWERED, (ask.key, answer, conflict))

    def _answered(self, message: tuple[int, str, LockRequest | None]) -> None:
        key, answer, conflict = message
        waiting = self.waiting.get(key)
        if waiting is None or waiting.fiber.rank.exit_status is not None:
            return
        waiting.conflict = conflict
        if answer != WAITS:
            del self.waiting[key]
            waiting.answer = answer
            waiting.fiber.clock_ps = max(waiting.fiber.clock_ps, self._shard.kernel.now_ps)
            waiting.fiber.resume()


def attach(shard: Shard) -> None:
    """Let ranks of a shard lock files."""
    shard.file_locks = _LockService(shard)


def _send(rank: Rank, time_ps: int, ask: LockRequest, *, answered: bool = False) -> int:
    """Send a request to the shard with the table; return the key of the reply, if any."""
    rank.key += 1
    if answered:
        ask = ask._replace(key=rank.key)
    rank.shard.post_to(0, time_ps + rank.shard.abort_delay_ps, rank.key, _ASKED, ask)
    return rank.key


# -------------------------------------------------------------------------------------------------- ranks


class _LockedFile:
    """An open file that a rank has locked, with all its descriptors."""

    def __init__(self, number: int, file: tuple[Any, ...], raw: StorageFile | None) -> None:
        self.number = number  # numbers the rank's locked files
        self.file = file  # its identity
        self.raw = raw  # if it is on the simulated storage
        self.numbers: set[int] = set()  # its known descriptors
        self.held: set[tuple[str, Any]] = set()  # the kinds of locks held, and their owners

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


class _LockedFiles:
    """The files that a rank has locked."""

    def __init__(self) -> None:
        self.count = 0
        self.open: list[_LockedFile] = []


_really_locked: set[_LockedFile] = set()


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


def _storage_file(target: Any) -> StorageFile | None:
    raw = getattr(getattr(target, "buffer", target), "raw", target)
    return raw if isinstance(raw, StorageFile) else of_descriptor(target)


def _number_of(target: Any) -> int:
    raw = _storage_file(target)
    if raw is not None:
        return raw.descriptor()
    return target if isinstance(target, int) else int(target.fileno())


def _locked_file(rank: Rank, target: Any) -> _LockedFile:
    """Return the open file that a rank wants to lock."""
    raw, number = _storage_file(target), _number_of(target)
    mine: _LockedFiles = rank.private(_LOCKED, _LockedFiles)
    file: Any = raw.place() if raw is not None else _file_of(number)
    if file is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    known = (each for each in mine.open if each.file == file and each.raw is raw)
    found = next((each for each in known if raw is not None or each.has(number)), None)
    if found is None:
        mine.count += 1
        found = _LockedFile(mine.count, file, raw)
        mine.open.append(found)
        if raw is None:
            with suppress(OSError, AttributeError):
                # The kernel keeps this signal with the open file, whatever its descriptors, and few programs use it.
                _real_fcntl(number, fcntl.F_SETSIG, found.tag)
        _watch(rank)
    found.numbers.add(number)
    return found


def note_copy(rank: Rank, number: int, copy: int) -> None:
    """Record that a rank has duplicated a descriptor of an open file."""
    for each in rank.extra[_LOCKED].open if rank.extra is not None and _LOCKED in rank.extra else ():
        if number in each.numbers:
            each.numbers.add(copy)


def _lock(
    fiber: Fiber, target: Any, ask: LockRequest, *, space: str, by_process: bool = False
) -> tuple[str, LockRequest | None]:
    """Request a lock, wait for the reply, and take the real lock as well."""
    rank = fiber.rank
    release_closed(rank, fiber.clock_ps)
    opened, number = _locked_file(rank, target), _number_of(target)
    owner: Any = rank.number if by_process else (rank.number, opened.number)
    ask = ask._replace(rank=rank.number, file=(space, *opened.file), owner=owner)
    if ask.kind == NONE:
        _set_real_lock(opened, number, ask)
        _send(rank, fiber.clock_ps, ask)
        if space == "flock":
            opened.held.discard((space, owner))
        return GRANTED, None
    waiting = _Waiting(fiber, ask, _name_of(target, number))
    key = _send(rank, fiber.clock_ps, ask, answered=True)
    rank.shard.file_locks.waiting[key] = waiting
    fiber.park(waiting)
    if waiting.answer == GRANTED and not ask.probes:
        opened.held.add((space, owner))
        return _take_real_lock_too(fiber, opened, number, ask), None
    return waiting.answer, waiting.conflict


def _name_of(target: Any, number: int) -> str:
    name = getattr(target, "name", None)
    if isinstance(name, str):
        return name
    try:
        return os.path.relpath(os.readlink(f"/proc/self/fd/{number}"))
    except OSError:
        return f"descriptor {number}"


def _take_real_lock_too(fiber: Fiber, opened: _LockedFile, number: int, ask: LockRequest) -> str:
    """Take the real lock, too; a non-blocking request fails if another process holds it."""
    try:
        if _set_real_lock(opened, number, ask):
            return GRANTED
        if ask.waits:
            waits.poll(fiber, lambda: _set_real_lock(opened, number, ask))
            return GRANTED
    except OSError:
        _send(fiber.rank, fiber.clock_ps, ask._replace(kind=NONE))
        raise
    _send(fiber.rank, fiber.clock_ps, ask._replace(kind=NONE))
    return REFUSED


def _set_real_lock(opened: _LockedFile, number: int, ask: LockRequest) -> bool:
    """Take or release the real lock; return False if another process holds it."""
    if opened.raw is not None or (ask.kind == NONE and opened not in _really_locked):
        return True
    try:
        if ask.file[0] == "flock":
            _real_flock(number, _OPERATIONS[ask.kind] | fcntl.LOCK_NB)
        elif "SETLK" in _OFD:
            length = ask.end - ask.start if ask.end < _EVERYTHING else 0
            record = struct.pack(_WHOLE, _TYPES[ask.kind], os.SEEK_SET, ask.start, length, 0)
            _real_fcntl(number, _OFD["SETLK"], record)
    except BlockingIOError:
        return False
    _really_locked.add(opened)
    return True


def _release(opened: _LockedFile) -> None:
    """Release the real locks: the file may stay open, as a failed rank's files are not closed."""
    _really_locked.discard(opened)
    for number in opened.numbers - opened.closed():
        for space in ("flock", "record"):
            with suppress(OSError):
                _really_locked.add(opened)
                _set_real_lock(opened, number, LockRequest(0, 0, (space,), 0, NONE, 0, _EVERYTHING))
    _really_locked.discard(opened)


def forget() -> None:
    """Release all real locks, at the end of a run."""
    for opened in list(_really_locked):
        _release(opened)


# ------------------------------------------------------------------------------------------------- closed files


def _watch(rank: Rank) -> None:
    """Make the fibers of a rank check at each wait whether its locked files are still open."""
    for fiber in (rank.fiber, *(rank.extra or {}).get("fibers", ())):
        # Only ranks that lock files check at each wait; all others wait as before.
        fiber.__class__ = _watching(type(fiber))


_kinds: dict[type[Fiber], type[Fiber]] = {}


def _watching(kind: type[Fiber]) -> type[Fiber]:
    if kind in _kinds.values():
        return kind

    def park(self: Fiber, reason: Any) -> None:
        release_closed(self.rank, self.clock_ps)
        kind.park(self, reason)

    if kind not in _kinds:
        _kinds[kind] = type(kind.__name__, (kind,), {"__slots__": (), "park": park})
    return _kinds[kind]


def release_closed(rank: Rank, time_ps: int) -> None:
    """Release the locks of files that a rank has closed."""
    mine: _LockedFiles | None = (rank.extra or {}).get(_LOCKED)
    for each in () if mine is None else list(mine.open):
        closed = each.closed()
        if not closed:
            continue
        each.numbers -= closed
        gone = {held for held in each.held if not each.numbers or held[1] == rank.number}
        each.held -= gone
        for space, owner in sorted(gone, key=str):
            request = LockRequest(rank.number, 0, (space, *each.file), owner, NONE, 0, _EVERYTHING)
            _send(rank, time_ps, request)
            for number in each.numbers:
                _set_real_lock(each, number, request)
        if not each.numbers:
            mine.open.remove(each)  # type: ignore[union-attr]
            _really_locked.discard(each)


def end(rank: Rank, time_ps: int) -> None:
    """Release all locks of a rank that has ended."""
    if rank.extra is not None and _LOCKED in rank.extra:
        for each in rank.extra[_LOCKED].open:
            _release(each)
        rank.extra[_LOCKED].open.clear()
        rank.key += 1
        rank.shard.post_to(0, time_ps + rank.shard.abort_delay_ps, rank.key, _ENDED, rank.number)


# -------------------------------------------------------------------------------------------------- functions


def _raise(answer: str) -> None:
    if answer == DEADLOCK:
        raise OSError(errno.EDEADLK, os.strerror(errno.EDEADLK))
    if answer != GRANTED:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _kind_of(operation: int) -> int:
    for kind, number in _OPERATIONS.items():
        if operation & ~fcntl.LOCK_NB == number:
            return kind
    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def _flock(fd: Any, operation: int, /) -> None:
    fiber = current.here()
    if fiber is None:
        _real_flock(fd, operation)
        return
    ask = LockRequest(0, 0, (), 0, _kind_of(operation), 0, _EVERYTHING, waits=not operation & fcntl.LOCK_NB)
    _raise(_lock(fiber, fd, ask, space="flock")[0])


def _range(target: Any, start: int, length: int, whence: int) -> tuple[int, int]:
    """Return the first byte of a range, and the one after the last."""
    if whence != os.SEEK_SET:
        number = _number_of(target)
        start += os.lseek(number, 0, os.SEEK_CUR) if whence == os.SEEK_CUR else os.fstat(number).st_size
    if length < 0:
        start, length = start + length, -length
    if start < 0:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return start, start + length if length else _EVERYTHING


def _lockf(fd: Any, cmd: int, len: int = 0, start: int = 0, whence: int = 0, /) -> None:
    fiber = current.here()
    if fiber is None:
        _real_lockf(fd, cmd, len, start, whence)
        return
    ask = LockRequest(0, 0, (), 0, _kind_of(cmd), *_range(fd, start, len, whence), waits=not cmd & fcntl.LOCK_NB)
    _check_access(fd, ask.kind)
    _raise(_lock(fiber, fd, ask, space="record", by_process=True)[0])


def _check_access(target: Any, kind: int) -> None:
    """Reject a lock of a kind for which the file is not open."""
    if _storage_file(target) is None:
        access = _real_fcntl(_number_of(target), fcntl.F_GETFL) & os.O_ACCMODE
        if (kind == SHARED and access == os.O_WRONLY) or (kind == EXCLUSIVE and access == os.O_RDONLY):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def _os_lockf(fd: int, command: int, length: int, /) -> None:
    fiber = current.here()
    if fiber is None:
        _real_os_lockf(fd, command, length)
        return
    start, end = _range(fd, 0, length, os.SEEK_CUR)
    kind = NONE if command == os.F_ULOCK else EXCLUSIVE
    ask = LockRequest(0, 0, (), 0, kind, start, end, waits=command == os.F_LOCK, probes=command == os.F_TEST)
    _raise(_lock(fiber, fd, ask, space="record", by_process=True)[0])


def _fcntl(fd: Any, cmd: int, arg: Any = 0, /) -> Any:
    fiber = current.here()
    if fiber is None or cmd not in _RECORDS or not isinstance(arg, bytes | bytearray | memoryview):
        return _real_fcntl(fd, cmd, arg)
    record = bytes(arg).ljust(struct.calcsize(_WHOLE), b"\0")
    number, whence, start, length = struct.unpack_from(_FLOCK, record)
    if number not in _KINDS:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    probes = cmd in (_OFD.get("GETLK"), _PROCESS["GETLK"])
    waits_for_it = cmd in (_OFD.get("SETLKW"), _PROCESS["SETLKW"])
    first, last = _range(fd, start, length, whence)
    ask = LockRequest(0, 0, (), 0, _KINDS[number], first, last, waits=waits_for_it, probes=probes)
    if not probes:
        _check_access(fd, ask.kind)
    answer, conflict = _lock(fiber, fd, ask, space="record", by_process=cmd in _PROCESS.values())
    if probes:
        return _described(record, conflict)[: len(arg)]
    _raise(answer)
    return bytes(arg)


def _described(record: bytes, conflict: LockRequest | None) -> bytes:
    """Return the result of F_GETLK for a conflicting lock."""
    if conflict is None:
        return struct.pack("h", fcntl.F_UNLCK) + record[struct.calcsize("h") :]
    length = conflict.end - conflict.start if conflict.end < _EVERYTHING else 0
    process = FIRST_PID + conflict.rank if isinstance(conflict.owner, int) else -1
    return struct.pack(_WHOLE, _TYPES[conflict.kind], os.SEEK_SET, conflict.start, length, process)


_RECORDS = frozenset((*_OFD.values(), *_PROCESS.values()))
_real_os_lockf = os.lockf


PATCHED: Table = (
    ("fcntl", "virtual: waits in virtual time", {"flock": _flock, "lockf": _lockf, "fcntl": _fcntl}),
    ("os", "virtual: waits in virtual time", {"lockf": _os_lockf}),
)
