"""Padding inside of basic elements: bytes of memory that are not part of any value.

On x86 a long double has ten bytes of value in a slot of sixteen (or twelve). The others are uninitialised memory, so
they are cleared in messages: otherwise the same program would send different bytes each time, and they enter the digest
of a run. Packed elements have zeros there.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Mask", "mask_of", "without_padding"]

Mask = NDArray[np.uint8]

_PLACE_BYTES = np.dtype(np.longdouble).itemsize
_VALUE_BYTES = 10 if np.finfo(np.longdouble).nmant == 63 else _PLACE_BYTES
_LONG_DOUBLE = np.repeat(np.array([0xFF, 0], np.uint8), [_VALUE_BYTES, _PLACE_BYTES - _VALUE_BYTES])
_LONG_DOUBLES = {"g": 1, "G": 2}  # the number of long doubles in such an element


def mask_of(runs: Iterable[tuple[np.dtype[np.generic], int]]) -> Mask | None:
    """Return the mask of value bytes in packed elements, up to its period.

    `runs` has the types and counts of the basic elements in packing order, equal neighbours merged. The result has 255
    for each byte of a value and 0 for each of padding; None if no element has padding.
    """
    runs = list(runs)
    if _VALUE_BYTES == _PLACE_BYTES or not any(dtype.char in _LONG_DOUBLES for dtype, _ in runs):
        return None
    if len(runs) == 1:  # the period is one element, for any number of them
        runs = [(runs[0][0], 1)]
    return np.concatenate([np.tile(_mask(dtype), count) for dtype, count in runs])


def _mask(dtype: np.dtype[np.generic]) -> Mask:
    if dtype.char in _LONG_DOUBLES:
        return np.tile(_LONG_DOUBLE, _LONG_DOUBLES[dtype.char])
    return np.full(dtype.itemsize, 0xFF, np.uint8)


def without_padding(data: bytes, mask: Mask) -> bytes:
    """Return packed elements with zeros for padding; the mask is that of `mask_of`."""
    cleared: bytes = (np.frombuffer(data, np.uint8).reshape(-1, len(mask)) & mask).tobytes()
    return cleared
