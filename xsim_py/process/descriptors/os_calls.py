"""The functions of `os` about descriptors, and `open`, for ranks' streams and pipes.

Every other descriptor, and every call from outside of ranks, goes to the function that was installed before: that of
the simulated storage, if there is one.
"""

from __future__ import annotations

import builtins
import fcntl
import io
import os
import socket
import stat
import sys
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.process.files.open_files import check_text, flags_of
from xsim_py.process.output import standard_descriptors
from xsim_py.process.output.collector import RankInput, RankStream, finish_lines
from xsim_py.process.output.standard_descriptors import virtual_descriptors
from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Patches, Table, Wrapper

from . import fifos, file_locks, pipes, polls, semaphores, sockets

if TYPE_CHECKING:
    from _typeshed import HasFileno, ReadableBuffer, StrOrBytesPath, WriteableBuffer

    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.shard import Shard

_COPYING = (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC)

_before: dict[str, Any] = {}
"""The functions as they were before the run, by name."""


# ----------------------------------------------------------------------------------------------- reading and writing


def _read(fd: int, length: int, /) -> bytes:
    if fd in virtual_descriptors and (fiber := current.here()) is not None:
        if fd in pipes.ends:
            return pipes.read(fiber, fd, length)
        if standard_descriptors.stream_of(fiber.rank, fd) == 0:
            finish_lines(fiber.rank, fiber.clock_ps)
            fiber.rank.shard.output.flush(fiber.clock_ps + 1)
            if fiber.rank.number:
                return b""  # as with launchers
    data: bytes = _before["read"](fd, length)
    return data


def _write(fd: int, data: ReadableBuffer, /) -> int:
    if fd in virtual_descriptors and (fiber := current.here()) is not None:
        if fd in pipes.ends:
            return pipes.write(fiber, fd, data)
        stream = standard_descriptors.stream_of(fiber.rank, fd)
        if stream:
            return standard_descriptors.streams[stream - 1].take(fiber, bytes(data))
    written: int = _before["write"](fd, data)
    return written


def _readv(fd: int, buffers: Iterable[WriteableBuffer], /) -> int:
    if fd not in virtual_descriptors or current.here() is None:
        done: int = _before["readv"](fd, buffers)
        return done
    views = [memoryview(buffer).cast("B") for buffer in buffers]
    data = _read(fd, sum(map(len, views)))
    at = 0
    for view in views:
        part = data[at : at + len(view)]
        view[: len(part)] = part
        at += len(part)
    return len(data)


def _writev(fd: int, buffers: Iterable[ReadableBuffer], /) -> int:
    if fd not in virtual_descriptors or current.here() is None:
        done: int = _before["writev"](fd, buffers)
        return done
    return _write(fd, b"".join(bytes(buffer) for buffer in buffers))


# --------------------------------------------------------------------------------------------- creating and closing


def _close(fd: int) -> None:
    fiber = current.here() if fd in virtual_descriptors else None
    if fiber is None:
        _before["close"](fd)
        if fd in pipes.ends:  # of an object that is freed outside of ranks
            pipes.forget(fd)
        return
    if fd in standard_descriptors.STANDARD:
        os.fstat(fd)  # raises an error if it is closed already
        standard_descriptors.keep_shared(fiber, fd)
    _before["close"](fd)
    standard_descriptors.note_closed(fiber, fd)
    _forget_pipe(fiber, fd)


def _forget_pipe(fiber: Fiber, fd: int) -> None:
    end = pipes.ends.get(fd)
    if end is not None:
        pipes.forget(fd)
        if end not in pipes.ends.values():
            fifos.notify_closed(fiber, end)
        pipes.wake_waiters(fiber, end)


def _closerange(fd_low: int, fd_high: int, /) -> None:
    fiber = current.here()
    if fiber is not None:
        for number in sorted(virtual_descriptors):
            if fd_low <= number < fd_high and (number in standard_descriptors.STANDARD or _is_simulated(fiber, number)):
                try:
                    _close(number)
                except OSError:
                    continue
        fd_low = max(fd_low, len(standard_descriptors.STANDARD))
    _before["closerange"](fd_low, fd_high)


def _is_simulated(fiber: Fiber, number: int) -> bool:
    return number in pipes.ends or standard_descriptors.stream_of(fiber.rank, number) is not None


def _dup(fd: int, /) -> int:
    copy: int = _before["dup"](fd)
    _copied(fd, copy)
    return copy


def _copied(fd: int, copy: int) -> None:
    fiber = current.here()
    if fiber is not None:
        file_locks.note_copy(fiber.rank, fd, copy)
        if fd in virtual_descriptors or copy in virtual_descriptors:
            standard_descriptors.note_copy(fiber, fd, copy)
            pipes.note_copy(fd, copy)


def _dup2(fd: int, fd2: int, inheritable: bool = True) -> int:
    if (fd not in virtual_descriptors and fd2 not in virtual_descriptors) or (fiber := current.here()) is None:
        copy: int = _before["dup2"](fd, fd2, inheritable)
        _copied(fd, fd2)
        return copy
    os.fstat(fd)
    standard_descriptors.keep_shared(fiber, fd2)
    if fd != fd2:
        _forget_pipe(fiber, fd2)
        _before["dup2"](fd, fd2, inheritable)
    _copied(fd, fd2)
    return fd2


def _fcntl(fd: HasFileno | int, cmd: int, arg: object = 0, /) -> object:
    done = _before["fcntl"](fd, cmd, arg)
    if cmd in _COPYING:
        _copied(fd if isinstance(fd, int) else fd.fileno(), done)
    return done


def _pipe() -> tuple[int, int]:
    both: tuple[int, int] = _before["pipe"]()
    if current.here() is not None:
        pipes.note_made(*both)
    return both


def _pipe2(flags: int, /) -> tuple[int, int]:
    both: tuple[int, int] = _before["pipe2"](flags)
    if current.here() is not None:
        pipes.note_made(*both)
    return both


def _eventfd(initval: int, flags: int = 0x80000) -> int:
    number: int = _before["eventfd"](initval, flags)
    if current.here() is not None:
        pipes.note_made(number)
    return number


def _eventfd_read(fd: int) -> int:
    if current.here() is None:
        known: int = _before["eventfd_read"](fd)
        return known
    return int.from_bytes(_read(fd, 8), sys.byteorder)


def _eventfd_write(fd: int, value: int) -> None:
    if current.here() is None:
        _before["eventfd_write"](fd, value)
    else:
        _write(fd, value.to_bytes(8, sys.byteorder))


def _detach(self: socket.socket) -> int:
    number: int = _real_detach(self)
    if current.here() is not None and number >= 0:
        pipes.note_made(number)
    return number


# ------------------------------------------------------------------------------------------------------------ open


def _mkfifo(path: StrOrBytesPath, mode: int = 0o666, *, dir_fd: object = None) -> None:
    fiber = current.here() if dir_fd is None else None
    found = True
    try:
        _before["mkfifo"](path, mode, dir_fd=dir_fd)
        found = False
    finally:
        if fiber is not None and _is_fifo(path):
            fifos.notify_created(fiber, path, found=found)


def _is_fifo(path: Any) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError, TypeError):
        return False


def _os_open(path: StrOrBytesPath, flags: int, mode: int = 0o777, *, dir_fd: object = None) -> int:
    if fifos.expected and dir_fd is None and (fiber := current.here()) is not None and _is_fifo(path):
        return fifos.open_fifo(fiber, path, flags)
    number: int = _before["os.open"](path, flags, mode, dir_fd=dir_fd)
    return number


def _open(file: Any, mode: str = "r", *rest: object, **named: object) -> object:
    if file.__class__ is int:
        if file in virtual_descriptors and (fiber := current.here()) is not None and _is_simulated(fiber, file):
            return _opener_of(fiber, file, file)(mode, *rest, **named)
    elif fifos.expected and (fiber := current.here()) is not None and _is_fifo(file):
        number = fifos.open_fifo(fiber, file, flags_of(mode) & ~os.O_EXCL)
        return _opener_of(fiber, number, file)(mode, *rest, **named)
    return _before["open"](file, mode, *rest, **named)


class _File(io.RawIOBase):
    """A raw file on a descriptor that is a stream or a pipe."""

    def __init__(self, number: int, mode: str, name: object, closes: bool) -> None:
        self._number = number
        self._closes = closes
        self._access = flags_of(mode) & os.O_ACCMODE
        self.name = name
        self.mode = {os.O_RDONLY: "rb", os.O_WRONLY: "wb"}.get(self._access, "rb+")
        self.closefd = closes

    def fileno(self) -> int:
        """Return the descriptor."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._number

    def readable(self) -> bool:
        """Return True if it was opened for reading."""
        return self._access != os.O_WRONLY

    def writable(self) -> bool:
        """Return True if it was opened for writing."""
        return self._access != os.O_RDONLY

    def isatty(self) -> bool:
        """Return True if it is a terminal."""
        return os.isatty(self._number)

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        """Read available data, after waiting for some."""
        view = memoryview(buffer).cast("B")
        try:
            data = os.read(self.fileno(), len(view))
        except BlockingIOError:
            return None
        view[: len(data)] = data
        return len(data)

    def write(self, data: ReadableBuffer) -> int | None:
        """Write, after waiting for room."""
        try:
            return os.write(self.fileno(), data)
        except BlockingIOError:
            return None

    def close(self) -> None:
        """Close the file, and its descriptor unless opened with ``closefd=False``."""
        if not self.closed:
            super().close()
            if self._closes:
                os.close(self._number)


def _opener_of(fiber: Fiber, number: int, name: object) -> Callable[..., Any]:
    """Return a function with the other arguments of `open`, which returns a file object for a descriptor."""

    def opened(
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: object = None,
    ) -> object:
        check_text(mode, encoding, errors, newline)
        os.fstat(number)
        raw = _File(number, mode, name, closefd)
        if buffering == 0:
            if "b" not in mode:
                raise ValueError("can't have unbuffered text I/O")
            return raw
        size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
        stack: Any = io.BufferedReader(raw, size) if raw.readable() else io.BufferedWriter(raw, size)
        if raw.readable() and raw.writable():
            stack = io.BufferedRWPair(raw, raw, size)
        if "b" not in mode:
            stack = io.TextIOWrapper(stack, encoding, errors, newline, line_buffering=buffering == 1 or raw.isatty())
            stack.mode = mode
        if raw.writable():
            _flush_at_end(fiber, stack)
        return stack

    return opened


def _flush_at_end(fiber: Fiber, stack: io.IOBase) -> None:
    """Flush a file at the end of its rank, as Python does at the end of a process."""
    reference = weakref.ref(stack)

    def flush() -> None:
        file = reference()
        if file is not None and not file.closed:
            file.flush()

    fiber.rank.private("atexit", list).insert(0, (flush, (), {}))


# -------------------------------------------------------------------------------------------------------- for a run

_real_detach = socket.socket.detach


class _Plain(partial[Any]):
    """A function that does not become a method as a class attribute, like functions in C."""

    def __new__(cls, function: Callable[..., Any], name: str) -> _Plain:
        """Give a function the name of another."""
        made = super().__new__(cls, function)
        made.__name__ = made.__qualname__ = name  # type: ignore[attr-defined]
        made.__doc__ = getattr(_before.get(name), "__doc__", None)
        return made


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "read": _read,
    "write": _write,
    "readv": _readv,
    "writev": _writev,
    "close": _close,
    "closerange": _closerange,
    "dup": _dup,
    "dup2": _dup2,
    "pipe": _pipe,
    "pipe2": _pipe2,
    "eventfd": _eventfd,
    "eventfd_read": _eventfd_read,
    "eventfd_write": _eventfd_write,
    "mkfifo": _mkfifo,
}


def attach(shard: Shard) -> None:
    """Let ranks of a shard wait for descriptors, and lock files."""
    sockets.attach(shard)
    file_locks.attach(shard)


def forget() -> None:
    """Forget the open files of this process's ranks, at the end of a run."""
    file_locks.forget()


def _noted(real: object, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Record the real function and return its replacement."""
    _before[name] = real
    return _Plain(function, name.rpartition(".")[2])


def _with_simulated_pipes(defaults: tuple[Any, ...]) -> tuple[Any, ...]:
    """Make pipes of `multiprocessing` use our functions, even if it was imported before the run."""
    ours = {_before[name]: getattr(os, name) for name in ("read", "write", "close")}
    return tuple(ours.get(each, each) for each in defaults)


_OWN = "virtual: pipes and descriptors 0 to 2; real: all others"
PATCHED: Table = (
    ("sys", "private: empty except on rank 0", {"stdin": Wrapper(RankInput)}),
    (
        "sys",
        "private: output appears in virtual-time order",
        {name: Wrapper(partial(RankStream, at)) for at, name in enumerate(("stdout", "stderr"))},
    ),
    ("os", _OWN, {name: Wrapper(_noted, name, function) for name, function in _FUNCTIONS.items()}),
    *(
        (f"multiprocessing.connection.Connection.{name}", _OWN, {"__defaults__": Wrapper(_with_simulated_pipes)})
        for name in ("_recv", "_send", "_close")
    ),
    ("os", _OWN, {"open": Wrapper(_noted, "os.open", _os_open)}),
    ("fcntl", _OWN, {"fcntl": Wrapper(_noted, "fcntl", _fcntl)}),
    ("builtins", _OWN, {"open": Wrapper(_noted, "open", _open)}),
    ("io", _OWN, {"open": Wrapper(lambda _: builtins.open)}),
    ("socket.socket", "virtual: a real socket that waits in virtual time", {"detach": _detach}),
)


def install(patches: Patches) -> None:
    """Replace these functions and the standard streams for a run; after the functions of the simulated storage."""
    patches.install(sockets.PATCHED, polls.PATCHED, semaphores.PATCHED, file_locks.PATCHED, PATCHED)
    printed: Any = sys.stdout, sys.stderr
    standard_descriptors.install(patches, *printed)
    patches.at_end(pipes.ends.clear)
    patches.at_end(fifos.forget)
