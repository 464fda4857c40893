"""Memory that an object shows by DLPack (https://dmlc.github.io/dlpack): its capsule, read as mpi4py reads it.

The capsule stays alive as long as the memory is used, and is not consumed: what made it may free its description as
soon as it is gone, so numpy's own reader, which keeps the description and not the capsule, would look at freed memory.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

__all__ = ["dlpack_view", "has_dlpack"]

_READ_ONLY = 1
_BOOL, _FLOAT = 6, 2
_KINDS = {0: "i", 1: "u", _FLOAT: "f", 5: "c"}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def has_dlpack(obj: Any) -> bool:
    """Whether an object speaks DLPack."""
    return hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__")


def dlpack_view(obj: Any) -> memoryview:
    """The memory of an object that speaks DLPack.

    Raises
    ------
    BufferError
        If its capsule says something that cannot be.
    """
    name = b"dltensor_versioned"
    try:
        capsule = obj.__dlpack__(max_version=(1, 0), copy=False)
    except TypeError:  # before version 1
        name = b"dltensor"
        capsule = obj.__dlpack__()
    if not _is_valid(capsule, name):
        raise BufferError("dlpack: invalid capsule object")
    pointer = _pointer_of(capsule, name)
    if name == b"dltensor":
        return _view(_Managed.from_address(pointer).tensor, capsule)
    managed = _Versioned.from_address(pointer)
    if managed.major < 1:
        raise BufferError("dlpack: unexpected version")
    view = _view(managed.tensor, capsule)
    return view.toreadonly() if managed.flags & _READ_ONLY else view


def _view(tensor: _Tensor, capsule: Any) -> memoryview:
    ndim = tensor.ndim
    if ndim < 0:
        raise BufferError("dlpack: number of dimensions is negative")
    if ndim > 0 and not tensor.shape:
        raise BufferError("dlpack: shape is NULL")
    shape = tuple(tensor.shape[:ndim])
    strides = tuple(tensor.strides[:ndim]) if tensor.strides else None
    if min(shape, default=0) < 0:
        raise BufferError("dlpack: shape item is negative")
    if strides is not None and min(strides, default=0) < 0:
        raise BufferError("dlpack: strides item is negative")
    dtype, per_item = _dtype(tensor)
    if per_item != 1:
        shape, strides = (math.prod(shape) * per_item,), None
    places = None if strides is None else tuple(stride * dtype.itemsize for stride in strides)
    size = sum((n - 1) * step for n, step in zip(shape, places, strict=True)) + dtype.itemsize if places else 0
    size = max(size, math.prod(shape) * dtype.itemsize) if min(shape, default=1) else 0
    memory: Any = (ctypes.c_ubyte * size).from_address((tensor.data or 0) + tensor.byte_offset)
    memory.capsule = capsule
    return np.ndarray(shape, dtype, memory, 0, places).data


def _dtype(tensor: _Tensor) -> tuple[np.dtype[Any], int]:
    """The type in numpy, and how many of it make up one element; what numpy has no name for is seen as bytes."""
    code, size, lanes = tensor.code, tensor.bits // 8, tensor.lanes
    if code == _FLOAT and lanes == 2:
        code, size, lanes = 5, 2 * size, 1
    if lanes == 1 and code == _BOOL and size == 1:
        return np.dtype("?"), 1
    if lanes == 1 and code in _KINDS:
        try:
            return np.dtype(f"{_KINDS[code]}{size}"), 1
        except TypeError:
            pass
    return np.dtype("B"), (tensor.bits * tensor.lanes + 7) // 8
