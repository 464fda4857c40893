"""Open files of the simulated storage: Python's own `io` objects on top of our raw files.

`open` returns the same kind of object as the real one: an `io.TextIOWrapper` on an `io.BufferedWriter` on the raw file,
and so on; the buffer has the storage's block size. So numpy, pickle, json, csv, zipfile and others write to it as to
any file. They cannot get a descriptor of the operating system: see `StorageFile.fileno`.

A rank that ends closes its files, which flushes their buffers. A rank that fails does not.
"""

from __future__ import annotations

import io
import os
import sys
import weakref
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import PACKAGE, is_installed
from xsim_py.process.ranks import current

from . import virtual_files

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

    from xsim_py.process.ranks.rank import Rank

FIRST_DESCRIPTOR = 1 << 30
"""Above all real descriptors: code that does not know these gets a bad-descriptor error from the system."""

_FOLDER = os.path.dirname(__file__)
_FILE_CODE = (
    __file__,
    os.path.join(_FOLDER, "file_calls.py"),
    os.path.join(os.path.dirname(_FOLDER), "descriptors", "os_calls.py"),
)
"""The code between a call of a program and an open file."""
_FLAGS = {"r": os.O_RDONLY, "w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL, "a": os.O_CREAT | os.O_APPEND}


class _OpenFiles:
    """The open files of one rank."""

    def __init__(self) -> None:
        # The outermost object of each file, in the order in which they were opened.
        self.stacks: dict[StorageFile, weakref.ref[Any]] = {}
        self.descriptors: dict[int, StorageFile] = {}  # the raw files that have one
        self.count = 0  # the number of descriptors used so far
        self.ending = False  # whether the rank has reached its end

    def close_all(self) -> None:
        """Close all files, as the end of a Python process does."""
        self.ending = True
        for outermost in [reference() for reference in self.stacks.values()]:
            if outermost is not None:
                try:
                    outermost.close()
                except OSError:
                    continue  # it cannot be reported; a real process ignores it, too


def _open_files(rank: Rank) -> _OpenFiles:
    known: _OpenFiles | None = (rank.extra or {}).get("open files")
    if known is None:
        known = rank.private("open files", _OpenFiles)
        # The first of the atexit functions is called last.
        rank.private("atexit", list).insert(0, (known.close_all, (), {}))
    return known


def no_real_file(name: object) -> io.UnsupportedOperation:
    """Return the error for a call that needs a file of the operating system."""
    return io.UnsupportedOperation(
        f"{name!r} is on the simulated storage, not a file of the operating system, which numpy.memmap, tofile and "
        "fromfile, and libraries in C, need: use numpy.save and load, or leave its folder out of storage.path"
    )


class StorageFile(io.RawIOBase):
    """A raw file on the simulated storage.

    `number` is its inode number on the server, `name` the name used by the program, and `position` the initial offset;
    `flags` are those of `os.open`.
    """

    def __init__(self, rank: Rank, *, server: int, number: int, name: object, flags: int, position: int) -> None:
        self._rank = rank
        self._server = server
        self._number = number
        self._flags = flags
        self._position = position
        self._descriptor: int | None = None
        self.name = name
        _open_files(rank).stacks[self] = weakref.ref(self)

    @classmethod
    def open(cls, path: str, name: object, flags: int) -> StorageFile:
        """Open a file of the storage for the running rank, which waits for the operation."""
        rank = current.running().rank
        server = virtual_files.storage().server_of(rank)
        number, size = virtual_files.request("open", rank.number, path, flags, name=str(name))
        position = size if flags & os.O_APPEND else 0
        return cls(rank, server=server, number=number, name=name, flags=flags, position=position)

    @classmethod
    def of_folder(cls, name: object) -> StorageFile:
        """Return an object for an open directory, which a program syncs after renaming in it."""
        rank = current.running().rank
        server = virtual_files.storage().server_of(rank)
        return cls(rank, server=server, number=0, name=name, flags=os.O_RDONLY, position=0)

    def outermost(self, stack: object) -> None:
        """Register the object to close when the rank ends."""
        _open_files(self._rank).stacks[self] = weakref.ref(stack)

    @property
    def mode(self) -> str:
        """The mode, as that of `io.FileIO`."""
        access = self._flags & os.O_ACCMODE
        if self._flags & os.O_EXCL:
            return "xb+" if access == os.O_RDWR else "xb"
        if self._flags & os.O_APPEND:
            return "ab+" if access == os.O_RDWR else "ab"
        return {os.O_RDONLY: "rb", os.O_WRONLY: "wb"}.get(access, "rb+")

    def _may_wait(self) -> bool:
        """Return True if the rank that opened it runs, rather than the garbage collector in the middle of something."""
        fiber = current.here()
        if fiber is None or fiber.rank is not self._rank:
            return False
        if _open_files(self._rank).ending:
            return True
        caller = sys._getframe()
        while caller.f_code.co_filename in _FILE_CODE and caller.f_back is not None:
            caller = caller.f_back
        return not caller.f_code.co_filename.startswith(PACKAGE)

    def _ask(self, kind: str, *arguments: object) -> Any:
        self._check()
        return virtual_files.request(kind, *arguments, name=str(self.name), server=self._server)

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        fiber = current.here()
        if fiber is None or fiber.rank is not self._rank:
            raise io.UnsupportedOperation(f"{self.name!r} was opened by rank {self._rank.number}, in its main thread")

    # ------------------------------------------------------------------------------------ methods required by io

    def readable(self) -> bool:
        """Return True if it was opened for reading."""
        return self._flags & os.O_ACCMODE != os.O_WRONLY

    def writable(self) -> bool:
        """Return True if it was opened for writing."""
        return self._flags & os.O_ACCMODE != os.O_RDONLY

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the current offset."""
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read at the current offset, in one operation of the storage."""
        view = memoryview(buffer).cast("B")
        data = self._read(len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """Read the rest of the file, in one operation of the storage."""
        return self._read(None)

    def _read(self, size: int | None) -> bytes:
        if not self.readable():
            raise io.UnsupportedOperation("not readable")
        data: bytes = self._ask("read", self._number, self._position, size)
        self._position += len(data)
        return data

    def write(self, data: ReadableBuffer) -> int:
        """Write at the current offset, or in append mode at the end, in one operation of the storage."""
        if not self.writable():
            raise io.UnsupportedOperation("not writable")
        whole = bytes(data)
        start = None if self._flags & os.O_APPEND else self._position
        if self._may_wait():
            self._position = self._ask("write", self._number, start, whole)
        else:
            virtual_files.submit_later(self._rank, self._server, "write", self._number, start, whole)
            self._position += len(whole)
        return len(whole)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Change the offset; relative to the end this takes an operation of the storage, which knows the size."""
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            offset += self._ask("size", self._number)
        elif whence != os.SEEK_SET:
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        if offset < 0:
            raise OSError(22, "Invalid argument")
        self._position = offset
        return offset

    def truncate(self, size: int | None = None, /) -> int:
        """Truncate the file, or extend it with zeros."""
        if not self.writable():
            raise io.UnsupportedOperation("truncate")
        size = self._position if size is None else size
        self._ask("resize", self._number, size)
        return size

    def place(self) -> tuple[Any, ...]:
        """Return the identity of the file: equal for equal files."""
        return "storage", self._server, self._number

    def stat(self) -> os.stat_result:
        """Return the status of the file, as `os.fstat` does."""
        known: os.stat_result = self._ask("fstat", self._number)
        return known

    def sync(self) -> None:
        """Wait for one operation of the storage that confirms the data are stored."""
        self._ask("sync")

    def close(self) -> None:
        """Close the file, without waiting."""
        if not self.closed:
            super().close()
            known = _open_files(self._rank) if self._rank.exit_status is None else _OpenFiles()
            known.stacks.pop(self, None)
            if self._descriptor is not None:
                known.descriptors.pop(self._descriptor, None)
            if not self._number:
                return
            if self._may_wait():
                virtual_files.submit(self._server, "close", self._rank.number, self._number)
            else:
                virtual_files.submit_later(self._rank, self._server, "close", self._rank.number, self._number)

    def fileno(self) -> int:
        """Return a descriptor that `os.fsync` and other functions on descriptors accept during the run.

        The operating system does not know it. Installed packages that would pass it on fall back on `read` and `write`
        if a file has no descriptor (numpy.save, shutil.copyfile), so for them this raises an error.
        """
        self._check()
        if is_installed(sys._getframe(1).f_code.co_filename):
            raise no_real_file(self.name)
        return self.descriptor()

    def descriptor(self) -> int:
        """Return the number returned by `fileno`, also to installed packages."""
        if self._descriptor is None:
            known = _open_files(self._rank)
            self._descriptor = FIRST_DESCRIPTOR + known.count
            known.descriptors[self._descriptor] = self
            known.count += 1
        return self._descriptor


def of_descriptor(number: object) -> StorageFile | None:
    """Return the running rank's raw file with this descriptor, or None."""
    if not isinstance(number, int) or number < FIRST_DESCRIPTOR:
        return None
    fiber = current.here()
    return None if fiber is None else _open_files(fiber.rank).descriptors.get(number)


# ------------------------------------------------------------------------------------------------------- open


def flags_of(mode: str) -> int:
    """Return the flags of `os.open` for a mode of `open`.

    An invalid mode raises a `ValueError`, as in the real `open`.
    """
    letters = set(mode)
    if letters - set("rwaxbt+") or len(letters) < len(mode):
        raise ValueError(f"invalid mode: {mode!r}")
    if {"t", "b"} <= letters:
        raise ValueError("can't have text and binary mode at once")
    kinds = [letter for letter in "rwax" if letter in letters]
    if len(kinds) != 1:
        raise ValueError("must have exactly one of create/read/write/append mode")
    access = os.O_RDWR if "+" in letters else os.O_RDONLY if kinds[0] == "r" else os.O_WRONLY
    return access | _FLAGS[kinds[0]]


def open_file(
    raw: StorageFile,
    mode: str,
    buffering: int,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
) -> object:
    """Build the same objects on a raw file as `open` would; the arguments are those of `open`."""
    try:
        stack = _stacked(raw, mode, buffering, encoding, errors, newline)
    except BaseException:
        raw.close()
        raise
    raw.outermost(stack)
    return stack


def _stacked(
    raw: StorageFile, mode: str, buffering: int, encoding: str | None, errors: str | None, newline: str | None
) -> object:
    binary = "b" in mode
    if buffering == 0:
        if not binary:
            raise ValueError("can't have unbuffered text I/O")
        return raw
    block = buffering if buffering > 1 else virtual_files.storage().block_bytes
    buffered: io.BufferedIOBase
    if "+" in mode:
        buffered = io.BufferedRandom(raw, block)
    elif "r" in mode:
        buffered = io.BufferedReader(raw, block)
    else:
        buffered = io.BufferedWriter(raw, block)
    if binary:
        return buffered
    text: Any = io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)
    text._CHUNK_SIZE = block  # otherwise it reads 8 KiB at a time
    text.mode = mode
    return text


def check_text(mode: str, encoding: str | None, errors: str | None, newline: str | None) -> None:
    """Reject text-only arguments in binary mode, as the real `open` does, before the file is created."""
    if "b" in mode:
        for name, value in (("encoding", encoding), ("errors", errors), ("newline", newline)):
            if value is not None:
                raise ValueError(f"binary mode doesn't take {'an ' if name != 'newline' else 'a '}{name} argument")
