"""The storage of an MPI file: the simulated storage, or a file of the host.

The program's own `open` accesses these files under the same names. On the simulated storage each request takes as long
as one of `open`. A file of the host takes no virtual time, except `mpi.poll_time` per request, so that a loop that
polls a file advances the clock.
"""

from __future__ import annotations

import errno
import os
from typing import Any, NoReturn, Protocol

from xsim_py.mpi import constants as c
from xsim_py.mpi.errors import fail
from xsim_py.process.files import virtual_files
from xsim_py.process.ranks import current

from .view import Pieces

_CLASSES = {
    errno.ENOENT: c.ERR_NO_SUCH_FILE,
    errno.EEXIST: c.ERR_FILE_EXISTS,
    errno.EACCES: c.ERR_ACCESS,
    errno.EPERM: c.ERR_ACCESS,
    errno.EISDIR: c.ERR_BAD_FILE,
    errno.ENOTDIR: c.ERR_BAD_FILE,
    errno.ENAMETOOLONG: c.ERR_BAD_FILE,
    errno.ELOOP: c.ERR_BAD_FILE,
    errno.EROFS: c.ERR_READ_ONLY,
    errno.ENOSPC: c.ERR_NO_SPACE,
    errno.EDQUOT: c.ERR_QUOTA,
}
"""The error class that MPICH returns for an error of the operating system; `ERR_IO` for all others."""

_MODE = 0o644


class Disk(Protocol):
    """An open file of one rank."""

    def read(self, start: int, size: int) -> bytes:
        """Return at most `size` bytes from `start` on; fewer if the file ends."""
        ...

    def write(self, start: int, data: bytes) -> None:
        """Write at `start`."""
        ...

    def scatter(self, pieces: Pieces, data: bytes) -> None:
        """Write disjoint pieces in ascending order; their bytes are consecutive in `data`."""
        ...

    def size(self) -> int:
        """Return the size of the file in bytes."""
        ...

    def resize(self, size: int) -> None:
        """Truncate the file, or extend it by zeros."""
        ...

    def sync(self) -> None:
        """Wait until all written data are safe."""
        ...

    def close(self) -> None:
        """Close the file, without waiting."""
        ...


def place_of(path: str) -> str:
    """Return the absolute path of a file of the running rank."""
    return path if path.startswith("/") else os.path.join(os.getcwd(), path)


def _is_stored(place: str) -> bool:
    return virtual_files.active is not None and virtual_files.active.serves(place)


def open_disk(place: str, flags: int) -> Disk:
    """Open a file, as `os.open`, for the running rank."""
    kind = _Stored if _is_stored(place) else _Real
    try:
        return kind(place, flags)
    except OSError as error:
        _refuse(error, place)


def remove(place: str) -> None:
    """Remove a file: MPI_File_delete."""
    try:
        if _is_stored(place):
            virtual_files.request("remove", place, name=place)
        else:
            _wait_for_others()
            os.unlink(place)
    except OSError as error:
        _refuse(error, place)


def _refuse(error: OSError, place: str) -> NoReturn:
    code = _CLASSES.get(error.errno or 0, c.ERR_IO)
    fail(code, f"{place.removeprefix(os.getcwd() + os.sep)}: {error.strerror}")


class _Stored:
    """A file on the simulated storage."""

    __slots__ = ("_name", "_number", "_rank", "_server")

    def __init__(self, place: str, flags: int) -> None:
        storage, fiber = virtual_files.active, current.fiber
        assert storage is not None
        assert fiber is not None
        self._name = os.path.basename(place)
        self._rank = fiber.rank
        self._server = storage.server_of(fiber.rank)
        self._number, _ = virtual_files.request("open", fiber.rank.number, place, flags, name=self._name)

    def _ask(self, kind: str, *arguments: object) -> Any:
        try:
            return virtual_files.request(kind, *arguments, name=self._name, server=self._server)
        except OSError as error:
            _refuse(error, self._name)

    def read(self, start: int, size: int) -> bytes:
        data: bytes = self._ask("read", self._number, start, size)
        return data

    def write(self, start: int, data: bytes) -> None:
        self._ask("write", self._number, start, data)

    def scatter(self, pieces: Pieces, data: bytes) -> None:
        """Data sieving: the storage reads the range of the pieces, and writes it back with them."""
        self.read(pieces.low, pieces.high - pieces.low)
        self._ask("scatter", self._number, pieces.starts, pieces.sizes, data, pieces.high)

    def size(self) -> int:
        size: int = self._ask("size", self._number)
        return size

    def resize(self, size: int) -> None:
        self._ask("resize", self._number, size)

    def sync(self) -> None:
        self._ask("sync")

    def close(self) -> None:
        virtual_files.submit(self._server, "close", self._rank.number, self._number)


def _wait_for_others() -> None:
    """Wait until earlier operations of others are done, and for the duration of a poll."""
    fiber = current.running()
    fiber.clock_ps += fiber.rank.shard.fabric.settings.mpi.poll_time_ps
    fiber.sync()


class _Real:
    """A file of the host."""

    __slots__ = ("_descriptor", "_place")

    def __init__(self, place: str, flags: int) -> None:
        self._descriptor = -1
        self._place = place
        _wait_for_others()
        self._descriptor = os.open(place, flags | os.O_CLOEXEC, _MODE)

    def read(self, start: int, size: int) -> bytes:
        _wait_for_others()
        try:
            data = os.pread(self._descriptor, size, start)
            while 0 < len(data) < size and (more := os.pread(self._descriptor, size - len(data), start + len(data))):
                data += more  # one system call transfers 2 GiB at most
            return data
        except OSError as error:
            _refuse(error, self._place)

    def write(self, start: int, data: bytes) -> None:
        _wait_for_others()
        self._put(start, memoryview(data))

    def scatter(self, pieces: Pieces, data: bytes) -> None:
        """Write only the pieces: another process of the simulation may write between them."""
        _wait_for_others()
        left = memoryview(data)
        for start, size in zip(pieces.starts.tolist(), pieces.sizes.tolist(), strict=True):
            self._put(start, left[:size])
            left = left[size:]

    def _put(self, start: int, data: memoryview) -> None:
        done = 0
        try:
            while done < len(data):  # one system call transfers 2 GiB at most
                done += os.pwrite(self._descriptor, data[done:], start + done)
        except OSError as error:
            _refuse(error, self._place)

    def size(self) -> int:
        _wait_for_others()
        return os.fstat(self._descriptor).st_size

    def resize(self, size: int) -> None:
        _wait_for_others()
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            _refuse(error, self._place)

    def sync(self) -> None:
        _wait_for_others()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()
