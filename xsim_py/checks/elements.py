"""Memory bounds and element addresses of arrays."""

from __future__ import annotations

from ctypes import addressof, c_char
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_first_byte = c_char.from_buffer
MOST_PIECES = 4096
"""Arrays with more pieces get no list of them, which would take milliseconds to make and compare."""
_MOST_ROWS = 1 << 16
"""Asking whether any of this number of rows overlaps a piece is cheaper: one comparison of arrays."""


def address_of(array: Any) -> int:
    """Return the address of the first element of a non-empty array."""
    if array.flags.carray:
        try:
            return addressof(_first_byte(array))  # five times as fast
        except ValueError:  # some element types cannot be exported
            pass
    return int(array.ctypes.data)


def bounds(array: Any) -> tuple[int, int]:
    """Return the addresses between which all elements of an array lie."""
    low = high = address_of(array)
    if array.flags.c_contiguous:
        return low, low + array.nbytes
    for count, stride in zip(array.shape, array.strides, strict=True):
        low += min((count - 1) * stride, 0)
        high += max((count - 1) * stride, 0)
    return low, high + array.itemsize


def covers(pieces: list[tuple[int, int]], array: NDArray[Any]) -> bool:
    """Return True if pieces of memory cover a whole array, so that any element of it is in them."""
    return array.flags.c_contiguous and sum(end - start for start, end in pieces) == array.nbytes


def shared(part: NDArray[Any], start: int, end: int) -> list[tuple[int, int]]:
    """Return the pieces of memory between two addresses with elements of an array.

    The result is empty if there are too many.
    """
    if part.flags.c_contiguous or part.flags.f_contiguous:
        return [(start, end)]
    rows = _rows(part, MOST_PIECES)
    if rows is None:
        return []
    at, length = sorted(rows[0].tolist()), rows[1]
    pieces = ((max(start, low), min(end, low + length)) for low in at)
    return [(low, high) for low, high in pieces if low < high]


def shares(part: NDArray[Any], start: int, end: int) -> bool:
    """Return True if an array may have an element between two addresses within its bounds."""
    if part.flags.c_contiguous or part.flags.f_contiguous:
        return True
    rows = _rows(part, _MOST_ROWS)
    if rows is None:
        return True
    at, length = rows
    return bool(((at < end) & (at + length > start)).any())


def picked(array: NDArray[Any], key: Any) -> list[tuple[int, int]] | None:
    """Return the pieces of memory of the elements that an index selects.

    The result is None if there are too many.
    """
    at = np.full((), array.ctypes.data, np.int64)
    for grid, stride in zip(np.ogrid[tuple(map(slice, array.shape))], array.strides, strict=True):
        at = at + np.broadcast_to(grid, array.shape)[key] * stride
    at = np.unique(at)
    breaks = np.flatnonzero(np.diff(at) > array.itemsize)
    if len(breaks) >= MOST_PIECES:
        return None
    starts = at[np.concatenate(([0], breaks + 1))[: at.size]]
    ends = at[np.concatenate((breaks, [at.size - 1]))[: at.size]] + array.itemsize
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def overlap(mine: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> bool:
    """Return True if two ascending lists of pieces of memory share a byte."""
    if not mine or not theirs or mine[-1][1] <= theirs[0][0] or theirs[-1][1] <= mine[0][0]:
        return False
    i = j = 0
    while i < len(mine) and j < len(theirs):
        if mine[i][1] <= theirs[j][0]:
            i += 1
        elif theirs[j][1] <= mine[i][0]:
            j += 1
        else:
            return True
    return False


def joined(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the same bytes as disjoint pieces."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(pieces):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _rows(part: NDArray[Any], most: int) -> tuple[NDArray[np.int64], int] | None:
    """Return the addresses of contiguous rows of an array and their length.

    The result is None if there are too many rows.
    """
    dims = sorted((abs(stride), count) for count, stride in zip(part.shape, part.strides, strict=True) if count > 1)
    length = int(part.itemsize)
    while dims and dims[0][0] in (0, length):
        stride, count = dims.pop(0)
        length *= count if stride else 1
    if prod(count for _, count in dims) > most:
        return None
    at = np.array([bounds(part)[0]])
    for stride, count in dims:
        at = (at[:, None] + np.arange(count) * stride).reshape(-1)
    return at, length
