"""Datatypes as data: a base and a shape around it, so that two shapes of one base have the same signature.

A base is the name of a predefined type, or a list of such names, which become the fields of a struct. A shape is a
nested list; the innermost is ``["leaf", variant]``, where the variant says how the fields of a struct are laid out.
"""

import zlib

import numpy as np

INTEGERS = ["SIGNED_CHAR", "UNSIGNED_CHAR", "SHORT", "UNSIGNED_SHORT", "INT", "UNSIGNED", "LONG", "UNSIGNED_LONG",
            "LONG_LONG", "UNSIGNED_LONG_LONG", "INT8_T", "INT16_T", "INT32_T", "INT64_T", "UINT8_T", "UINT16_T",
            "UINT32_T", "UINT64_T", "AINT", "OFFSET", "COUNT"]  # fmt: skip
REALS = ["FLOAT", "DOUBLE", "LONG_DOUBLE"]
COMPLEXES = ["C_FLOAT_COMPLEX", "C_DOUBLE_COMPLEX", "C_LONG_DOUBLE_COMPLEX"]
FORTRAN = ["INTEGER", "REAL", "DOUBLE_PRECISION", "COMPLEX", "DOUBLE_COMPLEX", "INTEGER4", "INTEGER8", "REAL4", "REAL8"]
PAIRS = ["SHORT_INT", "INT_INT", "LONG_INT", "FLOAT_INT", "DOUBLE_INT"]
STRUCTS = [["INT", "DOUBLE"], ["CHAR", "INT", "SHORT"], ["DOUBLE", "BYTE"], ["FLOAT", "C_BOOL", "LONG"]]
# Not the long doubles: nobody says whether the bytes that pad them are copied.
PLAIN = [
    *INTEGERS,
    "FLOAT",
    "DOUBLE",
    "C_FLOAT_COMPLEX",
    "C_DOUBLE_COMPLEX",
    *FORTRAN,
    "CHAR",
    "WCHAR",
    "BYTE",
    "C_BOOL",
    "LOGICAL",
    "CHARACTER",
]


def elements(shape):
    """How many bases an element of a shape has."""
    kind, *arguments = shape
    if kind == "leaf":
        return 1
    inner = elements(arguments[-1])
    if kind in ("contiguous", "subarray"):
        return arguments[0] * inner
    if kind in ("vector", "hvector"):
        return arguments[0] * arguments[1] * inner
    if kind == "indexed":
        return sum(arguments[0]) * inner
    if kind == "blocks":
        return arguments[0] * len(arguments[1]) * inner
    if kind == "struct":
        return (arguments[0] + arguments[1]) * inner
    return inner


def build(mpi, base, shape):
    """The committed datatype of a shape."""
    return _build(mpi, base, shape).Commit() if shape != ["leaf", 0] or isinstance(base, list) else getattr(mpi, base)


def _build(mpi, base, shape):
    kind, *arguments = shape
    if kind == "leaf":
        return _leaf(mpi, base, arguments[0])
    *numbers, inner = arguments
    old = _build(mpi, base, inner)
    if kind == "contiguous":
        return old.Create_contiguous(numbers[0])
    if kind == "vector":
        count, block, gap = numbers
        return old.Create_vector(count, block, block + gap)
    if kind == "hvector":
        count, block, gap = numbers
        return old.Create_hvector(count, block, block * old.extent + 8 * gap)
    if kind == "indexed":
        lengths, gaps, backwards = numbers
        places = _places(lengths, gaps)
        return old.Create_indexed(*((lengths[::-1], places[::-1]) if backwards else (lengths, places)))
    if kind == "blocks":
        block, gaps = numbers
        return old.Create_indexed_block(block, _places([block] * len(gaps), gaps))
    if kind == "subarray":
        part, before, after = numbers
        return old.Create_subarray([before + part + after], [part], [before])
    if kind == "struct":
        first, second, gap = numbers
        return mpi.Datatype.Create_struct([first, second], [0, first * old.extent + 8 * gap], [old, old])
    if kind == "resized":
        return old.Create_resized(0, old.ub + 8 * numbers[0])
    assert kind == "dup"
    return old.Dup()


def _leaf(mpi, base, variant):
    if isinstance(base, str):
        return getattr(mpi, base).Dup()
    fields = [getattr(mpi, name) for name in base]
    places = [(16 + 8 * (variant // 2)) * i for i in range(len(fields))]
    if variant % 2:
        places.reverse()
    return mpi.Datatype.Create_struct([1] * len(fields), places, fields)


def _places(lengths, gaps):
    places, at = [], 0
    for length, gap in zip(lengths, gaps, strict=True):
        at += gap
        places.append(at)
        at += length
    return places


def span(datatype, count):
    """The bytes that so many elements need from the first one's origin; no shape reaches before it."""
    return max(0, (count - 1) * datatype.extent + max(datatype.true_ub, datatype.ub)) if count else 0


def noise(nbytes, *salt):
    """Bytes that look random and are the same everywhere."""
    start = zlib.crc32(repr(salt).encode())
    return ((np.arange(nbytes, dtype=np.uint64) * 2654435761 + start) >> 7).astype(np.uint8)


def short(data):
    """Bytes as they appear in a log."""
    data = bytes(data)
    return data.hex() if len(data) <= 24 else f"{data[:8].hex()}..{len(data)}:{zlib.crc32(data):08x}"
