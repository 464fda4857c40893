"""Lets ``memoryview`` take objects of classes that are written in Python, before CPython 3.12 can do that (PEP 688).

A class has a place for the function that exports its memory, and up to 3.11 nothing but C can fill it. Here it is
filled with a function that asks ``__buffer__`` and hands the request on to the memory that this returns.
"""

from __future__ import annotations

import ctypes
import sys
from typing import TypeVar

__all__ = ["exporting"]

C = TypeVar("C", bound=type)

_GetBuffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
_export = _GetBuffer(("PyObject_GetBuffer", ctypes.pythonapi))
_BUFFER_PROCEDURES_AT = 20 * ctypes.sizeof(ctypes.c_void_p)  # in a PyTypeObject, of all versions that need this
_kept: list[object] = []


def _answer(obj: object, view: int, flags: int) -> int:
    """What C calls; an exception can not leave it, and Python says SystemError then."""
    try:
        return int(_export(obj.__buffer__(flags), view, flags))  # type: ignore[attr-defined]
    except Exception:
        return -1


_ask = _GetBuffer(_answer)


def exporting(cls: C) -> C:
    """Let C find ``__buffer__`` of a class and of its subclasses; a class decorator."""
    if sys.version_info < (3, 12):
        procedures = ctypes.c_void_p.from_address(id(cls) + _BUFFER_PROCEDURES_AT).value
        assert procedures is not None
        ctypes.c_void_p.from_address(procedures).value = ctypes.cast(_ask, ctypes.c_void_p).value
        _kept.append(cls)
    return cls
