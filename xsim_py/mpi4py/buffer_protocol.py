"""Buffer protocol for classes written in Python before CPython 3.12 (PEP 688).

A class has a slot for the function that exports its memory, which only C code can fill up to 3.11. Here it is filled
with a function that calls ``__buffer__`` and forwards the request to the returned memory; or with one that exports no
bytes and names no owner, which ``__buffer__`` cannot express in any version.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, TypeVar

__all__ = ["exporting", "exporting_nothing"]

C = TypeVar("C", bound=type)

_GetBuffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
_export = _GetBuffer(("PyObject_GetBuffer", ctypes.pythonapi))
_fill = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_int
)(("PyBuffer_FillInfo", ctypes.pythonapi))
# The offset in a PyTypeObject, after the object header, its size and 16 other words.
_BUFFER_PROCEDURES_AT = object.__basicsize__ + 18 * ctypes.sizeof(ctypes.c_void_p)
_kept: list[object] = []


def _answer(obj: object, view: int, flags: int) -> int:
    """Handle a request from C; an exception cannot cross it, so Python raises SystemError."""
    try:
        return int(_export(obj.__buffer__(flags), view, flags))  # type: ignore[attr-defined]
    except Exception:
        return -1


def _answer_nothing(obj: object, view: int, flags: int) -> int:
    return int(_fill(view, None, None, 0, 0, flags))


def __buffer__(self: Any, flags: int, /) -> memoryview:
    """Return the memory of an object."""
    return memoryview(self)


_ask, _ask_nothing = _GetBuffer(_answer), _GetBuffer(_answer_nothing)


def exporting(cls: C) -> C:
    """Make ``__buffer__`` of a class and its subclasses visible to C; a class decorator."""
    if sys.version_info < (3, 12):
        _put(cls, _ask)
    return cls


def exporting_nothing(cls: C) -> C:
    """Make objects of a class export zero bytes without an owner; a class decorator.

    mpi4py's `BOTTOM` does so.
    """
    if sys.version_info >= (3, 12):
        cls.__buffer__ = __buffer__  # type: ignore[attr-defined]
    _put(cls, _ask_nothing)
    return cls


def _put(cls: type, function: object) -> None:
    procedures = ctypes.c_void_p.from_address(id(cls) + _BUFFER_PROCEDURES_AT).value
    assert procedures is not None
    ctypes.c_void_p.from_address(procedures).value = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
    _kept.append(cls)
