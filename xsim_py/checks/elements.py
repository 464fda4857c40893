"""The memory between the ends of an array, and where in it the array has elements."""

from __future__ import annotations

from ctypes import addressof, c_char
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_first_byte = c_char.from_buffer
MOST_PIECES = 4096
"""An array with more pieces gets no list of them, which would take milliseconds to make and to compare."""
_MOST_ROWS = 1 << 16
"""To ask whether any of so many rows meets a piece takes less: it is one comparison of arrays."""


def address_of(array: Any) -> int:
    """Return where an array that has elements begins."""
    if array.flags.carray:
        try:
            return addressof(_first_byte(array))  # in a fifth of the time
        except ValueError:  # not every type of elements can be exported
            pass
    return int(array.ctypes.data)


def bounds(array: Any) -> tuple[int, int]:
    """Return the addresses between which an array has all of its elements."""
    low = high = address_of(array)
    if array.flags.c_contiguous:
        return low, low + array.nbytes
    for count, stride in zip(array.shape, array.strides, strict=True):
        low += min((count - 1) * stride, 0)
        high += max((count - 1) * stride, 0)
    return low, high + array.itemsize


def covers(pieces: list[tuple[int, int]], array: Any) -> bool:
    """Return whether pieces of memory hold all of an array, so that any element of it is in them."""
    return array.flags.c_contiguous and sum(end - start for start, end in pieces) == array.nbytes  # type: ignore[no-any-return]


def shared(part: Any, start: int, end: int) -> list[tuple[int, int]]:
    """Return the pieces of memory between two addresses where an array has elements; none if these are too many."""
    if part.flags.c_contiguous or part.flags.f_contiguous:
        return [(start, end)]
    rows = _rows(part, MOST_PIECES)
    if rows is None:
        return []
    at, length = sorted(rows[0].tolist()), rows[1]
    pieces = ((max(start, low), min(end, low + length)) for low in at)
    return [(low, high) for low, high in pieces if low < high]


def shares(part: Any, start: int, end: int) -> bool:
    """Return whether an array has an element between two addresses, both within its bounds; so it is in doubt."""
    if part.flags.c_contiguous or part.flags.f_contiguous:
        return True
    rows = _rows(part, _MOST_ROWS)
    if rows is None:
        return True
    at, length = rows
    return bool(((at < end) & (at + length > start)).any())


def picked(array: Any, key: Any) -> list[tuple[int, int]] | None:
    """Return the pieces of memory where an array has the elements that an index picks; None if these are too many."""
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
    """Return whether two lists of pieces of memory, each in ascending order, have a byte in common."""
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
    """Return the same bytes as pieces that do not meet."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(pieces):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _rows(part: Any, most: int) -> tuple[NDArray[np.int64], int] | None:
    """Return where elements begin that lie one after the other, and how long each such row is; None if too many do."""
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
