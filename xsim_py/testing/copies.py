"""Copies for each rank of objects that fixtures created outside, if they can be copied.

Objects are taken apart as by `pickle`, so that instances of the program's classes become instances of the rank's own
classes, and objects shared by two fixtures stay shared. If `pickle` fails, `copy.deepcopy` is tried. Objects that
neither can copy (a generator, an open file, a socket) are shared by all ranks, and reported.
"""

from __future__ import annotations

import io
import pickle
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from copyreg import __newobj__ as newobj  # type: ignore[attr-defined]
from copyreg import dispatch_table
from functools import reduce
from importlib import import_module
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, NamedTuple

_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes, bytearray, list, dict, tuple, set, frozenset))
_SAME_FOR_ALL = (object, CodeType, property, weakref.ref)  # of exactly these types, as in `copy.deepcopy`
_OF_PYTEST = ("_pytest", "pytest", "pluggy")
_MPI = "mpi4py"


def is_of_mpi(value: object) -> bool:
    """Return True if an object belongs to mpi4py: a module, a class, a communicator."""
    if isinstance(value, ModuleType):
        return value.__name__.removeprefix("xsim_py.").partition(".")[0] == _MPI
    return _package(value if isinstance(value, type) else type(value)) == _MPI


def _package(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]


class _Reference(NamedTuple):
    """An object that is kept whole."""

    obj: Any


def _identity(obj: object) -> object:
    return obj


def _new(kind: type, *arguments: object) -> object:
    return kind.__new__(kind, *arguments)


def _new_lock() -> object:
    return threading.Lock()  # the rank's own, rather than a real one


def _new_rlock() -> object:
    return threading.RLock()


_LOCKS = {type(threading.Lock()): _new_lock, type(threading.RLock()): _new_rlock}


class _RankPickler(pickle.Pickler):
    """A pickler that keeps shareable and uncopyable objects whole."""

    def __init__(self, file: io.BytesIO, is_private: Callable[[str], bool], shared: Collection[int]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._is_private = is_private
        self._shared = shared
        arrays = sys.modules.get("numpy")
        self._array: Any = None if arrays is None else arrays.ndarray
        self._mapped: Any = () if arrays is None else arrays.memmap
        self.references: list[Any] = []
        self.uncopied: list[str] = []
        """The classes of uncopied objects, since this was emptied."""

    def persistent_id(self, obj: Any) -> int | None:
        """Keep an object whole and return its number, or None to take it apart; see `pickle`."""
        kind = type(obj)
        if kind in _PLAIN:
            return None
        if kind is _Reference:
            obj = obj.obj
        elif not (id(obj) in self._shared or self._is_shareable(obj, kind)):
            return None
        self.references.append(obj)
        return len(self.references) - 1

    def _is_shareable(self, obj: object, kind: type) -> bool:
        """Return True if ranks may share an object: it is immutable or belongs to pytest."""
        if isinstance(obj, type | FunctionType):
            return not (self._is_private(str(obj.__module__)) and _is_found(obj, obj.__qualname__))
        if isinstance(obj, ModuleType):
            return not self._is_private(obj.__name__)
        if isinstance(obj, BuiltinFunctionType):
            return isinstance(obj.__self__, ModuleType | type | None)
        if self._array is not None and isinstance(obj, self._array):
            return isinstance(obj, self._mapped) or not (obj.flags.writeable or obj.dtype.hasobject)
        return kind in _SAME_FOR_ALL or _package(kind) in _OF_PYTEST or is_of_mpi(obj)

    def reducer_override(self, obj: Any) -> Any:
        """Return the reconstruction of an object not found by name; see `pickle.Pickler`."""
        if isinstance(obj, type | FunctionType):
            return NotImplemented
        if isinstance(obj, ModuleType):
            return import_module, (obj.__name__,)
        if type(obj) in _LOCKS:
            return _LOCKS[type(obj)], ()
        if type(obj) is MappingProxyType:
            return MappingProxyType, (dict(obj),)
        if type(obj) is self._array and not obj.dtype.hasobject:
            return deepcopy, (_Reference(obj),)  # directly from the existing array
        try:
            how = dispatch_table.get(type(obj))
            made: Any = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if how is None else how(obj)
        except Exception:  # of any class
            return self.by_deepcopy(obj)
        if isinstance(made, str):
            return made if _is_found(obj, made) else (_identity, (_Reference(obj),))
        if made[0] is newobj and obj.__class__ is not type(obj):  # as of mocks; `pickle` rejects that
            return _new, *made[1:]
        return made

    def by_deepcopy(self, obj: object) -> object:
        """Return the reconstruction of an object that cannot be taken apart."""
        try:
            deepcopy(obj)
        except Exception:
            self.uncopied.append(type(obj).__name__)
            return _identity, (_Reference(obj),)
        return deepcopy, (_Reference(obj),)


def _is_found(obj: object, names: str) -> bool:
    """Return True if an object is found by name in its module, as each rank's own will be."""
    try:
        return reduce(getattr, names.split("."), sys.modules[obj.__module__]) is obj
    except (AttributeError, KeyError):
        return False


class _RankUnpickler(pickle.Unpickler):
    def __init__(self, text: bytes, references: list[Any]) -> None:
        super().__init__(io.BytesIO(text))
        self._references = references

    def persistent_load(self, number: int) -> object:
        """Return the object kept under that number, for `pickle.Unpickler`."""
        return self._references[number]


class Copies:
    """Values by name, of which each rank gets its own copies if possible.

    `is_private` returns True if each rank has its own module of a given name. Ranks share the `shared` objects without
    a warning.
    """

    def __init__(
        self, values: Mapping[Any, Any], is_private: Callable[[str], bool], shared: Collection[Any] = ()
    ) -> None:
        self._names = list(values)
        # Classes of shared objects, by the name of the value that contains them.
        self.uncopied: dict[Any, list[str]] = {}
        deepcopied: set[Any] = set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # iterators of `itertools`
            while (failed := self._pickle(values, is_private, set(map(id, shared)), deepcopied)) is not None:
                deepcopied.add(failed)

    def _pickle(
        self, values: Mapping[Any, Any], is_private: Callable[[str], bool], shared: set[int], deepcopied: set[Any]
    ) -> object:
        """Take the values apart; return the name of one that cannot be taken apart or reconstructed."""
        file = io.BytesIO()
        pickler = _RankPickler(file, is_private, shared)
        self.uncopied.clear()
        for name, value in values.items():
            try:
                pickler.dump(_ByDeepcopy(pickler, value) if name in deepcopied else value)
            except Exception:  # including exceptions of the program's classes
                return name
            if pickler.uncopied:
                self.uncopied[name], pickler.uncopied = pickler.uncopied, []
        self._text, self._references = file.getvalue(), pickler.references
        return self._check(deepcopied)

    def _check(self, deepcopied: set[Any]) -> object:
        """Make the copies once, as a check."""
        unpickler = _RankUnpickler(self._text, self._references)
        for name in self._names:
            try:
                unpickler.load()
            except Exception:
                if name in deepcopied:
                    raise
                return name
        return None

    def get(self) -> dict[Any, Any]:
        """Make the copies for the running rank."""
        unpickler = _RankUnpickler(self._text, self._references)
        return {name: unpickler.load() for name in self._names}


class _ByDeepcopy:
    """A value that `pickle` could not take apart completely."""

    def __init__(self, pickler: _RankPickler, value: object) -> None:
        self._how = pickler, value

    def __reduce__(self) -> Any:
        pickler, value = self._how
        return pickler.by_deepcopy(value)
