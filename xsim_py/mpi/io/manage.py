"""Opening and closing files, and their collective settings (MPI 4.1, 14.2 and 14.3)."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.checksum import crc32
from xsim_py.mpi.comm import Communicator, derive_cid, shared_context
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.errors import fail
from xsim_py.mpi.transport.p2p import complete

from . import pointers
from .disk import Disk, open_disk, place_of, remove
from .hints import Hints
from .openfile import OpenFile, decide
from .representation import in_file
from .view import made

_NUMBER = struct.Struct("<q")
_PAIR = struct.Struct("<qq")
_ACCESS = {c.MODE_RDONLY: os.O_RDONLY, c.MODE_WRONLY: os.O_WRONLY, c.MODE_RDWR: os.O_RDWR}


def _same(name: str, values: Sequence[Any], code: int) -> None:
    """Raise an error if the ranks of a call pass different arguments."""
    if len({entry for entry in values if entry is not None}) > 1:
        fail(code, f"{name}: the arguments of the ranks differ")


# --------------------------------------------------------------------------------------------- opening, closing


def _check_mode(amode: int) -> None:
    access = [mode for mode in _ACCESS if amode & mode]
    if len(access) != 1:
        fail(c.ERR_AMODE, "exactly one of MODE_RDONLY, MODE_WRONLY and MODE_RDWR is needed")
    if access == [c.MODE_RDONLY] and amode & (c.MODE_CREATE | c.MODE_EXCL):
        fail(c.ERR_AMODE, "MODE_RDONLY cannot be combined with MODE_CREATE or MODE_EXCL")
    if access == [c.MODE_RDWR] and amode & c.MODE_SEQUENTIAL:
        fail(c.ERR_AMODE, "MODE_SEQUENTIAL does not go with MODE_RDWR")


def _flags(amode: int) -> int:
    """Return the flags for `os.open`.

    As in ROMIO, files for data sieving are opened for reading, too.
    """
    flags = next(flag for mode, flag in _ACCESS.items() if amode & mode)
    return flags | (os.O_CREAT if amode & c.MODE_CREATE else 0) | (os.O_EXCL if amode & c.MODE_EXCL else 0)


def title(path: str, ranks: int) -> str:
    """Return the name of a file in reports."""
    return f"file {os.path.basename(path)!r} of {ranks} rank{'s' * (ranks > 1)}"


def _own(comm: Communicator, path: str) -> Communicator:
    """Return the communicator of a new file, at no cost: all members know its number."""
    cid = derive_cid(comm.cid, "file", comm.next_child())
    own = Communicator(shared_context(comm.fabric, cid, comm.ranks), comm.box, me=comm.me)
    own.name = title(path, len(comm.ranks))
    return own


def reopen_for(file: OpenFile, comm: Communicator) -> None:
    """Transfer an open file to a subset of its ranks in another communicator, without messages.

    The view, the pointer of each rank and the open disk remain; the shared pointer is at 0.
    """
    own = _own(comm, file.path)
    known = Hints(own)
    known.update(file.hints.values.items())
    own.errhandler = file.comm.errhandler
    file.comm, file.hints = own, known
    pointers.forget(file.pointer)
    file.pointer = pointers.install(own)


def open_file(
    comm: Communicator,
    path: str,
    amode: int,
    hints: Iterable[tuple[str, str]],
    # Receives the disk that this rank has opened, for a caller that continues after a failure in the middle.
    opened: list[Disk] | None = None,
) -> OpenFile:
    """Open a file (MPI_File_open): rank 0 opens, and possibly creates, it first.

    All others follow.
    """
    name = "File.Open"
    _check_mode(amode)
    own = _own(comm, path)
    own.outer = comm  # until it is open, failures of its parent concern it, too
    place = place_of(path)
    known = Hints(own)
    known.update(hints)
    opened = [] if opened is None else opened

    def first(values: Sequence[Any]) -> int:
        _same(name, values, c.ERR_NOT_SAME)
        opened.append(open_disk(place, _flags(amode)))
        return opened[0].size() if amode & c.MODE_APPEND else 0

    end = decide(own, name, _NUMBER.pack(amode), first)
    if len(comm.ranks) > 1:
        _open_others(own, name, place, _flags(amode) & ~(os.O_CREAT | os.O_EXCL), opened)
    own.outer = None
    file = OpenFile(own, place, amode, opened[0], known)
    file.position = end
    file.pointer = pointers.install(own)
    if own.me == 0:
        pointers.set_to(file.pointer, end)
    return file


def _open_others(own: Communicator, name: str, place: str, flags: int, opened: list[Disk]) -> None:
    """Open the file on all ranks except the first; close it again if one of them fails."""
    problem = None
    if own.me != 0:
        try:
            opened.append(open_disk(place, flags))
        except errors.Exception as error:
            problem = error
    code = 0 if problem is None else problem.Get_error_class()

    def worst_code(values: Sequence[Any]) -> int:
        return max(int(_NUMBER.unpack(entry)[0]) for entry in values if entry is not None)

    worst = decide(own, name, _NUMBER.pack(code), worst_code)
    if worst:
        for disk in opened:
            disk.close()
        if problem is not None:
            raise problem
        fail(worst, f"{name}: another rank could not open the file")


def close(file: OpenFile) -> None:
    """Close a file (MPI_File_close); the last rank removes it if required."""
    split, file.split = file.split, None
    if split is not None:
        complete(split.operation)
    file.closed = True
    file.disk.close()
    try:
        decide(file.comm, "File.Close", b"\0", lambda values: _close_all(file))
    finally:
        pointers.forget(file.pointer)


def _close_all(file: OpenFile) -> int:
    if file.amode & c.MODE_DELETE_ON_CLOSE:
        remove(file.path)
    return 0


# ------------------------------------------------------------------------------------------------------- sizes


def size(file: OpenFile) -> int:
    """Return the size in bytes: MPI_File_get_size."""
    return file.disk.size()


def _resize(file: OpenFile, name: str, bytes_: int, *, shrink: bool) -> None:
    file.check_writable(name)
    if bytes_ < 0:
        fail(c.ERR_ARG, f"{name}: {bytes_} bytes")

    def act(values: Sequence[Any]) -> int:
        _same(name, values, c.ERR_ARG)
        if shrink or file.disk.size() < bytes_:
            file.disk.resize(bytes_)
        return 0

    decide(file.comm, name, _NUMBER.pack(bytes_), act)


def set_size(file: OpenFile, bytes_: int) -> None:
    """Set the size, by rank 0: MPI_File_set_size."""
    file.check_not_sequential("File.Set_size")
    _resize(file, "File.Set_size", bytes_, shrink=True)


def preallocate(file: OpenFile, bytes_: int) -> None:
    """Extend the file without shrinking it: MPI_File_preallocate."""
    _resize(file, "File.Preallocate", bytes_, shrink=False)


# ------------------------------------------------------------------------------------------------------- views


def set_view(
    file: OpenFile,
    displacement: int,
    etype: Type,
    filetype: Type,
    representation: str,
    hints: Iterable[tuple[str, str]],
) -> None:
    """Set the view; both file pointers return to its begin: MPI_File_set_view."""
    name = "File.Set_view"
    view = made(etype, filetype, representation)
    if file.amode & c.MODE_SEQUENTIAL:
        if displacement != c.DISPLACEMENT_CURRENT:
            fail(c.ERR_ARG, f"{name} of a file with sequential access needs DISPLACEMENT_CURRENT")
    elif displacement < 0:
        fail(c.ERR_ARG, f"{name}: displacement {displacement}")
    view.check(writable=not file.amode & c.MODE_RDONLY)

    def act(values: Sequence[Any]) -> int:
        _same(name, values, c.ERR_NOT_SAME)
        here = file.view.place(_shared(file, name) * file.view.unit) if displacement < 0 else displacement
        pointers.set_to(file.pointer, 0)
        return here

    # All ranks should agree on the extent of the etype, too (14.3.1). ROMIO does not check it, and in some programs a
    # rank without data has a different one: the checks report that.
    start = decide(file.comm, name, _NUMBER.pack(crc32(representation.encode())), act)
    view.displacement = start if displacement < 0 else displacement
    file.view = view
    file.position = 0
    file.hints.update(hints)


def type_extent(file: OpenFile, datatype: Type) -> int:
    """Return the extent of a type in the file's data representation: MPI_File_get_type_extent."""
    return in_file(file.view.representation, datatype).extent


def byte_offset(file: OpenFile, offset: int) -> int:
    """Return the byte offset of a position: MPI_File_get_byte_offset."""
    file.check_not_sequential("File.Get_byte_offset")
    if offset < 0:
        fail(c.ERR_ARG, f"File.Get_byte_offset: offset {offset}")
    return file.view.place(offset * file.view.unit)


# ---------------------------------------------------------------------------------------------------- pointers


def _moved(file: OpenFile, name: str, offset: int, whence: int, position: int) -> int:
    """Return the target of a seek, in etypes."""
    if whence == c.SEEK_CUR:
        offset += position
    elif whence == c.SEEK_END:
        unit = max(file.view.unit, 1)
        offset += -(-file.view.stream_size(file.disk.size()) // unit)
    elif whence != c.SEEK_SET:
        fail(c.ERR_ARG, f"{name}: expected SEEK_SET, SEEK_CUR or SEEK_END, got {whence}")
    if offset < 0:
        fail(c.ERR_ARG, f"{name} to position {offset}")
    return offset


def seek(file: OpenFile, offset: int, whence: int) -> None:
    """Move the individual pointer: MPI_File_seek."""
    file.check_not_sequential("File.Seek")
    file.position = _moved(file, "File.Seek", offset, whence, file.position)


def seek_shared(file: OpenFile, offset: int, whence: int) -> None:
    """Move the shared pointer, by rank 0: MPI_File_seek_shared."""
    name = "File.Seek_shared"
    file.check_not_sequential(name)

    def act(values: Sequence[Any]) -> int:
        _same(name, values, c.ERR_ARG)
        position = _shared(file, name) if whence == c.SEEK_CUR else 0
        pointers.set_to(file.pointer, _moved(file, name, offset, whence, position))
        return 0

    decide(file.comm, name, _PAIR.pack(offset, whence), act)


def _shared(file: OpenFile, name: str) -> int:
    return pointers.fetch_and_add(file.pointer, 0, name)


def shared_position(file: OpenFile) -> int:
    """Return the shared pointer: MPI_File_get_position_shared."""
    file.check_not_sequential("File.Get_position_shared")
    return _shared(file, "File.Get_position_shared")


# ------------------------------------------------------------------------------------------------- consistency


def set_atomicity(file: OpenFile, flag: bool) -> None:
    """Set the atomic mode: MPI_File_set_atomicity."""

    def act(values: Sequence[Any]) -> int:
        _same("File.Set_atomicity", values, c.ERR_ARG)
        return 0

    decide(file.comm, "File.Set_atomicity", bytes([flag]), act)
    file.atomic = flag


def sync(file: OpenFile) -> None:
    """Make this rank's writes safe, without waiting for others: MPI_File_sync."""
    file.check_writable("File.Sync")
    file.disk.sync()
