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


def is_of_mpi(value: Any) -> bool:
    """Return True if an object belongs to mpi4py: a module, a class, a communicator."""
    if isinstance(value, ModuleType):
        return value.__name__.removeprefix("xsim_py.").partition(".")[0] == _MPI
    return _package(value if isinstance(value, type) else type(value)) == _MPI


def _package(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]


class _Reference(NamedTuple):
    """An object that is kept whole."""

    thing: Any


def _identity(thing: Any) -> Any:
    return thing


def _new(kind: Any, *arguments: Any) -> Any:
    return kind.__new__(kind, *arguments)


def _new_lock() -> Any:
    return threading.Lock()  # the rank's own, rather than a real one


def _new_rlock() -> Any:
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

    def persistent_id(self, thing: Any) -> int | None:
        """Keep an object whole and return its number, or None to take it apart; see `pickle`."""
        kind = type(thing)
        if kind in _PLAIN:
            return None
        if kind is _Reference:
            thing = thing.thing
        elif not (id(thing) in self._shared or self._is_shareable(thing, kind)):
            return None
        self.references.append(thing)
        return len(self.references) - 1

    def _is_shareable(self, thing: Any, kind: type) -> bool:
        """Return True if ranks may share an object: it is immutable or belongs to pytest."""
        if isinstance(thing, type | FunctionType):
            return not (self._is_private(str(thing.__module__)) and _is_found(thing, thing.__qualname__))
        if isinstance(thing, ModuleType):
            return not self._is_private(thing.__name__)
        if isinstance(thing, BuiltinFunctionType):
            return isinstance(thing.__self__, ModuleType | type | None)
        if self._array is not None and isinstance(thing, self._array):
            return isinstance(thing, self._mapped) or not (thing.flags.writeable or thing.dtype.hasobject)
        return kind in _SAME_FOR_ALL or _package(kind) in _OF_PYTEST or is_of_mpi(thing)

    def reducer_override(self, thing: Any) -> Any:
        """Return the reconstruction of an object not found by name; see `pickle.Pickler`."""
        if isinstance(thing, type | FunctionType):
            return NotImplemented
        if isinstance(thing, ModuleType):
            return import_module, (thing.__name__,)
        if type(thing) in _LOCKS:
            return _LOCKS[type(thing)], ()
        if type(thing) is MappingProxyType:
            return MappingProxyType, (dict(thing),)
        if type(thing) is self._array and not thing.dtype.hasobject:
            return deepcopy, (_Reference(thing),)  # directly from the existing array
        try:
            how = dispatch_table.get(type(thing))
            made: Any = thing.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if how is None else how(thing)
        except Exception:  # of any class
            return self.by_deepcopy(thing)
        if isinstance(made, str):
            return made if _is_found(thing, made) else (_identity, (_Reference(thing),))
        if made[0] is newobj and thing.__class__ is not type(thing):  # as of mocks; `pickle` rejects that
            return _new, *made[1:]
        return made

    def by_deepcopy(self, thing: Any) -> Any:
        """Return the reconstruction of an object that cannot be taken apart."""
        try:
            deepcopy(thing)
        except Exception:
            self.uncopied.append(type(thing).__name__)
            return _identity, (_Reference(thing),)
        return deepcopy, (_Reference(thing),)


def _is_found(thing: Any, names: str) -> bool:
    """Return True if an object is found by name in its module, as each rank's own will be."""
    try:
        return reduce(getattr, names.split("."), sys.modules[thing.__module__]) is thing
    except (AttributeError, KeyError):
        return False


class _RankUnpickler(pickle.Unpickler):
    def __init__(self, text: bytes, references: list[Any]) -> None:
        super().__init__(io.BytesIO(text))
        self._references = references

    def persistent_load(self, number: int) -> Any:
        """Return the object kept under that number, for `pickle.Unpickler`."""
        return self._references[number]


class Copies:
    """Values by name, of which each rank gets its own copies if possible.

    Parameters
    ----------
    values : mapping
        The values, by name.
    is_private : callable
        Returns True if each rank has its own module of this name.
    shared : collection
        Objects that ranks share without a warning.

    Attributes
    ----------
    uncopied : dict
        Classes of shared objects, by the name of the value that contains them.
    """

    def __init__(
        self, values: Mapping[Any, Any], is_private: Callable[[str], bool], shared: Collection[Any] = ()
    ) -> None:
        self._names = list(values)
        self.uncopied: dict[Any, list[str]] = {}
        deepcopied: set[Any] = set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # iterators of `itertools`
            while (failed := self._pickle(values, is_private, set(map(id, shared)), deepcopied)) is not None:
                deepcopied.add(failed)

    def _pickle(self, values: Mapping[Any, Any], is_private: Any, shared: set[int], deepcopied: set[Any]) -> Any:
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

    def _check(self, deepcopied: set[Any]) -> Any:
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

    def __init__(self, pickler: _RankPickler, value: Any) -> None:
        self._how = pickler, value

    def __reduce__(self) -> Any:
        pickler, value = self._how
        return pickler.by_deepcopy(value)
