"""Memory that an object shows by the CUDA array interface.

A virtual rank has no GPU: the address is taken for one of this process, as it is for memory that both sides can touch.
"""

from __future__ import annotations

import ctypes
import math
import warnings
from typing import Any

import numpy as np

__all__ = ["cai_view"]

_WHO = "__cuda_array_interface__"


def cai_view(obj: Any) -> memoryview:
    """The memory of an object that has a CUDA array interface.

    Raises
    ------
    BufferError
        If what it says can not be, or is of no use here (masked, with holes, of the other byte order).
    KeyError
        If it leaves out what it has to say.
    """
    said = obj.__cuda_array_interface__
    (address, readonly), typestr, shape = said["data"], said["typestr"], said["shape"]
    size = math.prod(shape)
    order, kind, item_bytes = typestr[:1], typestr[1:2], int(typestr[2:])
    if order not in "<>|":
        raise BufferError(f"{_WHO}: typestr {typestr!r} with unrecognized byte order")
    if order != "|" and (order == "<") is not np.little_endian:
        raise BufferError(f"{_WHO}: typestr {typestr!r} with non-native byte order")
    if said.get("mask") is not None:
        raise BufferError(f"{_WHO}: cannot handle masked arrays")
    if size < 0:
        raise BufferError(f"{_WHO}: buffer with negative size (shape:{shape}, size:{size})")
    strides = said.get("strides")
    if strides is not None and not _is_contiguous(shape, strides, item_bytes):
        raise BufferError(f"{_WHO}: buffer is not contiguous (shape:{shape}, strides:{strides}, itemsize:{item_bytes})")
    descr = said.get("descr")
    if descr is not None and (len(descr) != 1 or descr[0] != ("", typestr)):
        warnings.warn(f"{_WHO}: ignoring 'descr' key", RuntimeWarning, stacklevel=2)
    memory: Any = (ctypes.c_ubyte * (size * item_bytes)).from_address(address or 0)
    memory.owner = obj
    try:
        dtype = np.dtype(f"{kind}{item_bytes}")
    except TypeError:
        dtype, shape, strides = np.dtype("B"), (size * item_bytes,), None
    view = np.ndarray(shape, dtype, memory, 0, strides).data
    return view.toreadonly() if readonly else view


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], item_bytes: int) -> bool:
    """Whether the elements are one run of bytes, in C's order or in Fortran's."""
    for axes in (range(len(shape)), range(len(shape) - 1, -1, -1)):
        expected = item_bytes
        for axis in axes:
            if shape[axis] > 1 and strides[axis] != expected:
                break
            expected *= shape[axis]
        else:
            return True
    return False
