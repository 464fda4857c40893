"""Reductions of objects that are computed for all ranks at once: the predefined operations on objects of some kinds.

Whoever combines two objects of one kind runs no code of the program, and gets no error and no warning: neither may come
at a rank's own time from what is computed for all when the last one has come. Whatever else a program combines goes
message by message: other objects have methods of their own, and of numbers some sums are too large.
"""

from __future__ import annotations

import copyreg
import operator
from collections.abc import Sequence
from pickle import HIGHEST_PROTOCOL, dumps, loads
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from xsim_py.mpi.collectives.trees import senders_up

from .op import INSTANCES, Op
from .pickling import dump, is_usual

__all__ = ["PredefinedFold", "fold_of_objects", "is_plain", "pickles_as_usual"]

_PYTHON = (type(None), bool, int, float, complex, str, bytes)
_NUMPY = tuple(np.dtype(code).type for code in "?bhilqBHILQefdFD")
_IMMUTABLE = frozenset((*_PYTHON, *_NUMPY))
"""Of which nobody can change one, or tell one from an equal one."""

_REGISTRABLE = frozenset((*_NUMPY, np.ndarray))
"""Which Python's pickler asks `copyreg` about, as it does about complex numbers."""

_CONTAINERS = frozenset((list, tuple))
_MOST_LEVELS = 4
_MOST_ITEMS = 1 << 16
_MOST_BITS_OF_INDEX = 62
_MOST_BITS = 512  # of an integer, so that it is a float, too, and so are sums of many

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
"""What objects of a type are for an operation. Those that are the same can be combined."""


def pickles_as_usual() -> bool:
    """Return whether nobody has told Python to pickle numbers and arrays otherwise: no code of a program runs then."""
    registered = copyreg.dispatch_table
    return (
        is_usual() and _REGISTRABLE.isdisjoint(registered) and registered.get(complex) is copyreg.pickle_complex  # type: ignore[attr-defined]
    )


class PredefinedFold:
    """A predefined operation; see `mpi.batched.pending`."""

    __slots__ = ("_function", "name")

    def __init__(self, op: Op) -> None:
        self.name = op._impl.name
        self._function = op._impl.python

    def kind(self, obj: Any, ranks: int) -> Any:
        """Return what has to be the same at all of so many ranks; None where it goes message by message."""
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

    def _of_numpy(self, obj: Any, ranks: int) -> Any:
        """Return `kind` of what numpy combines, which may warn where a number becomes too large, or is none."""
        form, array, name = obj.dtype.kind, obj.ndim > 0, self.name
        if form not in "biufc" or not obj.size:  # the strides of nothing are others when it is unpickled
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
        """Reduce to rank 0; the twin of `object_plans._reduce_to`, for all ranks at once."""
        function = self._function
        objects = [loads(data) for data in pickles]
        sent = []
        for distance, rank in senders_up(len(objects)):
            data = dumps(objects[rank], HIGHEST_PROTOCOL)
            objects[rank - distance] = function(objects[rank - distance], loads(data))
            sent.append(data)
        return [*sent, dumps(objects[0], HIGHEST_PROTOCOL)]

    def across(self, pickles: Sequence[bytes], exclusive: bool) -> tuple[list[list[bytes]], list[bytes]]:
        """Scan; the twin of `object_plans._scan`, with one pickle for all that have the same."""
        function = self._function
        totals = [loads(data) for data in pickles]
        taken: list[Any] = [None] * len(pickles) if exclusive else list(totals)
        levels = []
        while len(totals) > 1:
            level = [dumps(total, HIGHEST_PROTOCOL) for total in totals]
            width = len(pickles) // len(totals)
            for rank in range(len(pickles)):
                if rank & width:
                    lower = totals[rank // width - 1]
                    taken[rank] = lower if exclusive and not rank & (width - 1) else function(lower, taken[rank])
            totals = [function(totals[i], loads(level[i + 1])) for i in range(0, len(totals), 2)]
            levels.append(level)
        return levels, [dumps(each, HIGHEST_PROTOCOL) for each in taken]


def _sums_fit(obj: Any, ranks: int) -> bool:
    """Return whether no sum of so many of these is too large for its type."""
    form, parts = obj.dtype, (obj.real, obj.imag) if obj.dtype.kind == "c" else (obj,)
    if form.kind == "b":
        return True
    most = int(np.iinfo(form).max) if form.kind in "iu" else float(np.finfo(form).max)
    return all(max(abs(part.max().item()), abs(part.min().item())) < most / (2 * ranks) for part in parts)


def _is_number(obj: Any) -> bool:
    """Return whether an object can be compared with all others of which that is said."""
    kind = type(obj)
    if kind is int:
        return obj.bit_length() <= _MOST_BITS_OF_INDEX  # type: ignore[no-any-return]
    return kind is float or kind is bool or kind is np.int64 or (kind is np.float64 and bool(np.isfinite(obj)))


def is_plain(obj: Any, containers: frozenset[type] = _CONTAINERS) -> bool:
    """Return whether an object is one that nobody can change, or such ones in a few levels of `containers`."""
    if type(obj) in _IMMUTABLE:
        return True
    if type(obj) not in containers:
        return False
    level, items = [obj], 0
    for _ in range(_MOST_LEVELS):
        inner: list[Any] = []
        for each in level:
            items += len(each)  # an object may be in many places, and a container in itself
            kinds = set(map(type, each)) - _IMMUTABLE
            if kinds - containers or items > _MOST_ITEMS:
                return False
            if kinds:
                inner += [item for item in each if type(item) in containers]
        if not inner:
            return True
        level = inner
    return False


_PYTHONS: dict[Any, str] = {
    operator.add: "SUM",
    operator.mul: "PROD",
    operator.and_: "BAND",
    operator.or_: "BOR",
    operator.xor: "BXOR",
    max: "MAX",
    min: "MIN",
}
"""Functions of Python that do what an operation does."""

_FOLDS = {name: PredefinedFold(op) for name, op in INSTANCES.items() if name != "OP_NULL"}


def fold_of_objects(op: Any) -> PredefinedFold | None:
    """How to compute an operation for all ranks; None where the program's own code would run."""
    if not pickles_as_usual():
        return None
    if type(op) is Op:
        return _FOLDS.get(op._impl.name) if op._impl.function is None else None
    return _FOLDS.get(_PYTHONS.get(op, "")) if type(op) is BuiltinFunctionType else None
