"""A rank's view of a file: the bytes that it sees, and their order (MPI 4.1, 14.3).

A view is a displacement, followed by consecutive copies of a filetype. The bytes of their data form one stream, in
which positions count in etypes. The stream is mapped to the file by NumPy, and only for the requested part, so that a
small access to a highly fragmented file is cheap.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi import constants as c
from xsim_py.mpi.datatype import NULL, Type
from xsim_py.mpi.errors import fail
from xsim_py.mpi.predefined import PREDEFINED

from .representation import check, in_file

Integers: TypeAlias = NDArray[np.int64]

_NONE = np.empty(0, np.int64)


class Pieces:
    """Runs of bytes of a file, in the order of the stream."""

    __slots__ = ("sizes", "starts")

    def __init__(self, starts: Integers, sizes: Integers) -> None:
        self.starts = starts  # the begin of each in the file
        self.sizes = sizes  # the number of bytes of each: at least one

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def total(self) -> int:
        """The total number of bytes."""
        return int(self.sizes.sum() if len(self.sizes) > 1 else sum(self.sizes))

    @property
    def low(self) -> int:
        """The first byte; -1 if there is none."""
        return int(self.starts[0]) if len(self.starts) else -1

    @property
    def high(self) -> int:
        """The end of the last byte; -1 if there is none."""
        if len(self.starts) == 1:
            return int(self.starts[0] + self.sizes[0])
        return int((self.starts + self.sizes).max()) if len(self.starts) else -1

    @property
    def overlap(self) -> bool:
        """True if some bytes are in several of them: allowed for reading only."""
        return len(self.starts) > 1 and bool((self.starts[1:] < (self.starts + self.sizes)[:-1]).any())


def joined(starts: Integers, sizes: Integers) -> Pieces:
    """Return pieces, with consecutive ones merged."""
    if len(starts) > 1:
        apart = np.concatenate(([True], starts[1:] != starts[:-1] + sizes[:-1]))
        if not apart.all():
            heads = np.flatnonzero(apart)
            starts, sizes = starts[heads], np.add.reduceat(sizes, heads)
    return Pieces(starts, sizes)


def clipped(pieces: Pieces, low: int, high: int) -> Pieces:
    """Return the parts of ascending, disjoint pieces within a range of the file."""
    if len(pieces) and pieces.starts[0] >= low and pieces.starts[-1] + pieces.sizes[-1] <= high:
        return pieces
    starts = np.maximum(pieces.starts, low)
    sizes = np.minimum(pieces.starts + pieces.sizes, high) - starts
    kept = sizes > 0
    return Pieces(starts[kept], sizes[kept])


class View:
    """The view of a file that one rank has set."""

    __slots__ = (
        "_begins",
        "_extent",
        "_is_flat",
        "_offsets",
        "_size",
        "_sizes",
        "displacement",
        "etype",
        "filetype",
        "representation",
        "unit",
    )

    def __init__(self, displacement: int, etype: Type, filetype: Type, representation: str = "native") -> None:
        self.displacement = displacement  # the origin of the first copy of the filetype, in bytes
        self.etype = etype  # as passed by the program, like `filetype`
        self.filetype = filetype
        self.representation = representation  # the name of the data representation
        self.unit = in_file(representation, etype).size  # bytes of one etype in the file
        outer = in_file(representation, filetype)
        self._size, self._extent = outer.size, outer.extent
        self._is_flat = outer.is_contiguous and outer.size > 0
        tile = joined(*outer.layout.blocks())
        self._offsets, self._sizes = tile.starts, tile.sizes
        self._begins = np.cumsum(tile.sizes) - tile.sizes

    def check(self, *, writable: bool) -> None:
        """Raise an error if this is not a valid view, with the error classes of MPICH."""
        if self.unit and self._size % self.unit:
            fail(c.ERR_ARG, f"a filetype of {self._size} bytes is not made of etypes of {self.unit} bytes")
        if len(self._offsets) and self._offsets[0] < 0:
            fail(c.ERR_IO, "the filetype has data at a negative displacement")
        ends = self._offsets + self._sizes
        if (self._offsets[1:] < (ends[:-1] if writable else self._offsets[:-1])).any():
            what = "overlap, in a file that is written" if writable else "do not rise"
            fail(c.ERR_IO, f"the displacements in the filetype {what}")

    def pieces(self, start: int, size: int) -> Pieces:
        """Return the location in the file of `size` bytes of the stream, from its byte `start` on."""
        if size <= 0:
            return Pieces(_NONE, _NONE)
        if self._is_flat:
            return Pieces(np.array([self.displacement + start], np.int64), np.array([size], np.int64))
        if not self._size:
            fail(c.ERR_IO, "the filetype of the view has no data")
        end = start + size
        first, last = self._block(start), self._block(end - 1)
        if first == last:
            tile, block = divmod(first, len(self._offsets))
            within = start - tile * self._size - int(self._begins[block])
            place = self.displacement + tile * self._extent + int(self._offsets[block]) + within
            return Pieces(np.array([place], np.int64), np.array([size], np.int64))
        tiles, blocks = np.divmod(np.arange(first, last + 1, dtype=np.int64), len(self._offsets))
        begins = tiles * self._size + self._begins[blocks]
        sizes = self._sizes[blocks]
        starts = self.displacement + tiles * self._extent + self._offsets[blocks]
        skipped, kept = start - int(begins[0]), end - int(begins[-1])
        sizes[-1] = kept
        starts[0] += skipped
        sizes[0] -= skipped
        return joined(starts, sizes)

    def _block(self, position: int) -> int:
        """Return the index of the block, over all copies of the filetype, with a byte of the stream."""
        tile, within = divmod(position, self._size)
        return tile * len(self._begins) + int(np.searchsorted(self._begins, within, "right")) - 1

    def place(self, position: int) -> int:
        """Return the location of a byte of the stream in the file: MPI_File_get_byte_offset."""
        if self._is_flat or not self._size:
            return self.displacement + position
        return self.pieces(position, 1).low

    def stream_size(self, file_size: int) -> int:
        """Return the number of bytes of the stream in a file of that size."""
        inside = max(file_size - self.displacement, 0)
        if self._is_flat or not self._size:
            return inside
        if self._extent <= 0:
            return 0
        tiles = max((inside - int(self._offsets[-1] + self._sizes[-1])) // self._extent, 0)
        total = tiles * self._size
        while tiles * self._extent + int(self._offsets[0]) < inside:  # at most a few: copies may be interlaced
            left = inside - tiles * self._extent
            total += int(np.clip(left - self._offsets, 0, self._sizes).sum())
            tiles += 1
        return total


def plain_view(displacement: int = 0) -> View:
    """Return the view of all bytes, that of a newly opened file."""
    return View(displacement, PREDEFINED["BYTE"], PREDEFINED["BYTE"])


def usable(datatype: Type) -> None:
    """Raise an error if a type cannot be part of a view."""
    if datatype is NULL or not datatype.committed:
        fail(c.ERR_TYPE, "the datatype is null" if datatype is NULL else "the datatype has not been committed")


def made(etype: Type, filetype: Type, representation: str) -> View:
    """Return the validated view of a program's arguments, from the file's begin on."""
    usable(etype)
    usable(filetype)
    check(representation)
    return View(0, etype, filetype, representation)
