"""Access to pieces of a file by one rank, by data sieving as in ROMIO.

One run of bytes is one request. Pieces with holes are read in chunks of a buffer (hints ``ind_rd_buffer_size`` and
``ind_wr_buffer_size``): from the first piece to the last one that fits, holes included. To write, such a chunk is read,
modified and written back, unless it has no holes. The hints ``romio_ds_read`` and ``romio_ds_write`` can be
``disable``: then each piece is a separate request.

Prior art: Thakur, Gropp and Lusk, "Data sieving and collective I/O in ROMIO" (1999). Other ranks may write into the
holes meanwhile; ROMIO locks the chunk against that, and here only the pieces are modified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xsim_py.mpi.typemap import Layout

from .disk import Disk
from .view import Pieces

if TYPE_CHECKING:
    from .openfile import OpenFile

_WHOLE = 1 << 62


def read_alone(file: OpenFile, pieces: Pieces) -> bytes:
    """Read for one rank, by the file's hints and its atomic mode."""
    if not len(pieces):
        return b""
    return read(file.disk, pieces, buffer_bytes=_WHOLE if file.atomic else file.hints.sieve_bytes(writing=False))


def write_alone(file: OpenFile, pieces: Pieces, data: bytes) -> None:
    """Write for one rank; see `read_alone`."""
    if len(pieces):
        buffer_bytes = _WHOLE if file.atomic else file.hints.sieve_bytes(writing=True)
        write(file.disk, pieces, data, buffer_bytes=buffer_bytes)


def read(disk: Disk, pieces: Pieces, *, buffer_bytes: int, direct: bool = True) -> bytes:
    """Return the bytes of the pieces, up to the end of the file.

    `buffer_bytes` 0 means no buffer. A single run is read by one request if `direct`; otherwise it is read through the
    buffer, like others.
    """
    if len(pieces) == 1 and direct:
        return disk.read(pieces.low, pieces.total)
    if not buffer_bytes or pieces.overlap:
        return _one_by_one(disk, pieces)
    taken: list[bytes] = []
    for chunk in _Chunks(pieces, buffer_bytes):
        data = disk.read(chunk.low, chunk.high - chunk.low)
        offsets = chunk.starts - chunk.low
        sizes = np.clip(len(data) - offsets, 0, chunk.sizes)
        held = sizes > 0
        taken.append(Layout((), offsets[held], sizes[held]).pack(memoryview(data), origin=0, count=1, extent=0))
        if len(data) < chunk.high - chunk.low:
            break
    return b"".join(taken)


def _one_by_one(disk: Disk, pieces: Pieces) -> bytes:
    taken: list[bytes] = []
    for start, size in zip(pieces.starts.tolist(), pieces.sizes.tolist(), strict=True):
        taken.append(disk.read(start, size))
        if len(taken[-1]) < size:
            break
    return b"".join(taken)


def write(disk: Disk, pieces: Pieces, data: bytes, *, buffer_bytes: int, direct: bool = True) -> None:
    """Write the pieces, whose bytes are consecutive in `data`; otherwise as `read`."""
    if len(pieces) == 1 and direct:
        disk.write(pieces.low, data)
        return
    position = 0
    if not buffer_bytes:
        for start, size in zip(pieces.starts.tolist(), pieces.sizes.tolist(), strict=True):
            disk.write(start, data[position : position + size])
            position += size
        return
    for chunk in _Chunks(pieces, buffer_bytes):
        part = data[position : position + chunk.total]
        position += len(part)
        if len(chunk) == 1:
            disk.write(chunk.low, part)
        else:
            disk.scatter(chunk, part)


class _Chunks:
    """An iterator over chunks of pieces, each of the size of a buffer from its first piece on."""

    def __init__(self, pieces: Pieces, buffer_bytes: int) -> None:
        self._starts = pieces.starts.copy()
        self._sizes = pieces.sizes.copy()
        self._buffer_bytes = buffer_bytes
        self._first = 0

    def __iter__(self) -> _Chunks:
        return self

    def __next__(self) -> Pieces:
        first = self._first
        if first == len(self._starts):
            raise StopIteration
        limit = int(self._starts[first]) + self._buffer_bytes
        end = int(np.searchsorted(self._starts, limit, "left"))
        starts, sizes = self._starts[first:end].copy(), self._sizes[first:end].copy()
        left = int(starts[-1] + sizes[-1]) - limit
        if left > 0:  # the next chunk begins within this piece
            sizes[-1] -= left
            self._starts[end - 1] = limit
            self._sizes[end - 1] = left
            end -= 1
        self._first = end
        return Pieces(starts, sizes)
