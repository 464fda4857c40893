"""Reduction operations on packed bytes.

A collective does not know datatypes: it folds two messages of packed elements into one (`Fold`). For a predefined
operation that is one NumPy ufunc over the bytes as they are. Two details:

* An 8-byte allreduce is mostly this call, and NumPy needs 0.6 us for it, nearly all of it to make its arrays. One
  element of a common type is therefore folded with `struct` and Python arithmetic (0.25 us), which gives the same
  bits; values that do not fit (an integer that overflows) use NumPy, the slow twin.
* MAX and MIN of a NaN are NaN here, whichever rank contributes it. In MPICH and Open MPI that depends on the order of
  the operands, hence on the algorithm.
"""

from __future__ import annotations

import contextvars
import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi import constants as c
from xsim_py.mpi.collectives.channel import Fold
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.errors import fail
from xsim_py.mpi.handles import predefine
from xsim_py.mpi.padding import Mask, without_padding

_frombuffer = np.frombuffer

# Real MPI never warns of an overflow. Entering `np.errstate` costs as much as the addition; a context that has it costs
# a tenth of that. (NumPy 1 keeps the error state per thread, so it uses the slow way.)
_quiet_context = contextvars.copy_context()


def _errstate_quietly(ufunc: Ufunc, left: NDArray[Any], right: NDArray[Any]) -> object:
    with np.errstate(all="ignore"):
        return ufunc(left, right)


if int(np.__version__.partition(".")[0]) >= 2:
    _quiet_context.run(np.seterr, all="ignore")
    _quietly: Callable[..., Any] = _quiet_context.run
else:
    _quietly = _errstate_quietly

Ufunc: TypeAlias = Callable[..., Any]
UserFunction: TypeAlias = Callable[[memoryview, memoryview, Type], object]


class ReductionOp:
    """A reduction operation."""

    __slots__ = ("commutative", "folds", "function", "name", "python", "ufuncs")

    def __init__(
        self,
        name: str = "",  # mpi4py's name of a predefined operation, empty for a user-defined one
        *,
        python: Callable[[Any, Any], Any],  # ``python(x, y)`` on two Python objects
        ufuncs: dict[str, Ufunc] | None = None,  # the NumPy function for each kind of datatype (`Type.kind`)
        function: UserFunction | None = None,  # the user's: ``function(in, inout, type)`` computes inout = in op inout
        commutative: bool = True,  # whether the order of operands does not matter
    ) -> None:
        self.name = name
        self.python = python
        self.ufuncs = ufuncs or {}
        self.function = function
        self.commutative = commutative
        self.folds: dict[Type, Fold] = {}

    def user_fold(self, datatype: Type) -> Fold:
        """Return the fold of a user-defined operation."""
        return UserFold(self, datatype)


class ArrayFold:
    """A predefined operation on any number of elements."""

    __slots__ = ("commutative", "dtype", "ufunc", "unit_bytes")

    def __init__(self, ufunc: Ufunc, dtype: np.dtype[Any]) -> None:
        self.ufunc = ufunc
        self.dtype = dtype
        self.commutative = True
        self.unit_bytes = dtype.itemsize

    def __call__(self, left: bytes, right: bytes) -> bytes:
        """Fold two packed messages."""
        dtype = self.dtype
        folded: bytes = _quietly(self.ufunc, _frombuffer(left, dtype), _frombuffer(right, dtype)).tobytes()
        return folded


class PaddedFold(ArrayFold):
    """A predefined operation on long doubles, whose padding NumPy leaves uninitialised."""

    __slots__ = ("mask",)

    def __init__(self, ufunc: Ufunc, dtype: np.dtype[Any], mask: Mask) -> None:
        super().__init__(ufunc, dtype)
        self.mask = mask

    def __call__(self, left: bytes, right: bytes) -> bytes:
        """Fold two packed messages."""
        return without_padding(ArrayFold.__call__(self, left, right), self.mask)


class ScalarFold(ArrayFold):
    """A fold with a shortcut for one element; a hot path, see the head of this file."""

    __slots__ = ("pack", "scalar", "unpack")

    def __init__(self, ufunc: Ufunc, dtype: np.dtype[Any], scalar: Callable[[Any, Any], Any]) -> None:
        super().__init__(ufunc, dtype)
        form = struct.Struct(_STRUCT_CODES[dtype.str])
        self.pack = form.pack
        self.unpack = form.unpack
        self.scalar = scalar

    def __call__(self, left: bytes, right: bytes) -> bytes:
        """Fold two packed messages."""
        if len(left) == self.unit_bytes:
            try:
                return self.pack(self.scalar(self.unpack(left)[0], self.unpack(right)[0]))
            except (struct.error, OverflowError):  # too large for its type: NumPy wraps around, or returns inf
                pass
        return ArrayFold.__call__(self, left, right)


class UserFold:
    """The user's function, which gets elements in their memory layout."""

    __slots__ = ("commutative", "datatype", "function", "unit_bytes")

    def __init__(self, operation: ReductionOp, datatype: Type) -> None:
        assert operation.function is not None
        self.function = operation.function
        self.datatype = datatype
        self.commutative = operation.commutative
        self.unit_bytes = datatype.size

    def __call__(self, left: bytes, right: bytes) -> bytes:
        """Fold two packed messages."""
        datatype = self.datatype
        count = len(left) // datatype.size if datatype.size else 0
        low, high = datatype.span(count)
        low, high = min(low, 0), max(high, count * datatype.extent)
        sides = []
        for data in (left, right):
            side = memoryview(bytearray(high - low))
            datatype.unpack(data, side, -low, count)
            sides.append(side)
        self.function(sides[0][-low:], sides[1][-low:], datatype)
        return datatype.pack(sides[1], -low, count)


def make_fold(operation: ReductionOp, datatype: Type) -> Fold:
    """Bind an operation to a datatype.

    Raises an `Exception` with `ERR_OP` if the operation is null, is for one-sided communication only, or does not
    support this type.
    """
    fold = operation.folds.get(datatype)
    if fold is None:
        fold = _new_fold(operation, datatype)
        if datatype.is_predefined:
            operation.folds[datatype] = fold
    return fold


def _new_fold(operation: ReductionOp, datatype: Type) -> Fold:
    if operation.function is not None:
        return operation.user_fold(datatype)
    ufunc = operation.ufuncs.get(datatype.kind)
    if ufunc is None or datatype.dtype is None:
        fail(c.ERR_OP, f"{operation.name or 'OP_NULL'} does not take {datatype.name or 'a derived datatype'}")
    scalar = _SCALARS.get(operation.name)
    if scalar is not None and datatype.dtype.str in _STRUCT_CODES:
        return ScalarFold(ufunc, datatype.dtype, scalar)
    mask = datatype.layout.mask
    return ArrayFold(ufunc, datatype.dtype) if mask is None else PaddedFold(ufunc, datatype.dtype, mask)


# ------------------------------------------------------------------------------------------ many folds at once


def foldable(fold: Fold) -> bool:
    """Return True if `fold_rows` supports it: not a user-defined function, which may have side effects."""
    return isinstance(fold, ArrayFold)


def fold_rows(fold: ArrayFold, left: NDArray[np.uint8], right: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Fold each row of packed elements with its partner, bit-identical to ``fold(left, right)``.

    Integers, and sums and products of floats, do not depend on the number of elements passed to NumPy at once. This is
    not guaranteed for the choice between two NaNs, the sign of the larger of two zeros, and other types: then the rows
    are folded individually, the slow twin.
    """
    folded = _folded_at_once(fold, left, right)
    if folded is not None:
        return folded
    pairs = zip(map(bytes, left), map(bytes, right), strict=True)
    return np.frombuffer(b"".join([fold(*pair) for pair in pairs]), np.uint8).reshape(left.shape)


def _folded_at_once(fold: ArrayFold, left: NDArray[np.uint8], right: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
    dtype, ufunc = fold.dtype, fold.ufunc
    if dtype.kind not in "iubf" or (dtype.kind == "f" and dtype.itemsize not in (4, 8)):
        return None
    first, second = (np.ascontiguousarray(side).view(dtype) for side in (left, right))
    folded = _quietly(ufunc, first, second)
    if dtype.kind == "f":
        if np.isnan(folded).any() or (ufunc in (np.maximum, np.minimum) and not folded.all()):
            return None
        if ufunc not in (np.add, np.multiply, np.maximum, np.minimum):
            return None
    found: NDArray[np.uint8] = folded.view(np.uint8)
    return found


# ------------------------------------------------------------------------------- the predefined operations


def _greater(x: Any, y: Any) -> object:
    return x if x > y or x != x else y  # the second condition keeps a NaN


def _less(x: Any, y: Any) -> object:
    return x if x < y or x != x else y


_STRUCT_CODES = {"<f8": "<d", "<f4": "<f", "<i8": "<q", "<i4": "<i", "<u8": "<Q", "<u4": "<I"}
_SCALARS: dict[str, Callable[[Any, Any], Any]] = {
    "SUM": operator.add,
    "PROD": operator.mul,
    "MAX": _greater,
    "MIN": _less,
}


def _in_type(ufunc: Ufunc) -> Ufunc:
    """Return a logical operation whose result is 0 or 1 in the operands' own type."""

    def logical(left: NDArray[Any], right: NDArray[Any]) -> object:
        return ufunc(left, right).astype(left.dtype)

    return logical


def _located(better: Ufunc) -> Ufunc:
    """Return MAXLOC or MINLOC: the better value with its index, the lower index of equal ones."""

    def located(left: NDArray[Any], right: NDArray[Any]) -> object:
        first, second = left["value"], right["value"]
        keep = better(first, second) | ((first == second) & (left["index"] <= right["index"]))
        return np.where(keep, left, right)

    return located


_NUMBERS = ("integer", "fortran integer", "real")
_MAXLOC, _MINLOC = _located(np.greater), _located(np.less)


def _null_python(x: object, y: object) -> object:
    raise ValueError("cannot call user-defined operation")


def _maxloc(x: tuple[Any, Any], y: tuple[Any, Any]) -> tuple[Any, Any]:
    (u, i), (v, j) = x, y
    return (v, j) if v > u or (not u > v and j < i) else (u, i)


def _minloc(x: tuple[Any, Any], y: tuple[Any, Any]) -> tuple[Any, Any]:
    (u, i), (v, j) = x, y
    return (v, j) if v < u or (not u < v and j < i) else (u, i)


def _operation(
    name: str, handle: int, python: Callable[[Any, Any], Any], ufunc: Ufunc | None = None, kinds: Sequence[str] = ()
) -> ReductionOp:
    ufuncs = {} if ufunc is None else dict.fromkeys(kinds, ufunc)
    commutative = name not in ("REPLACE", "NO_OP")
    operation = ReductionOp(name, python=python, ufuncs=ufuncs, commutative=commutative)
    predefine(handle, operation)
    return operation


_BITS = ("integer", "fortran integer", "byte")
_LOGICAL = ("integer", "logical")

OP_NULL = _operation("", 0x20, _null_python)
PREDEFINED: dict[str, ReductionOp] = {
    "OP_NULL": OP_NULL,
    "MAX": _operation("MAX", 0x23, lambda x, y: y if y > x else x, np.maximum, _NUMBERS),
    "MIN": _operation("MIN", 0x22, lambda x, y: y if y < x else x, np.minimum, _NUMBERS),
    "SUM": _operation("SUM", 0x21, operator.add, np.add, (*_NUMBERS, "complex")),
    "PROD": _operation("PROD", 0x24, operator.mul, np.multiply, (*_NUMBERS, "complex")),
    "LAND": _operation("LAND", 0x30, lambda x, y: bool(x) & bool(y), _in_type(np.logical_and), _LOGICAL),
    "BAND": _operation("BAND", 0x28, operator.and_, np.bitwise_and, _BITS),
    "LOR": _operation("LOR", 0x31, lambda x, y: bool(x) | bool(y), _in_type(np.logical_or), _LOGICAL),
    "BOR": _operation("BOR", 0x29, operator.or_, np.bitwise_or, _BITS),
    "LXOR": _operation("LXOR", 0x32, lambda x, y: bool(x) ^ bool(y), _in_type(np.logical_xor), _LOGICAL),
    "BXOR": _operation("BXOR", 0x2A, operator.xor, np.bitwise_xor, _BITS),
    "MAXLOC": _operation("MAXLOC", 0x39, _maxloc, _MAXLOC, ("pair",)),
    "MINLOC": _operation("MINLOC", 0x38, _minloc, _MINLOC, ("pair",)),
    "REPLACE": _operation("REPLACE", 0x3C, lambda x, y: y),
    "NO_OP": _operation("NO_OP", 0x3D, lambda x, y: x),
}
"""All predefined operations by the names mpi4py gives them."""
