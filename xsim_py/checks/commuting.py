"""Check of user-defined operations that are declared commutative but are not.

The first few times, the function is called again with its operands exchanged. The program must not notice, so this is
only done if the code of the function has no other effects.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.findings import INVALID_PARAMETER
from xsim_py.mpi4py.inside import impl_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xsim_py.mpi.datatype import Type

    from .monitor import After, Monitor, MpiCall
    from .records import Place

_MOST_TRIED = 3
_MODULES = ("numpy", "math", "operator", "cmath")
_IMPURE = frozenset(("random", "save", "savetxt", "savez", "tofile", "memmap", "seterr", "setflags", "lib", "testing"))
"""Attributes of numpy with side effects or random results."""
_BUILTIN = frozenset(
    (
        *("abs", "all", "any", "bool", "bytes", "complex", "divmod", "enumerate", "float", "int", "isinstance", "len"),
        *("list", "max", "memoryview", "min", "pow", "range", "reversed", "round", "slice", "sorted", "sum", "tuple"),
        *("zip", "ValueError", "TypeError", "AssertionError"),
    )
)
_STORES = ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR", "DELETE_GLOBAL", "DELETE_DEREF", "DELETE_ATTR", "IMPORT_NAME")
_VALUES = (int, float, complex, bool, str, bytes, type(None), np.generic, np.dtype, np.ufunc)
_KINDS = ("integer", "fortran integer", "real", "complex", "logical")


def created(monitor: Monitor, call: MpiCall, cls: object, function: object, commute: bool) -> After | None:
    """Check ``Op.Create``."""
    if not commute or not _changes_nothing_else(function):
        return None
    place, rank = call.place, call.rank.number

    def made(op: object) -> None:
        operation = impl_of(op)
        operation.function = _BothWays(monitor, place, rank, operation.function)

    return made


class _BothWays:
    """A user-defined operation that also tries its first few calls with exchanged operands."""

    def __init__(self, monitor: Monitor, place: Place, rank: int, function: Callable[..., object]) -> None:
        self._monitor = monitor
        self._place = place
        self._rank = rank
        self._function = function
        self._remaining = _MOST_TRIED

    def __call__(self, source: memoryview, target: memoryview, datatype: Type) -> None:
        """Compute target = source op target."""
        if self._remaining and source != target and (dtype := _dtype_of(datatype)) is not None:
            self._remaining -= 1
            other, first = bytearray(source), bytes(target)
            self._function(source, target, datatype)
            self._function(memoryview(first), memoryview(other), datatype)
            self._compare(np.frombuffer(target, dtype), np.frombuffer(other, dtype))
        else:
            self._function(source, target, datatype)

    def _compare(self, one: NDArray[Any], other: NDArray[Any]) -> None:
        rough = np.finfo(one.dtype).resolution * 100 if one.dtype.kind in "fc" else 0
        if not np.allclose(one, other, rtol=rough, atol=rough, equal_nan=True):
            self._remaining = 0
            text = "the operation of Op.Create is declared commutative (commute=True) but is not"
            self._monitor.note(INVALID_PARAMETER, self._place, text, self._rank)


def _dtype_of(datatype: Type) -> np.dtype[Any] | None:
    """Return the numpy type of the elements if they are contiguous numbers; else None."""
    return datatype.dtype if datatype.kind in _KINDS and datatype.is_verbatim else None


def _changes_nothing_else(function: object) -> bool:
    """Return True if a function only changes its arguments, judging by the names it uses."""
    if type(function) is not FunctionType or function.__code__.co_flags & 0x20:  # a generator
        return False
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    if not all(map(_is_harmless, cells)) or any(type(each).__name__ == "code" for each in function.__code__.co_consts):
        return False
    for instruction in dis.get_instructions(function.__code__):
        name = instruction.argval
        if instruction.opname in _STORES or (isinstance(name, str) and name in _IMPURE):
            return False
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            if name not in function.__globals__:
                if name not in _BUILTIN or not hasattr(builtins, name):
                    return False
            elif not _is_harmless(function.__globals__[name]):
                return False
    return True


def _is_harmless(value: object) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] in _MODULES
    return isinstance(value, _VALUES) or (isinstance(value, type) and issubclass(value, np.generic))
