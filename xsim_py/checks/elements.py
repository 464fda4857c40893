"""The memory between the ends of an array, and where in it the array has elements."""

from __future__ import annotations

from ctypes import addressof, c_char
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_first_byte = c_char.from_buffer
_MOST_PIECES = 4096
_MOST_ELEMENTS = 1 << 16


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
    dims = sorted((abs(stride), count) for count, stride in zip(part.shape, part.strides, strict=True) if count > 1)
    length = part.itemsize
    while dims and dims[0][0] in (0, length):
        stride, count = dims.pop(0)
        length *= count if stride else 1
    if prod(count for _, count in dims) > _MOST_PIECES:
        return []
    at = sorted(_addresses(bounds(part)[0], dims).tolist())
    pieces = ((max(start, low), min(end, low + length)) for low in at)
    return [(low, high) for low, high in pieces if low < high]


def shares(part: Any, start: int, end: int) -> bool:
    """Return whether an array has an element between two addresses, both within its bounds."""
    if part.flags.c_contiguous or part.flags.f_contiguous:
        return True
    if part.size > _MOST_ELEMENTS:
        return True
    at = _addresses(part.ctypes.data, zip(part.strides, part.shape, strict=True))
    return bool(((at < end) & (at + part.itemsize > start)).any())


def _addresses(first: int, dims: Iterable[tuple[int, int]]) -> NDArray[np.int64]:
    """Return where elements lie that follow each other at some strides, so many at each; the first lies at `first`."""
    at = np.array([first])
    for stride, count in dims:
        at = (at[:, None] + np.arange(count) * stride).reshape(-1)
    return at
