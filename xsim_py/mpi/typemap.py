"""The locations of a datatype's bytes in memory, and how to gather and scatter them fast.

A type map in the standard (section 5.1) is a list of (basic type, displacement). Here it is stored as a small program
for NumPy: a few regular dimensions around a list of blocks. Almost every type in real programs (vectors, subarrays,
their nestings) is one block under some dimensions, so packing it is one strided copy in C, however large it is.
Irregular parts (indexed, structs) are gathered by an index array: of numbers if the blocks are short, else of blocks,
once for each length; nothing is ever done byte by byte or element by element in Python.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi.memory import Memory
from xsim_py.mpi.padding import Mask, without_padding

Dims: TypeAlias = tuple[tuple[int, int], ...]
Integers: TypeAlias = NDArray[np.int64]
# Bytes of a unit, distance from one to the next, offset of the first, their number, the selected ones, and their
# destinations (None: consecutive).
Group: TypeAlias = tuple[int, int, int, int, Integers, Integers | None]

_UNITS: dict[int, np.dtype[Any]] = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}

_FEW = 64  # up to this number of blocks, individual copies are faster than index arrays, which cost 20 us to set up
_LARGEST_UNIT = 8
_SHORT = 8  # up to this number of units, individual gathers are faster than one block of a length without a NumPy type


def _unit(length: int) -> np.dtype[Any]:
    """Return a NumPy type that copies `length` bytes unchanged."""
    found = _UNITS.get(length)
    return found if found is not None else np.dtype(f"V{length}")


class Layout:
    """The bytes of one element, in packing order."""

    __slots__ = ("_groups", "_pieces", "dims", "high", "lengths", "low", "mask", "offsets", "size")

    def __init__(self, dims: Dims, offsets: Integers, lengths: Integers) -> None:
        self.dims = dims  # regular repetitions (count, stride in bytes), the outermost first
        self.offsets = offsets  # of the blocks under them, from the element's origin, in bytes
        self.lengths = lengths  # of these blocks, in bytes
        # The padding inside of basic elements (`padding.mask_of`), which is cleared when packed.
        self.mask: Mask | None = None
        self._groups: list[Group] | None = None
        self._pieces: list[tuple[int, int]] | None = None
        repeats = 1
        low = high = 0
        for count, stride in dims:
            repeats *= count
            low += min(0, (count - 1) * stride)
            high += max(0, (count - 1) * stride)
        self.size = repeats * int(lengths.sum())
        self.low = self.high = 0
        if self.size:
            self.low = low + int(offsets.min())
            self.high = high + int((offsets + lengths).max())

    @property
    def is_block(self) -> bool:
        """True if the element is one run of bytes."""
        return not self.dims and len(self.offsets) <= 1

    def blocks(self) -> tuple[Integers, Integers]:
        """Return all blocks individually: (offsets, lengths)."""
        offsets, lengths = self.offsets, self.lengths
        for count, stride in reversed(self.dims):
            offsets = (np.arange(count, dtype=np.int64)[:, None] * stride + offsets).reshape(-1)
            lengths = np.tile(lengths, count)
        return offsets, lengths

    def span(self, count: int, extent: int) -> tuple[int, int]:
        """Return the range of bytes of `count` elements, relative to the first one's origin: (low, high)."""
        shift = (count - 1) * extent
        return self.low + min(0, shift), self.high + max(0, shift)

    def pack(self, memory: Memory, *, origin: int, count: int, extent: int) -> bytes:
        """Gather `count` elements.

        The first has its origin at ``memory[origin]``, the others follow at `extent`.
        """
        if type(memory) is not memoryview:
            low, high = self.span(count, extent)
            memory, origin = memoryview(memory[origin + low : origin + high]), -low
        packed = self._gathered(memory, origin, count, extent)
        return packed if self.mask is None else without_padding(packed, self.mask)

    def _gathered(self, memory: memoryview, origin: int, count: int, extent: int) -> bytes:
        if len(self.offsets) == 1:
            return self._view(memory, int(self.offsets[0]), int(self.lengths[0]), origin, count, extent).tobytes()
        if count * len(self.offsets) <= _FEW and not self.dims:
            origins = [origin + i * extent for i in range(count)]
            return b"".join([memory[at + start : at + end] for at in origins for start, end in self.pieces()])
        packed = np.empty(count * self.size, np.uint8)
        for there, here in self._pairs(memory, packed, origin, count, extent):
            if here[1] is ...:
                whole: bytes = there[0][there[1]].tobytes()
                return whole
            here[0][here[1]] = there[0][there[1]]
        return packed.tobytes()

    def unpack(self, data: bytes, memory: Memory, *, origin: int, count: int, extent: int) -> None:
        """Scatter ``count * size`` packed bytes; the inverse of `pack`."""
        if type(memory) is not memoryview:
            low, high = self.span(count, extent)
            part = memory[origin + low : origin + high]
            old = bytes(part)
            self.unpack(data, memoryview(part), origin=-low, count=count, extent=extent)
            memory.change(origin + low, old, part)
            return
        packed = np.frombuffer(data, np.uint8)
        if len(self.offsets) == 1:
            length = int(self.lengths[0])
            view = self._view(memory, int(self.offsets[0]), length, origin, count, extent)
            view[...] = packed.view(_unit(length)).reshape(view.shape)
            return
        if count * len(self.offsets) <= _FEW and not self.dims:
            position = 0
            for at in [origin + i * extent for i in range(count)]:
                for start, end in self.pieces():
                    memory[at + start : at + end] = data[position : position + end - start]
                    position += end - start
            return
        for there, here in self._pairs(memory, packed, origin, count, extent):
            there[0][there[1]] = here[0][here[1]]

    def pieces(self) -> list[tuple[int, int]]:
        """Return the begin and end of each block as Python integers; cached."""
        if self._pieces is None:
            ends = self.offsets + self.lengths
            self._pieces = list(zip(self.offsets.tolist(), ends.tolist(), strict=True))
        return self._pieces

    def _view(self, memory: memoryview, offset: int, length: int, origin: int, count: int, extent: int) -> NDArray[Any]:
        """Return all repetitions of one block, as an array of units of its length."""
        counts = (count, *(n for n, _ in self.dims))
        strides = (extent, *(stride for _, stride in self.dims))
        return np.ndarray(counts, _unit(length), memory, origin + offset, strides)

    def _pairs(self, memory: memoryview, packed: NDArray[Any], origin: int, count: int, extent: int) -> Iterable[Any]:
        """Yield, for each group of blocks, (array, index) in the memory and in the packed bytes.

        If lengths differ, the last axis of both arrays advances by one byte, so that it can be indexed with plain byte
        offsets: the overlapping units of such an array are never all accessed.
        """
        repeated = [dim for dim in ((count, extent), *self.dims) if dim[0] != 1]  # NumPy is slower in more dimensions
        counts, strides = [n for n, _ in repeated], [stride for _, stride in repeated]
        inner = int(self.lengths.sum())
        for unit, step, first, width, index, positions in self.groups():
            there = np.ndarray((*counts, width), _unit(unit), memory, origin + first, (*strides, step))
            if positions is None:
                flat = packed.view(_unit(unit))
                yield (there, (..., index) if counts else index), (flat.reshape(*counts, -1), ...)
                continue
            row = packed.reshape(*counts, inner)
            here = np.ndarray((*counts, inner - unit + 1), _unit(unit), packed, 0, (*row.strides[:-1], 1))
            yield (there, (..., index)), (here, (..., positions))

    def groups(self) -> list[Group]:
        """Return the copy instructions of irregular blocks; cached.

        Short blocks of any lengths are one gather of numbers if all begin and end at a multiple of the size of such a
        number, by NumPy's index arrays. Others are one gather per length.
        """
        if self._groups is None:
            first = int(self.offsets.min())
            common = int(np.gcd.reduce(np.concatenate((self.lengths, self.offsets - first))))
            unit = math.gcd(common, _LARGEST_UNIT)
            if int(self.lengths.sum()) <= _SHORT * unit * len(self.offsets):
                index = self._numbers(first, unit)
                self._groups = [(unit, unit, first, int(index.max()) + 1, index, None)]
            else:
                self._groups = list(self._by_length())
        return self._groups

    def _numbers(self, first: int, unit: int) -> Integers:
        """Return the units of all blocks, in packing order, counted from `first`."""
        counts = self.lengths // unit
        before = np.cumsum(counts) - counts
        return np.repeat((self.offsets - first) // unit - before, counts) + np.arange(int(counts.sum()))

    def _by_length(self) -> Iterable[Group]:
        positions = np.cumsum(self.lengths) - self.lengths
        for length in np.unique(self.lengths):
            chosen = self.lengths == length
            first = int(self.offsets[chosen].min())
            index = self.offsets[chosen] - first
            yield int(length), 1, first, int(index.max()) + 1, index, positions[chosen]


def block(length: int) -> Layout:
    """Return the layout of `length` bytes at the origin."""
    return _simple((), 0, length)


def _simple(dims: Dims, offset: int, length: int) -> Layout:
    return Layout(dims, np.array([offset], np.int64), np.array([length], np.int64))


def _empty() -> Layout:
    none = np.empty(0, np.int64)
    return Layout((), none, none)


def scattered(offsets: Integers, lengths: Integers) -> Layout:
    """Return a layout of single blocks; consecutive blocks adjacent in memory are merged."""
    if not lengths.all():
        offsets, lengths = offsets[lengths > 0], lengths[lengths > 0]
    if len(offsets) > 1:
        starts = np.concatenate(([True], offsets[1:] != offsets[:-1] + lengths[:-1]))
        if not starts.all():
            heads = np.flatnonzero(starts)
            offsets, lengths = offsets[heads], np.add.reduceat(lengths, heads)
    return Layout((), offsets, lengths)


def repeat(layout: Layout, count: int, stride: int) -> Layout:
    """Return `count` copies of a layout at a regular distance in bytes."""
    if count == 0 or layout.size == 0:
        return _empty()
    if count == 1:
        return layout
    if len(layout.offsets) > 1:
        return Layout(((count, stride), *layout.dims), layout.offsets, layout.lengths)
    offset, length = int(layout.offsets[0]), int(layout.lengths[0])
    if not layout.dims and stride == length:
        return _simple((), offset, count * length)
    if layout.dims and layout.dims[0][0] * layout.dims[0][1] == stride:  # continues where the inner dimension ends
        return _simple(((count * layout.dims[0][0], layout.dims[0][1]), *layout.dims[1:]), offset, length)
    return _simple(((count, stride), *layout.dims), offset, length)


def place(layout: Layout, origins: Integers) -> Layout:
    """Return a copy of a layout at each of the given origins, in that order."""
    if len(origins) == 0 or layout.size == 0:
        return _empty()
    stride = int(origins[1] - origins[0]) if len(origins) > 1 else 0
    if len(origins) == 1 or (np.diff(origins) == stride).all():
        moved = Layout(layout.dims, layout.offsets + origins[0], layout.lengths)
        return repeat(moved, len(origins), stride)
    offsets, lengths = layout.blocks()
    return scattered((origins[:, None] + offsets).reshape(-1), np.tile(lengths, len(origins)))


def join(layouts: Sequence[Layout]) -> Layout:
    """Return the concatenation of layouts."""
    layouts = [layout for layout in layouts if layout.size]
    if not layouts:
        return _empty()
    if len(layouts) == 1:
        return layouts[0]
    pieces = [layout.blocks() for layout in layouts]
    return scattered(np.concatenate([p[0] for p in pieces]), np.concatenate([p[1] for p in pieces]))
