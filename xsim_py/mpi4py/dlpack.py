"""Memory offered through DLPack or the CUDA array interface.

The capsule of a DLPack object is read in place and kept as long as the view, as in mpi4py: it is never consumed, so its
owner keeps the right to free it. A virtual rank has no GPU: memory that the processor cannot read is rejected.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import operator
import os
import struct
import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache
from inspect import CO_VARKEYWORDS
from types import FunctionType, MethodType
from typing import Any

import numpy as np

__all__ = ["at_address", "foreign", "is_device_memory", "is_foreign"]

_index = operator.index

_READ_ONLY = 1
_CPU_DEVICES = frozenset({0, 1, 3, 11, 13})  # none, CPU, and the kinds of host memory that CUDA and ROCm pin or manage
_CUDA = 2
_FLOAT = 2
_CODES = {0: "bhil", 1: "BHIL", 2: "efdg", 5: "FDG", 6: "?"}  # DLPack's integer, unsigned, float, complex and bool
_KINDS = {"b": "?", "i": "bhil", "u": "BHIL", "f": "efdg", "c": "FDG"}
_NATIVE = "<" if sys.byteorder == "little" else ">"


# DLTensor: data, device (kind, number), ndim, element (code, bits, lanes), shape, strides, offset in bytes.
_TENSOR = struct.Struct("@PIiiBBHPPQ")
# The header before it in a capsule of DLPack 1: major and minor version, context, deleter, flags.
_VERSION = struct.Struct("@IIPPQ")

_RawTensor: Any = ctypes.c_ubyte * _TENSOR.size
_RawVersion: Any = ctypes.c_ubyte * _VERSION.size
_integer: Any = ctypes.c_int64

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


def at_address(address: int, size: int) -> memoryview:
    """Return the bytes of this process at an address, without checking that they exist."""
    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


def is_foreign(obj: object) -> bool:
    """Return True if an object offers its memory through DLPack or the CUDA array interface."""
    return hasattr(obj, "__dlpack__") or hasattr(obj, "__cuda_array_interface__")


def foreign(obj: object) -> memoryview | None:
    """Return the memory offered through DLPack or the CUDA array interface; None if neither.

    Raises a `BufferError` if the memory cannot be used as a message, a `TypeError`, `ValueError` or `KeyError` if its
    description is invalid, and a `NotImplementedError` if it belongs to a GPU.
    """
    if hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__"):
        return _dlpack(obj)
    if hasattr(obj, "__cuda_array_interface__"):
        return _cuda_array(obj)
    return None


def _dlpack(obj: Any) -> memoryview:
    device, number = obj.__dlpack_device__()
    device, _ = _index(device), _index(number)
    stream: dict[str, Any] = {} if device == 1 else {"stream": -1}
    exporter = obj.__dlpack__
    name = b"dltensor"
    if _predates_dlpack_1(exporter):
        capsule = exporter(**stream)
    else:
        try:
            capsule = exporter(**stream, max_version=(1, 0), copy=False)
            name = b"dltensor_versioned"
        except TypeError:  # an object older than DLPack 1
            capsule = exporter(**stream)
    try:
        pointer = _pointer_of(capsule, name)
    except ValueError:
        raise BufferError("dlpack: invalid capsule object") from None
    readonly = False
    if name == b"dltensor_versioned":
        major, _, _, _, flags = _VERSION.unpack_from(_RawVersion.from_address(pointer))
        if major < 1:
            raise BufferError("dlpack: unexpected version")
        readonly = bool(flags & _READ_ONLY)
        pointer += _VERSION.size
    tensor = _TENSOR.unpack_from(_RawTensor.from_address(pointer))
    start, _, _, ndim, code, bits, lanes, shape_at, strides_at, offset = tensor
    shape, strides = _dimensions(ndim, shape_at, strides_at)
    if strides is not None and not _is_contiguous(shape, strides, 1):
        raise BufferError("dlpack: buffer is not contiguous")
    size_bytes = math.prod(shape) * ((bits * lanes + 7) // 8)
    address = start + offset
    if device not in _CPU_DEVICES:
        _check_readable(address, size_bytes, "dlpack")
    return _view(address, size_bytes, _tensor_dtype(code, bits, lanes), readonly, capsule, device)


def _predates_dlpack_1(exporter: object) -> bool:
    """Return True if a method is a Python function that lacks the arguments of DLPack 1."""
    if type(exporter) is not MethodType or type(exporter.__func__) is not FunctionType:
        return False
    code = exporter.__func__.__code__
    return not code.co_flags & CO_VARKEYWORDS and "max_version" not in code.co_varnames


def _dimensions(ndim: int, shape_at: int, strides_at: int) -> tuple[Sequence[int], Sequence[int] | None]:
    """Return the shape and strides of a tensor, in elements; the strides are None if contiguous."""
    if ndim < 0:
        raise BufferError("dlpack: number of dimensions is negative")
    if ndim > 0 and not shape_at:
        raise BufferError("dlpack: shape is NULL")
    if not ndim:
        return (), None
    shape = _integers_at(shape_at, ndim)
    if min(shape) < 0:
        raise BufferError("dlpack: shape item is negative")
    if not strides_at:
        return shape, None
    strides = _integers_at(strides_at, ndim)
    if min(strides) < 0:
        raise BufferError("dlpack: strides item is negative")
    return shape, strides


def _integers_at(address: int, count: int) -> tuple[int, ...]:
    return tuple((_integer * count).from_address(address))


def _is_contiguous(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Return True if an array has no gaps, in C or Fortran order."""
    if len(shape) == 1:
        return shape[0] <= 1 or strides[0] == itemsize
    for places in (range(len(shape)), range(len(shape) - 1, -1, -1)):
        step, fits = itemsize, True
        for i in places:
            fits = fits and (shape[i] <= 1 or strides[i] == step)
            step *= shape[i]
        if fits:
            return True
    return False


@lru_cache
def _tensor_dtype(code: int, bits: int, lanes: int) -> np.dtype[Any]:
    """Return the type of the elements; bytes if numpy has none for it."""
    if lanes == 1:
        return _dtype_of(_CODES.get(code, ""), bits)
    if lanes == 2 and code == _FLOAT:  # a complex number, before DLPack supported them
        return _dtype_of("FDG", 2 * bits)
    return np.dtype("B")


@lru_cache
def _dtype_of(codes: str, bits: int) -> np.dtype[Any]:
    return next((np.dtype(code) for code in codes if 8 * np.dtype(code).itemsize == bits), np.dtype("B"))


def _cuda_array(obj: Any) -> memoryview:
    what = "__cuda_array_interface__"
    interface = obj.__cuda_array_interface__
    _check_type(interface, dict)
    data, code, shape = interface["data"], interface["typestr"], interface["shape"]
    strides, description = interface.get("strides"), interface.get("descr")
    if type(data) is not tuple or type(code) is not str or type(shape) is not tuple:
        for value, kind in ((data, tuple), (code, str), (shape, tuple)):
            _check_type(value, kind)
    for value, expected in ((strides, tuple), (description, list)):
        if value is not None:
            _check_type(value, expected)
    address, readonly = data
    itemsize, count = int(code[2:]), math.prod(shape)
    if code[0] in "<>" and code[0] != _NATIVE:
        raise BufferError(f"{what}: typestr {code!r} with non-native byte order")
    if code[0] not in "<>|":
        raise BufferError(f"{what}: typestr {code!r} with unrecognized byte order")
    if interface.get("mask") is not None:
        raise BufferError(f"{what}: cannot handle masked arrays")
    if count < 0:
        raise BufferError(f"{what}: buffer with negative size (shape:{shape}, size:{count})")
    if strides is not None and not _is_contiguous(shape, strides, itemsize):
        raise BufferError(f"{what}: buffer is not contiguous (shape:{shape}, strides:{strides}, itemsize:{itemsize})")
    if description is not None and description != [("", code)]:
        warnings.warn(f"{what}: ignoring 'descr' key", RuntimeWarning, stacklevel=2)
    address = 0 if address is None and count == 0 else operator.index(address)
    _check_readable(address, count * itemsize, what)
    return _view(
        address, count * itemsize, _dtype_of(_KINDS.get(code[1], ""), 8 * itemsize), bool(readonly), obj, _CUDA
    )


def _check_type(value: object, expected: type[object]) -> None:
    if not isinstance(value, expected):
        raise TypeError(f"Expected {expected.__name__}, got {type(value).__name__}")


def _check_readable(address: int, size_bytes: int, what: str) -> None:
    """Reject memory that the processor cannot read, such as a GPU's.

    The operating system decides that when asked to copy from it.

    Each page is checked once: host memory never becomes GPU memory, which has different addresses.
    """
    if not size_bytes:
        return
    last = address + size_bytes - 1
    for place in (address,) if address // _PAGE == last // _PAGE else (address, last):
        if place // _PAGE in _readable:
            continue
        sink = _sink()
        if sink is None:
            return
        try:
            _copy(sink, _byte.from_address(place), 0)
        except (OSError, OverflowError):
            raise NotImplementedError(
                f"{what}: the memory is not the processor's, and a virtual rank has no GPU"
            ) from None
        if len(_readable) >= _MOST_PAGES:
            _readable.clear()
        _readable.add(place // _PAGE)


_PAGE = mmap.PAGESIZE
_MOST_PAGES = 1 << 14
_readable: set[int] = set()
"""Pages known to be readable."""


@lru_cache(maxsize=1)
def _sink() -> int | None:
    """Return an anonymous file that only takes bytes; None if the system does not support it."""
    try:
        return os.memfd_create("xsim")
    except (AttributeError, OSError):
        return None


_byte: Any = ctypes.c_ubyte
_copy = os.pwrite  # the real one: a run has its own version


_base_of = np.ndarray.__getattribute__  # `buffer` hides inherited attributes


def is_device_memory(owner: object) -> bool:
    """Return True if a buffer shows device memory, which only messages should access."""
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.obj if isinstance(owner, memoryview) else _base_of(owner, "base")
    return isinstance(owner, ctypes.Array) and getattr(owner, "device", 0) not in _CPU_DEVICES


def _view(
    address: int, size_bytes: int, dtype: np.dtype[Any], readonly: bool, owner: object, device: int
) -> memoryview:
    """Return a view of memory as an array that keeps its owner and device kind."""
    memory = (_byte * size_bytes).from_address(address)
    memory.owner, memory.device = owner, device
    view = np.ndarray(size_bytes // dtype.itemsize, dtype, memory) if size_bytes else np.empty(0, dtype)
    return view.data.toreadonly() if readonly else view.data
