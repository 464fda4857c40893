"""Files that a user names: read as a whole, up to a limit, and without waiting for ever.

What is named may be a device without an end (``/dev/zero``), a pipe that nobody writes into, a folder, or no name at
all. Each of these is an `OSError` whose ``strerror`` says so; whoever knows what the file was for says the rest.
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
_NOBODY_MS: Final = 500  # for whoever is about to open the other end of a pipe
_SILENCE_MS: Final = 60_000


def is_file(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a file of that name; a name that no file can have names none."""
    return os.path.isfile(path)  # Path.is_file() raises for a name that is too long


def read_input(path: str | os.PathLike[str], *, most_bytes: int) -> bytes:
    """Return all bytes of a file, or of a pipe such as the shell's ``<(command)``.

    Raises
    ------
    OSError
        When it cannot be read, holds more than `most_bytes`, or is a pipe into which nobody writes for half a second,
        or whose writer says nothing for a minute.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for somebody who writes into it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:  # a zero byte, or half a character
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
            piece = os.read(descriptor, _PIECE_BYTES)  # nothing where there is no writer (any more)
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
