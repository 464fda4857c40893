"""The predefined datatypes, with the host's C sizes and the handles of the MPI 5.0 ABI.

The selection is that of MPICH: no 16-byte integers, no sized logicals, no half-precision Fortran types; those names
exist in mpi4py, and are null there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xsim_py.mpi.datatype import NULL, Type
from xsim_py.mpi.handles import predefine
from xsim_py.mpi.typemap import block, join, place

_I, _FI, _R, _C, _L = "integer", "fortran integer", "real", "complex", "logical"

# mpi4py's name: (MPI's name, NumPy's type, kind, mpi4py's character, mpi4py's code, ABI handle)
_TABLE: dict[str, tuple[str, str, str, str, str, int]] = {
    "PACKED": ("PACKED", "u1", "", "B", "B", 0x207),
    "BYTE": ("BYTE", "u1", "byte", "B", "B", 0x247),
    "AINT": ("AINT", "p", _I, "p", "p", 0x201),
    "OFFSET": ("OFFSET", "i8", _I, "p", "p", 0x203),
    "COUNT": ("COUNT", "i8", _I, "p", "p", 0x202),
    "CHAR": ("CHAR", "i1", _I, "c", "c", 0x243),
    "WCHAR": ("WCHAR", "U1", "", "U", "U", 0x23C),
    "SIGNED_CHAR": ("SIGNED_CHAR", "b", _I, "b", "b", 0x244),
    "SHORT": ("SHORT", "h", _I, "h", "h", 0x208),
    "INT": ("INT", "i", _I, "i", "i", 0x209),
    "LONG": ("LONG", "l", _I, "l", "l", 0x20A),
    "LONG_LONG": ("LONG_LONG_INT", "q", _I, "q", "q", 0x20B),
    "UNSIGNED_CHAR": ("UNSIGNED_CHAR", "B", _I, "B", "B", 0x245),
    "UNSIGNED_SHORT": ("UNSIGNED_SHORT", "H", _I, "H", "H", 0x20C),
    "UNSIGNED": ("UNSIGNED", "I", _I, "I", "I", 0x20D),
    "UNSIGNED_LONG": ("UNSIGNED_LONG", "L", _I, "L", "L", 0x20E),
    "UNSIGNED_LONG_LONG": ("UNSIGNED_LONG_LONG", "Q", _I, "Q", "Q", 0x20F),
    "FLOAT": ("FLOAT", "f", _R, "f", "f", 0x210),
    "DOUBLE": ("DOUBLE", "d", _R, "d", "d", 0x214),
    "LONG_DOUBLE": ("LONG_DOUBLE", "g", _R, "g", "g", 0x220),
    "C_BOOL": ("C_BOOL", "?", _L, "?", "b1", 0x238),
    "INT8_T": ("INT8_T", "i1", _I, "b", "i1", 0x240),
    "INT16_T": ("INT16_T", "i2", _I, "h", "i2", 0x248),
    "INT32_T": ("INT32_T", "i4", _I, "i", "i4", 0x250),
    "INT64_T": ("INT64_T", "i8", _I, "l", "i8", 0x258),
    "UINT8_T": ("UINT8_T", "u1", _I, "B", "u1", 0x241),
    "UINT16_T": ("UINT16_T", "u2", _I, "H", "u2", 0x249),
    "UINT32_T": ("UINT32_T", "u4", _I, "I", "u4", 0x251),
    "UINT64_T": ("UINT64_T", "u8", _I, "L", "u8", 0x259),
    "FLOAT16_T": ("FLOAT16_T", "e", _R, "e", "e", 0x24A),
    "C_COMPLEX": ("C_COMPLEX", "F", _C, "F", "F", 0x212),
    "C_DOUBLE_COMPLEX": ("C_DOUBLE_COMPLEX", "D", _C, "D", "D", 0x216),
    "C_LONG_DOUBLE_COMPLEX": ("C_LONG_DOUBLE_COMPLEX", "G", _C, "G", "G", 0x224),
    "CXX_BOOL": ("CXX_BOOL", "?", _L, "?", "?", 0x239),
    "CXX_FLOAT_COMPLEX": ("CXX_FLOAT_COMPLEX", "F", _C, "F", "F", 0x213),
    "CXX_DOUBLE_COMPLEX": ("CXX_DOUBLE_COMPLEX", "D", _C, "D", "D", 0x217),
    "CXX_LONG_DOUBLE_COMPLEX": ("CXX_LONG_DOUBLE_COMPLEX", "G", _C, "G", "G", 0x225),
    "CHARACTER": ("CHARACTER", "i1", "", "c", "c", 0x21E),
    "LOGICAL": ("LOGICAL", "i", _L, "i", "i", 0x218),
    "INTEGER": ("INTEGER", "i", _FI, "i", "i", 0x219),
    "REAL": ("REAL", "f", _R, "f", "f", 0x21A),
    "DOUBLE_PRECISION": ("DOUBLE_PRECISION", "d", _R, "d", "d", 0x21C),
    "COMPLEX": ("COMPLEX", "F", _C, "F", "F", 0x21B),
    "DOUBLE_COMPLEX": ("DOUBLE_COMPLEX", "D", _C, "D", "D", 0x21D),
    "INTEGER1": ("INTEGER1", "i1", _FI, "b", "i1", 0x2C1),
    "INTEGER2": ("INTEGER2", "i2", _FI, "h", "i2", 0x2C9),
    "INTEGER4": ("INTEGER4", "i4", _FI, "i", "i4", 0x2D1),
    "INTEGER8": ("INTEGER8", "i8", _FI, "l", "i8", 0x2D9),
    "REAL4": ("REAL4", "f4", _R, "f", "f4", 0x2D2),
    "REAL8": ("REAL8", "f8", _R, "d", "f8", 0x2DA),
    "REAL16": ("REAL16", "g", _R, "g", "f16", 0x2E2),
    "COMPLEX8": ("COMPLEX8", "F", _C, "F", "c8", 0x2DB),
    "COMPLEX16": ("COMPLEX16", "D", _C, "D", "c16", 0x2E3),
    "COMPLEX32": ("COMPLEX32", "G", _C, "G", "c32", 0x2EB),
}

# mpi4py's name: (MPI's name, type of the value, ABI handle); the index is always an int
_PAIRS: dict[str, tuple[str, str, int]] = {
    "SHORT_INT": ("SHORT_INT", "h", 0x22C),
    "INT_INT": ("2INT", "i", 0x22B),
    "LONG_INT": ("LONG_INT", "l", 0x22A),
    "FLOAT_INT": ("FLOAT_INT", "f", 0x228),
    "DOUBLE_INT": ("DOUBLE_INT", "d", 0x229),
    "LONG_DOUBLE_INT": ("LONG_DOUBLE_INT", "g", 0x22D),
}

_NULLS = (
    "DATATYPE_NULL", "BFLOAT16_T", "LOGICAL1", "LOGICAL2", "LOGICAL4", "LOGICAL8", "LOGICAL16",
    "INTEGER16", "REAL2", "COMPLEX4",
)  # fmt: skip

_ALIASES = {
    "FLOAT32_T": "FLOAT",
    "FLOAT64_T": "DOUBLE",
    "C_FLOAT_COMPLEX": "C_COMPLEX",
    "TWOINT": "INT_INT",
    "UNSIGNED_INT": "UNSIGNED",
    "SIGNED_SHORT": "SHORT",
    "SIGNED_INT": "INT",
    "SIGNED_LONG": "LONG",
    "SIGNED_LONG_LONG": "LONG_LONG",
    "BOOL": "C_BOOL",
    "SINT8_T": "INT8_T",
    "SINT16_T": "INT16_T",
    "SINT32_T": "INT32_T",
    "SINT64_T": "INT64_T",
    "F_BOOL": "LOGICAL",
    "F_INT": "INTEGER",
    "F_FLOAT": "REAL",
    "F_DOUBLE": "DOUBLE_PRECISION",
    "F_COMPLEX": "COMPLEX",
    "F_FLOAT_COMPLEX": "COMPLEX",
    "F_DOUBLE_COMPLEX": "DOUBLE_COMPLEX",
}


def _basic(mpi_name: str, dtype: str, kind: str, typechar: str, code: str, handle: int) -> Type:
    numpy_type = np.dtype(dtype)
    size = numpy_type.itemsize
    alignment = size // 2 if kind == _C else size
    found = Type(layout=lambda: block(size), size=size, lb=0, extent=size, alignment=alignment, elements=1)
    return _named(found, mpi_name, numpy_type, kind, handle, typechar, code)


def _pair(mpi_name: str, value: str, handle: int, index: str = "i") -> Type:
    """Return the type of a C struct of a value and an index, which is packed without its padding."""
    members = np.dtype([("value", value), ("index", index)])
    in_memory = np.dtype([("value", value), ("index", index)], align=True)
    index_at = -(-members[0].itemsize // members[1].itemsize) * members[1].itemsize  # aligned to its size
    layout = join([block(members[0].itemsize), place(block(members[1].itemsize), np.array([index_at], np.int64))])
    found = Type(
        layout=lambda: layout,
        size=members.itemsize,
        lb=0,
        extent=in_memory.itemsize,
        alignment=in_memory.alignment,
        elements=2,
    )
    return _named(found, mpi_name, members, "pair", handle, "", "")


def _named(found: Type, mpi_name: str, dtype: np.dtype[Any], kind: str, handle: int, typechar: str, code: str) -> Type:
    found.name = f"MPI_{mpi_name}"
    found.dtype = dtype
    found.kind = kind
    predefine(handle, found)
    found.typechar = typechar
    found.code = code
    found.committed = True
    return found


predefine(0x200, NULL)


def _predefined() -> dict[str, Type]:
    table = {name: _basic(*row) for name, row in _TABLE.items()}
    table.update((name, _pair(*row)) for name, row in _PAIRS.items())
    table.update((name, NULL) for name in _NULLS)
    table.update((alias, table[name]) for alias, name in _ALIASES.items())
    return table


PREDEFINED: dict[str, Type] = _predefined()
"""All predefined types by the names mpi4py gives them; aliases and nulls too."""

FORTRAN_ONLY: dict[int, Type] = {
    0x230: _pair("2REAL", "f", 0x230, "f"),
    0x231: _pair("2DOUBLE_PRECISION", "d", 0x231, "d"),
    0x232: _pair("2INTEGER", "i", 0x232),
    0x2C0: _basic("LOGICAL1", "i1", _L, "b", "i1", 0x2C0),
    0x2C8: _basic("LOGICAL2", "i2", _L, "h", "i2", 0x2C8),
    0x2D0: _basic("LOGICAL4", "i4", _L, "i", "i4", 0x2D0),
    0x2D8: _basic("LOGICAL8", "i8", _L, "l", "i8", 0x2D8),
    0x2CA: _basic("REAL2", "e", _R, "e", "e", 0x2CA),
}
"""Types that mpi4py does not have, by their handles in the ABI: for compiled programs."""
