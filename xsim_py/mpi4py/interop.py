"""Interoperability with other libraries of a process.

It covers sizes and addresses of handles, and capsules for C.

A handle here is a name for an object of the layer below; in memory it is a number. Code that reads that memory finds
the number; writing there has no effect.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from xsim_py.mpi.per_process import of_process

from .handle import Handle
from .status import Status

__all__ = ["_addressof", "_handleof", "_sizeof", "capsules"]


def _is_a(arg: object, cls: type[object]) -> bool:
    """Return True if an object is an instance of a class, or one of its subclasses."""
    return isinstance(arg, cls) or (isinstance(arg, type) and issubclass(arg, cls))


def _sizeof(arg: object) -> int:
    if _is_a(arg, Status):
        return Status().tomemory().nbytes
    if _is_a(arg, Handle):
        return ctypes.sizeof(ctypes.c_uint64)
    raise _type_error(arg)


def _addressof(arg: object) -> int:
    if isinstance(arg, Status):
        return arg._address()
    if isinstance(arg, Handle):
        return ctypes.addressof(_cell(arg.handle))
    raise _type_error(arg)


def _handleof(arg: object) -> int:
    return arg.handle if isinstance(arg, Handle) else _addressof(arg)


def _type_error(arg: object) -> TypeError:
    return TypeError(f"expecting an MPI object, got {type(arg).__name__}")


def _cell(number: int) -> ctypes.c_uint64:
    """Return the memory cell with the number of a handle; equal handles share it."""
    cells: dict[int, ctypes.c_uint64] = of_process("cells of handles", dict)
    cell = cells.setdefault(number, ctypes.c_uint64())
    cell.value = number  # overwrite whatever has been written there
    return cell


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_ALIVE: list[Any] = []


def _capsule(function: Callable[[Any], Any], result: type | None, argument: type, signature: str) -> object:
    """Return a capsule of a C function that calls a Python function."""
    called, name = ctypes.PYFUNCTYPE(result, argument)(function), signature.encode()
    _ALIVE.extend((called, name))  # the capsule stores only their addresses
    return _new_capsule(ctypes.cast(called, ctypes.c_void_p), name, None)


def capsules(classes: dict[str, Any]) -> dict[str, Any]:
    """Return the functions that convert handles to Python objects and back for C programs.

    They are those that Cython exports. `classes` has the classes of MPI objects by their MPI names.
    """
    found = {}
    for name, cls in classes.items():
        is_status = cls is Status
        argument = ctypes.c_void_p if is_status else ctypes.c_uint64
        make = Status._at if is_status else cls.fromhandle
        pointer = " *" if is_status else ""
        found[f"PyMPI{name}_New"] = _capsule(make, ctypes.py_object, argument, f"PyObject *(MPI_{name}{pointer})")
        found[f"PyMPI{name}_Get"] = _capsule(_addressof, ctypes.c_void_p, ctypes.py_object, f"MPI_{name} *(PyObject *)")
    return found
