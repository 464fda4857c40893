"""The portable data representation "external32" (MPI 4.1, section 14.5.2): big-endian, with the standard's sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi import constants as c
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.errors import fail

_NARROW = {"l": ">i4", "L": ">u4", "U": ">u2"}  # long and wchar_t are shorter here than in memory

_LONG_DOUBLES = {"g": 16, "G": 32}
_EXTENDED = np.finfo(np.longdouble).nmant == 63  # the 80 bits of x86, with an explicit leading one


def _external(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.char in _LONG_DOUBLES:
        return np.dtype(f"V{_LONG_DOUBLES[dtype.char]}")
    return np.dtype(_NARROW.get(dtype.char, dtype.newbyteorder(">")))


def basic_size(dtype: np.dtype[Any]) -> int:
    """Return the bytes of one basic element in the representation."""
    return _external(dtype).itemsize


def size(datarep: str, datatype: Type) -> int:
    """Return the bytes of one element in the representation."""
    if datarep != "external32":
        fail(c.ERR_UNSUPPORTED_DATAREP, f"{datarep!r}: there is only 'external32'")
    return sum(n * _external(dtype).itemsize for dtype, n in datatype.runs())


def encode(datarep: str, datatype: Type, native: bytes) -> bytes:
    """Convert packed elements."""
    inner = size(datarep, datatype)
    return _convert(datatype, native, datatype.size, inner, outwards=True)


def decode(datarep: str, datatype: Type, external: bytes) -> bytes:
    """Convert back to packed elements."""
    inner = size(datarep, datatype)
    return _convert(datatype, external, inner, datatype.size, outwards=False)


def _convert(datatype: Type, data: bytes, old_size: int, new_size: int, *, outwards: bool) -> bytes:
    if not data:
        return b""
    old = np.frombuffer(data, np.uint8).reshape(-1, old_size)
    new = np.empty((len(old), new_size), np.uint8)
    for here, there, source, target in _columns(datatype, outwards):
        part = np.ascontiguousarray(old[:, here])
        if source.kind == "V" or target.kind == "V":
            new[:, there] = (_to_quadruple if outwards else _from_quadruple)(part)
            continue
        values = part.view(source)
        if source.char == "U":  # a wide character is converted as a number
            values = values.view("u4")
        new[:, there] = values.astype(target.str.replace("U1", "u4")).view(np.uint8)
    return new.tobytes()


def _columns(datatype: Type, outwards: bool) -> Iterator[tuple[slice, slice, np.dtype[Any], np.dtype[Any]]]:
    """Yield, for each run of equal basic elements, its location and type on both sides."""
    old_at = new_at = 0
    for dtype, n in datatype.runs():
        source, target = (dtype, _external(dtype)) if outwards else (_external(dtype), dtype)
        old_end, new_end = old_at + n * source.itemsize, new_at + n * target.itemsize
        yield slice(old_at, old_end), slice(new_at, new_end), source, target
        old_at, new_at = old_end, new_end


def _to_quadruple(native: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return rows of long doubles in the format binary128 of IEEE 754, whose bytes begin with the sign."""
    if not _EXTENDED:
        return _swapped(native)
    words = native.reshape(-1).view("<u8").reshape(-1, 2)
    fraction, above = words[:, 0] & np.uint64(_FRACTION), words[:, 1] & np.uint64(0xFFFF)
    made = np.empty(words.shape, ">u8")
    made[:, 0] = above << np.uint64(48) | fraction >> np.uint64(15)
    made[:, 1] = fraction << np.uint64(49)
    return made.view(np.uint8).reshape(native.shape)


def _from_quadruple(external: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert back; excess digits are truncated, so a converted long double is restored exactly."""
    if not _EXTENDED:
        return _swapped(external)
    words = external.reshape(-1).view(">u8").reshape(-1, 2).astype(np.uint64)
    above = words[:, 0] >> np.uint64(48)
    fraction = (words[:, 0] << np.uint64(15) | words[:, 1] >> np.uint64(49)) & np.uint64(_FRACTION)
    leading = ((above & np.uint64(0x7FFF)) != 0).astype(np.uint64) << np.uint64(63)
    made = np.empty(words.shape, "<u8")
    made[:, 0] = leading | fraction
    made[:, 1] = above
    return made.view(np.uint8).reshape(external.shape)


def _swapped(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return reversed bytes, on machines whose long double has that format in little-endian order."""
    if np.dtype(np.longdouble).itemsize != 16 or np.finfo(np.longdouble).nmant != 112:
        raise NotImplementedError("MPI_Pack_external: the long double of this machine")
    return rows.reshape(-1, 16)[:, ::-1].reshape(rows.shape) if np.little_endian else rows


_FRACTION = (1 << 63) - 1
