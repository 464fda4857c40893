"""Reading of files named by users: completely, up to a limit, without waiting forever.

The name may be that of an endless device (``/dev/zero``), a pipe without a writer, a directory, or be invalid. Each of
these raises an `OSError` with a matching ``strerror``; the caller adds the purpose of the file.
"""

from __future__ import annotations

import errno
import os
import select
import stat
from collections.abc import Iterator
from typing import Final

MIB: Final = 2**20
_PIECE_BYTES: Final = 2**16
_NOBODY_MS: Final = 500  # for another process about to open the other end of a pipe
_SILENCE_MS: Final = 60_000


def is_file(path: str | os.PathLike[str]) -> bool:
    """Return True if a file of that name exists; an invalid name returns False."""
    return os.path.isfile(path)  # Path.is_file() raises for a name that is too long


def read_input(path: str | os.PathLike[str], *, most_bytes: int) -> bytes:
    """Return all bytes of a file, or of a pipe such as the shell's ``<(command)``.

    Raise OSError if it cannot be read, exceeds `most_bytes`, or is a pipe that has no writer for half a second, or
    whose writer is silent for a minute.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:  # a null byte, or an invalid character
        raise OSError(errno.EINVAL, "invalid file name") from None
    try:
        pieces: list[bytes] = []
        read_bytes = 0
        for piece in _pieces(descriptor):
            pieces.append(piece)
            read_bytes += len(piece)
            if read_bytes > most_bytes:
                raise OSError(errno.EFBIG, f"too large (at most {most_bytes // MIB} MiB)")
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def _pieces(descriptor: int) -> Iterator[bytes]:
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISFIFO(kind):
        yield from _pieces_of_pipe(descriptor)
        return
    os.set_blocking(descriptor, True)
    while piece := os.read(descriptor, _PIECE_BYTES):
        yield piece


def _pieces_of_pipe(descriptor: int) -> Iterator[bytes]:
    pipe = select.poll()
    pipe.register(descriptor, select.POLLIN)
    pipe.poll(_NOBODY_MS)
    said_something = False
    while True:
        try:
            piece = os.read(descriptor, _PIECE_BYTES)  # empty without a writer
        except BlockingIOError:
            if not pipe.poll(_SILENCE_MS):
                raise OSError(errno.ETIMEDOUT, "no data from this pipe for a minute") from None
            continue
        if not piece:
            break
        said_something = True
        yield piece
    if not said_something:
        raise OSError(errno.ENODATA, "no process writes to this pipe")
