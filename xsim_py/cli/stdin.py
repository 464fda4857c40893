"""Standard input read by several processes in turn, each taking only what it has asked for."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_read, _lseek = os.read, os.lseek  # patched in ranks


class _Lines(io.RawIOBase):
    """A descriptor of which each read ends with a line, so that buffers hold no later data."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_file = _is_seekable(descriptor)

    def readable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return True if it is a terminal."""
        return os.isatty(self._descriptor)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read up to the end of a line, or as much as fits."""
        data = self._of_file(len(buffer)) if self._is_file else self._of_pipe(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _of_file(self, most: int) -> bytes:
        data = _read(self._descriptor, most)
        size = data.find(b"\n") + 1 or len(data)
        _lseek(self._descriptor, size - len(data), os.SEEK_CUR)
        return data[:size]

    def _of_pipe(self, most: int) -> bytes:
        data = bytearray()
        while len(data) < most and not data.endswith(b"\n") and (piece := _read(self._descriptor, 1)):
            data += piece
        return bytes(data)

    def readall(self) -> bytes:
        """Read everything, in large pieces."""
        pieces = []
        while piece := _read(self._descriptor, 1 << 16):
            pieces.append(piece)
        return b"".join(pieces)


def _is_seekable(descriptor: int) -> bool:
    try:
        _lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:
        return False
    return True


@contextmanager
def line_by_line() -> Iterator[None]:
    """Temporarily read standard input by line, unless it is a terminal, which does so itself."""
    before = sys.stdin
    try:
        descriptor = before.fileno()
    except (AttributeError, OSError, ValueError):  # it is missing or has been replaced
        yield
        return
    if os.isatty(descriptor):
        yield
        return
    raw = _Lines(descriptor)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(raw), encoding=before.encoding, errors=before.errors)
    try:
        yield
    finally:
        sys.stdin = before
