"""Object reductions computed for all ranks at once: predefined operations on some kinds.

Combining two objects of one kind must run no program code and raise no error or warning: at a rank's own time, neither
can come from a result computed for all ranks when the last one enters. Everything else is simulated individually: other
objects have their own methods, and some sums of numbers overflow.
"""

from __future__ import annotations

import copyreg
import operator
from collections.abc import Hashable, Sequence
from pickle import HIGHEST_PROTOCOL, dumps, loads
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.mpi.collectives.trees import senders_up

from .inside import impl_of
from .op import INSTANCES, Op
from .pickling import dump, is_default

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PredefinedFold", "fold_of_objects", "is_plain", "pickles_by_default"]

_PYTHON = (type(None), bool, int, float, complex, str, bytes)
_NUMPY = tuple(np.dtype(code).type for code in "?bhilqBHILQefdFD")
_IMMUTABLE = frozenset((*_PYTHON, *_NUMPY))
"""Immutable types whose equal objects are indistinguishable."""

_REGISTRABLE = frozenset((*_NUMPY, np.ndarray))
"""Types for which Python's pickler consults `copyreg`, as it does for complex numbers."""

_CONTAINERS = frozenset((list, tuple))
_MOST_LEVELS = 4
_MOST_ITEMS = 1 << 16
_MOST_BITS_OF_INDEX = 62
_MOST_BITS = 512  # of an integer that converts to float, as do sums of many

_LOGICAL = frozenset(("LAND", "LOR", "LXOR"))
_BITS = frozenset(("BAND", "BOR", "BXOR"))
_ORDER = frozenset(("MAX", "MIN"))
_LOCATED = frozenset(("MAXLOC", "MINLOC"))
_EITHER = frozenset(("REPLACE", "NO_OP"))
_OF_PYTHON: dict[type, dict[str, frozenset[str]]] = {
    bool: {"number": _ORDER | {"SUM"}, "integer": _BITS | {"PROD"}},
    int: {"number": _ORDER | {"SUM"}, "integer": _BITS | {"PROD"}},
    float: {"number": _ORDER | {"SUM"}, "float": frozenset(("PROD",))},
    complex: {"complex": frozenset(("SUM", "PROD"))},
    str: {"str": _ORDER | {"SUM"}},
    bytes: {"bytes": _ORDER | {"SUM"}},
    list: {"list": frozenset(("SUM",))},
    tuple: {"tuple": frozenset(("SUM",))},
}
_KINDS = {(of, name): kind for of, kinds in _OF_PYTHON.items() for kind, names in kinds.items() for name in names}
"""The kind of an object type for an operation. Objects of equal kinds can be combined."""


def pickles_by_default() -> bool:
    """Return True if pickling of numbers and arrays is not customised.

    Then it runs no program code.
    """
    registered = copyreg.dispatch_table
    return (
        is_default() and _REGISTRABLE.isdisjoint(registered) and registered.get(complex) is copyreg.pickle_complex  # type: ignore[attr-defined]
    )


class PredefinedFold:
    """A predefined operation; see `mpi.batched.pending`."""

    __slots__ = ("_function", "name")

    def __init__(self, op: Op) -> None:
        self.name = impl_of(op).name
        self._function = impl_of(op).python

    def kind(self, obj: Any, ranks: int) -> Hashable:
        """Return the kind that must be equal on all `ranks`.

        If it is None, the messages are simulated individually.
        """
        of, name = type(obj), self.name
        found = _KINDS.get((of, name))
        if found is not None:
            if of is float or (of is int and (found == "integer" or obj.bit_length() <= _MOST_BITS)):
                return found
            return found if of is not int and is_plain(obj) else None
        if name in _LOCATED:
            return "pair" if of in _CONTAINERS and len(obj) == 2 and all(map(_is_number, obj)) else None
        if (name in _LOGICAL or name in _EITHER) and is_plain(obj):
            return "plain"
        return self._of_numpy(obj, ranks) if of is np.ndarray or of in _NUMPY else None

    def _of_numpy(self, obj: NDArray[Any] | np.generic, ranks: int) -> object:
        """Return the `kind` of a numpy object, whose combination may warn of an overflow or NaN."""
        form, array, name = obj.dtype.kind, obj.ndim > 0, self.name
        if form not in "biufc" or not obj.size:  # strides of empty arrays change when unpickled
            return None
        if name == "SUM":
            fits = (array and form in "biu") or _sums_fit(obj, ranks)
        elif name in _BITS:
            fits = form in "biu"
        elif name == "PROD":
            fits = array and form in "biu"
        elif name in _ORDER:
            fits = not array and (form in "biu" or (form == "f" and bool(np.isfinite(obj))))
        else:
            fits = name in _EITHER
        return (array, obj.dtype.str, obj.shape) if fits else None

    packed = staticmethod(dump)

    def up(self, pickles: Sequence[bytes]) -> list[bytes]:
        """Reduce to rank 0; the counterpart of `object_plans._reduce_to`, for all ranks at once."""
        function = self._function
        objects = [loads(data) for data in pickles]
        sent = []
        for distance, rank in senders_up(len(objects)):
            data = dumps(objects[rank], HIGHEST_PROTOCOL)
            objects[rank - distance] = function(objects[rank - distance], loads(data))
            sent.append(data)
        return [*sent, dumps(objects[0], HIGHEST_PROTOCOL)]

    def across(self, pickles: Sequence[bytes], exclusive: bool) -> tuple[list[list[bytes]], list[bytes]]:
        """Scan; the counterpart of `object_plans._scan`.

        All ranks with the same object share one pickle.
        """
        function = self._function
        totals = [loads(data) for data in pickles]
        results: list[Any] = [None] * len(pickles) if exclusive else list(totals)
        levels = []
        while len(totals) > 1:
            level = [dumps(total, HIGHEST_PROTOCOL) for total in totals]
            width = len(pickles) // len(totals)
            for rank in range(len(pickles)):
                if rank & width:
                    lower = totals[rank // width - 1]
                    results[rank] = lower if exclusive and not rank & (width - 1) else function(lower, results[rank])
            totals = [function(totals[i], loads(level[i + 1])) for i in range(0, len(totals), 2)]
            levels.append(level)
        return levels, [dumps(each, HIGHEST_PROTOCOL) for each in results]


def _sums_fit(obj: NDArray[Any] | np.generic, ranks: int) -> bool:
    """Return True if no sum of `ranks` such values overflows its type."""
    form, parts = obj.dtype, (obj.real, obj.imag) if obj.dtype.kind == "c" else (obj,)
    if form.kind == "b":
        return True
    most = int(np.iinfo(form).max) if form.kind in "iu" else float(np.finfo(form).max)
    return all(max(abs(part.max().item()), abs(part.min().item())) < most / (2 * ranks) for part in parts)


def _is_number(obj: Any) -> bool:
    """Return True if an object can be compared with all others for which this returns True."""
    kind = type(obj)
    if kind is int:
        return obj.bit_length() <= _MOST_BITS_OF_INDEX  # type: ignore[no-any-return]
    return kind is float or kind is bool or kind is np.int64 or (kind is np.float64 and bool(np.isfinite(obj)))


def is_plain(obj: Any, containers: frozenset[type] = _CONTAINERS) -> bool:
    """Return True if an object is immutable, or consists of immutable objects.

    They may be in a few levels of `containers`.
    """
    if type(obj) in _IMMUTABLE:
        return True
    if type(obj) not in containers:
        return False
    level, items = [obj], 0
    for _ in range(_MOST_LEVELS):
        inner: list[Any] = []
        for each in level:
            items += len(each)  # an object may occur repeatedly, and a container in itself
            kinds = set(map(type, each)) - _IMMUTABLE
            if kinds - containers or items > _MOST_ITEMS:
                return False
            if kinds:
                inner += [item for item in each if type(item) in containers]
        if not inner:
            return True
        level = inner
    return False


_PYTHON_OPERATORS: dict[Any, str] = {
    operator.add: "SUM",
    operator.mul: "PROD",
    operator.and_: "BAND",
    operator.or_: "BOR",
    operator.xor: "BXOR",
    max: "MAX",
    min: "MIN",
}
"""Python functions equivalent to a predefined operation."""

_FOLDS = {name: PredefinedFold(op) for name, op in INSTANCES.items() if name != "OP_NULL"}


def fold_of_objects(op: object) -> PredefinedFold | None:
    """Return how to compute an operation for all ranks; None if program code would run."""
    if not pickles_by_default():
        return None
    if type(op) is Op:
        return _FOLDS.get(impl_of(op).name) if impl_of(op).function is None else None
    return _FOLDS.get(_PYTHON_OPERATORS.get(op, "")) if type(op) is BuiltinFunctionType else None
