"""Files of compiled programs on the simulated storage (``library/files.c``): those of ranks in Python."""

from __future__ import annotations

import errno
import io
import os
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from xsim_py.process.files import virtual_files
from xsim_py.process.files.open_files import StorageFile, of_descriptor

if TYPE_CHECKING:
    from .child import Child

Operation: TypeAlias = "Callable[[Child, int, int, int, int], int | None]"
_STATUS = struct.Struct("=7q")
_CURRENT = -1  # a position: that of the descriptor


class ProgramFile(StorageFile):
    """A file that a compiled program has open: only its calls read, write and close it."""

    def _may_wait(self) -> bool:
        return True

    def read_at(self, start: int, size: int) -> bytes:
        """Return bytes from a position on."""
        if not self.readable():
            raise io.UnsupportedOperation
        data: bytes = self._ask("read", self._number, start, size)
        return data

    def write_at(self, start: int, data: bytes) -> int:
        """Write bytes at a position."""
        if not self.writable():
            raise io.UnsupportedOperation
        self._ask("write", self._number, start, data)
        return len(data)


def operate(child: Child, operation: int, *given: int) -> int:
    """Perform an operation of files.c; return its result, or a negative error number."""
    try:
        return _OPERATIONS[operation](child, *given) or 0
    except io.UnsupportedOperation:
        return -errno.EBADF
    except OSError as error:
        return -(error.errno or errno.EIO)
    except ValueError:
        return -errno.EINVAL


def _file(number: int) -> ProgramFile:
    found = of_descriptor(number)
    if not isinstance(found, ProgramFile):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return found


def _serves(path: str) -> bool:
    return virtual_files.active is not None and path.startswith("/") and virtual_files.active.serves(path)


def _path(child: Child, address: int) -> str:
    """Return an absolute path on the storage; raise ENOSYS for others, which the program accesses itself."""
    path = child.text(address)
    if not _serves(path):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return path


def _at_path(kind: str, *more: object) -> Operation:
    """Return an operation that asks the storage about a path."""

    def operation(child: Child, address: int, *_: int) -> None:
        path = _path(child, address)
        virtual_files.request(kind, path, *more, name=path)

    return operation


def _block(child: Child, *_: int) -> int:
    return 0 if virtual_files.active is None else virtual_files.active.block_bytes


def _open(child: Child, address: int, flags: int, *_: int) -> int:
    path = _path(child, address)
    try:
        return ProgramFile.open(path, path, flags).descriptor()
    except IsADirectoryError:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise
        return ProgramFile.of_folder(path).descriptor()


def _close(child: Child, number: int, *_: int) -> None:
    _file(number).close()


def _read(child: Child, number: int, address: int, size: int, start: int) -> int:
    file = _file(number)
    data = file.read(size) or b"" if start == _CURRENT else file.read_at(start, size)
    child.write(address, data)
    return len(data)


def _write(child: Child, number: int, address: int, size: int, start: int) -> int:
    file, data = _file(number), bytes(child.read(address, size))
    return file.write(data) if start == _CURRENT else file.write_at(start, data)


def _seek(child: Child, number: int, offset: int, whence: int, _: int) -> int:
    return _file(number).seek(offset, whence)


def _sync(child: Child, number: int, *_: int) -> None:
    _file(number).sync()


def _resize(child: Child, number: int, size: int, *_: int) -> None:
    _file(number).truncate(size)


def _write_status(child: Child, address: int, found: os.stat_result) -> None:
    seconds, ns = divmod(found.st_mtime_ns, 10**9)
    head = found.st_mode, found.st_ino, found.st_dev, found.st_nlink, found.st_size
    child.write(address, _STATUS.pack(*head, seconds, ns))


def _status(child: Child, number: int, address: int, *_: int) -> None:
    _write_status(child, address, _file(number).stat())


def _stat(child: Child, path_at: int, address: int, follow: int, _: int) -> None:
    path = _path(child, path_at)
    _write_status(child, address, virtual_files.request("stat", path, bool(follow), name=path))


def _access(child: Child, address: int, mode: int, *_: int) -> None:
    path = _path(child, address)
    if not virtual_files.request("access", path, mode, name=path):
        if mode != os.F_OK:
            virtual_files.request("stat", path, name=path)  # raises an error if it does not exist
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))


def _rename(child: Child, old: int, new: int, *_: int) -> None:
    paths = child.text(old), child.text(new)
    served = {_serves(path) for path in paths}
    if served != {True}:
        number = errno.EXDEV if True in served else errno.ENOSYS
        raise OSError(number, os.strerror(number))
    virtual_files.request("rename", *paths, name=" ".join(paths))


def _truncate(child: Child, address: int, size: int, *_: int) -> None:
    path = _path(child, address)
    virtual_files.request("truncate", path, size, name=path)


def _names(child: Child, address: int, number: int, *_: int) -> int:
    """Return the address of the entries of a directory, each the type, as in ``dirent.h``, and the name."""
    path = _path(child, address) if address else str(_file(number).name)
    names = virtual_files.request("names", path, name=path)
    data = b"".join(bytes([kind >> 12]) + os.fsencode(name) + b"\0" for name, kind in names)
    found = child.obtain(len(data) + 1)
    child.write(found, data)
    return found


_OPERATIONS: tuple[Operation, ...] = (
    _block, _open, _close, _read, _write, _seek, _sync, _resize, _status,
    _stat, _access, _at_path("remove"), _at_path("rmdir"), _at_path("mkdir", None), _rename,
    _truncate, _names,
)  # fmt: skip
"""In the order of files.c."""
