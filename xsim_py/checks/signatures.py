"""Type signatures: the sequence of basic types in a message (MPI 4.1, 3.3.1)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from xsim_py.mpi.constants import COMBINER_STRUCT
from xsim_py.mpi.datatype import Type
from xsim_py.mpi4py.bufspec import message, usable
from xsim_py.mpi4py.datatype import INSTANCES, Datatype
from xsim_py.mpi4py.inside import impl_of
from xsim_py.mpi4py.memory import is_in_place

Signature: TypeAlias = tuple[tuple[str, int], ...]
"""Basic types, each with its number of consecutive elements."""

PICKLE: Signature = (("pickled object", 1),)
"""The signature of messages of lower-case calls."""

_BYTES = "bytes without a type"
"""The elements of a `bytes`, `bytearray` or `memoryview` passed without a datatype."""
_PACKED = "MPI.PACKED"
_BYTE = "MPI.BYTE"
LIKE_BYTES = frozenset({_BYTES, _BYTE, "uint8", "MPI.CHAR"})

KNOWN: dict[Any, str] = {np.dtype(code): np.dtype(code).name for code in "?bBhiqlHIQLefdgFDG"}
"""The names of the most frequent array element types."""
_ndarray = np.ndarray
_MOST_SIZES = 4096


class _BySize(dict[int, Signature]):
    """The signatures of arrays of one type by number of elements; equal arrays share one object."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __missing__(self, size: int) -> Signature:
        if len(self) >= _MOST_SIZES:
            self.clear()
        found = self[size] = ((self._name, size),) if size else ()
        return found


_of_arrays = {dtype: _BySize(name) for dtype, name in KNOWN.items()}


@lru_cache(maxsize=256)
def _runs(core: Type) -> Signature:
    """Return the signature of one element of a datatype."""
    if core is impl_of(INSTANCES["PACKED"]):
        return ((_PACKED, 1),)
    if core is impl_of(INSTANCES["BYTE"]):
        return ((_BYTE, 1),)
    if core is impl_of(INSTANCES["CHAR"]):
        return (("MPI.CHAR", 1),)
    if core.recipe.types and core.dtype is None:
        return _joined([run for old, n in _members(core) for run in _times(_runs(old), n)])
    return tuple((dtype.name, n) for dtype, n in core.runs())


def _members(core: Type) -> list[tuple[Type, int]]:
    """Return the component types of a derived type, with their counts, in packing order."""
    types = core.recipe.types
    if core.recipe.combiner == COMBINER_STRUCT:
        return list(zip(types, core.recipe.params["blocklengths"], strict=True))
    old = types[0]
    return [(old, core.elements // old.elements if old.elements else 0)]


def _times(signature: Signature, count: int) -> list[tuple[str, int]]:
    if len(signature) == 1:
        return [(signature[0][0], signature[0][1] * count)]
    return list(signature) * count


def _joined(runs: list[tuple[str, int]]) -> Signature:
    joined: list[tuple[str, int]] = []
    for name, n in runs:
        if n and joined and joined[-1][0] == name:
            joined[-1] = (name, joined[-1][1] + n)
        elif n:
            joined.append((name, n))
    return tuple(joined)


def of_elements(core: Type, count: int) -> Signature:
    """Return the signature of `count` elements of a datatype."""
    if not count:
        return ()
    runs = _runs(core)
    return ((runs[0][0], runs[0][1] * count),) if len(runs) == 1 else _joined(list(runs) * count)


@lru_cache(maxsize=256)
def kind_of_elements(core: Type) -> str:
    """Return the basic type of a datatype's elements, for accumulations (MPI 4.1, 12.3.4)."""
    return " and ".join(dict.fromkeys(name for name, _ in _runs(core)))


def of_buffer(buf: object, blocks: int = 0) -> Signature | None:
    """Return the signature of a buffer argument, or of each of its blocks.

    The result is None if it is invalid.
    """
    if type(buf) is _ndarray and not blocks:  # hot path
        by_size = _of_arrays.get(buf.dtype)
        if by_size is not None:
            return by_size[buf.size]
    if buf is None or is_in_place(buf):
        return None
    try:
        if type(buf) is list and len(buf) == 3 and not blocks:
            _, count, datatype = buf  # hot path: the call itself rejects any other values
            if type(datatype) is Datatype and type(count) is int and count >= 0:
                usable(impl_of(datatype))
                return of_elements(impl_of(datatype), count)
        parsed = message(buf, writable=False, blocks=blocks)
    except Exception:  # the call itself reports the error
        return None
    signature = of_elements(parsed.datatype, parsed.count)
    typed = isinstance(buf, list | tuple) and any(isinstance(each, Datatype | str) for each in buf[1:])
    memory = buf[0] if isinstance(buf, list | tuple) else buf
    if not typed and isinstance(memory, bytes | bytearray | memoryview) and signature and signature[0][0] == "uint8":
        return ((_BYTES, signature[0][1]),)
    return signature


def match(sent: Signature, expected: Signature) -> bool:
    """Return True if a receive's signature equals that of a message or begins with it."""
    if sent == expected or not sent:
        return True
    if PICKLE in (sent, expected):  # a pickle is bytes, and a program may send or receive it as bytes
        return all(name in LIKE_BYTES for name, _ in (sent if expected == PICKLE else expected))
    if sent[0][0] == _PACKED or (expected and expected[0][0] == _PACKED):
        return True
    if len(sent) > len(expected):
        return False
    last = len(sent) - 1
    return all(
        _types_match(mine, theirs) and (n == m or (place == last and n < m))
        for place, ((mine, n), (theirs, m)) in enumerate(zip(sent, expected, strict=False))
    )


def _types_match(mine: str, theirs: str) -> bool:
    return mine == theirs or (_BYTES in (mine, theirs) and mine in LIKE_BYTES and theirs in LIKE_BYTES)


def same(mine: Signature, theirs: Signature) -> bool:
    """Return True if two signatures are equal, as collectives require."""
    return match(mine, theirs) and match(theirs, mine)


def described(signature: Signature | None) -> str:
    """Format a signature, e.g. ``10 x float64``."""
    if signature is None:
        return "unknown"
    if not signature:
        return "nothing"
    if signature == PICKLE:
        return "a pickled object"
    shown = [f"{n:,} x {name}" for name, n in signature[:4]]
    return ", ".join([*shown, "..."] if len(signature) > 4 else shown)
