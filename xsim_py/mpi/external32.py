"""The portable data representation "external32" (MPI 4.1, section 14.5.2): big-endian, with the standard's sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from xsim_py.mpi import constants as c
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.errors import fail

__all__ = ["decode", "encode", "size"]

_NARROW = {"l": ">i4", "L": ">u4", "U": ">u2"}  # long and wchar_t are shorter here than on the machine

_LONG_DOUBLES = {"g": 16, "G": 32}


def _external(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.char in _LONG_DOUBLES:
        raise NotImplementedError("MPI_Pack_external: long double")
    return np.dtype(_NARROW.get(dtype.char, dtype.newbyteorder(">")))


def size(datarep: str, datatype: Type) -> int:
    """Bytes of one element in the representation."""
    if datarep != "external32":
        fail(c.ERR_UNSUPPORTED_DATAREP, f"{datarep!r}: there is only 'external32'")
    return sum(n * (_LONG_DOUBLES.get(dtype.char) or _external(dtype).itemsize) for dtype, n in datatype.runs())


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
        values = np.ascontiguousarray(old[:, here]).view(source)
        if source.char == "U":  # a wide character is a number as far as numbers go
            values = values.view("u4")
        new[:, there] = values.astype(target.str.replace("U1", "u4")).view(np.uint8)
    return new.tobytes()


def _columns(datatype: Type, outwards: bool) -> Iterator[tuple[slice, slice, np.dtype[Any], np.dtype[Any]]]:
    """For each run of equal basic elements: where it is on both sides, and its types."""
    old_at = new_at = 0
    for dtype, n in datatype.runs():
        source, target = (dtype, _external(dtype)) if outwards else (_external(dtype), dtype)
        old_end, new_end = old_at + n * source.itemsize, new_at + n * target.itemsize
        yield slice(old_at, old_end), slice(new_at, new_end), source, target
        old_at, new_at = old_end, new_end
