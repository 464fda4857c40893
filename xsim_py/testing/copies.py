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


class _AsItIs(NamedTuple):
    """An object that is kept whole."""

    thing: Any


def _itself(thing: Any) -> Any:
    return thing


def _new(kind: Any, *arguments: Any) -> Any:
    return kind.__new__(kind, *arguments)


def _new_lock() -> Any:
    return threading.Lock()  # the rank's own, rather than a real one


def _new_rlock() -> Any:
    return threading.RLock()


_LOCKS = {type(threading.Lock()): _new_lock, type(threading.RLock()): _new_rlock}


class _Taker(pickle.Pickler):
    """A pickler that keeps shareable and uncopyable objects whole."""

    def __init__(self, file: io.BytesIO, is_private: Callable[[str], bool], shared: Collection[int]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._is_private = is_private
        self._shared = shared
        arrays = sys.modules.get("numpy")
        self._array: Any = None if arrays is None else arrays.ndarray
        self._mapped: Any = () if arrays is None else arrays.memmap
        self.kept: list[Any] = []
        self.uncopied: list[str] = []
        """The classes of uncopied objects, since this was emptied."""

    def persistent_id(self, thing: Any) -> int | None:
        """Keep an object whole and return its number, or None to take it apart; see `pickle`."""
        kind = type(thing)
        if kind in _PLAIN:
            return None
        if kind is _AsItIs:
            thing = thing.thing
        elif not (id(thing) in self._shared or self._stays(thing, kind)):
            return None
        self.kept.append(thing)
        return len(self.kept) - 1

    def _stays(self, thing: Any, kind: type) -> bool:
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
            return deepcopy, (_AsItIs(thing),)  # directly from the existing array
        try:
            how = dispatch_table.get(type(thing))
            made: Any = thing.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if how is None else how(thing)
        except Exception:  # of any class
            return self.otherwise(thing)
        if isinstance(made, str):
            return made if _is_found(thing, made) else (_itself, (_AsItIs(thing),))
        if made[0] is newobj and thing.__class__ is not type(thing):  # as of mocks; `pickle` rejects that
            return _new, *made[1:]
        return made

    def otherwise(self, thing: Any) -> Any:
        """Return the reconstruction of an object that cannot be taken apart."""
        try:
            deepcopy(thing)
        except Exception:
            self.uncopied.append(type(thing).__name__)
            return _itself, (_AsItIs(thing),)
        return deepcopy, (_AsItIs(thing),)


def _is_found(thing: Any, names: str) -> bool:
    """Return True if an object is found by name in its module, as each rank's own will be."""
    try:
        return reduce(getattr, names.split("."), sys.modules[thing.__module__]) is thing
    except (AttributeError, KeyError):
        return False


class _Maker(pickle.Unpickler):
    def __init__(self, text: bytes, kept: list[Any]) -> None:
        super().__init__(io.BytesIO(text))
        self._kept = kept

    def persistent_load(self, number: int) -> Any:
        """Return the object kept under that number, for `pickle.Unpickler`."""
        return self._kept[number]


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
        whole: set[Any] = set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # iterators of `itertools`
            while (failed := self._take(values, is_private, set(map(id, shared)), whole)) is not None:
                whole.add(failed)

    def _take(self, values: Mapping[Any, Any], is_private: Any, shared: set[int], whole: set[Any]) -> Any:
        """Take the values apart; return the name of one that cannot be taken apart or reconstructed."""
        file = io.BytesIO()
        taker = _Taker(file, is_private, shared)
        self.uncopied.clear()
        for name, value in values.items():
            try:
                taker.dump(_Otherwise(taker, value) if name in whole else value)
            except Exception:  # including exceptions of the program's classes
                return name
            if taker.uncopied:
                self.uncopied[name], taker.uncopied = taker.uncopied, []
        self._text, self._kept = file.getvalue(), taker.kept
        return self._try(whole)

    def _try(self, whole: set[Any]) -> Any:
        """Make the copies once, as a check."""
        maker = _Maker(self._text, self._kept)
        for name in self._names:
            try:
                maker.load()
            except Exception:
                if name in whole:
                    raise
                return name
        return None

    def get(self) -> dict[Any, Any]:
        """Make the copies for the running rank."""
        maker = _Maker(self._text, self._kept)
        return {name: maker.load() for name in self._names}


class _Otherwise:
    """A value that `pickle` could not take apart completely."""

    def __init__(self, taker: _Taker, value: Any) -> None:
        self._how = taker, value

    def __reduce__(self) -> Any:
        taker, value = self._how
        return taker.otherwise(value)
