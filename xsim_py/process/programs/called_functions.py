"""Arguments and return values of a simulated function, passed as if its ranks were processes.

Each rank looks up what pickle can name: a function at the top level of a module of the program is the one in the rank's
private copy of the module, as in processes started for it. A closure, a lambda, or a function of ``__main__`` or of a
notebook has no such name: all ranks call the same one and share its globals.

Arguments are passed as they are, unless they contain objects of private modules: those would not be instances of the
rank's own classes, so each rank gets a copy. Return values are treated the same way in reverse.

Callers that need more control over what goes into ranks, such as a test with its fixtures, pass a `FoundInRanks`.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from pickle import dumps, loads  # imported before a program can replace them
from types import FunctionType, MethodType
from typing import Any

from xsim_py.errors import ConfigError, XsimError

_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes, list, dict, tuple, set, frozenset))
_CALLS = (partial, MethodType)  # their contents are examined


class FoundInRanks:
    """A program that looks up in each rank what it calls of the rank's private modules."""

    home: Path
    """The modules below this directory are private."""
    again: bool = True
    """Whether ranks import modules from where the host imported them; otherwise they search for them again."""

    def hand_over(self, is_private: Callable[[str], bool]) -> None:
        """Save objects of which ranks get copies; afterwards private modules are those of ranks."""
        raise NotImplementedError

    def __call__(self) -> object:
        """Run the program in a rank."""
        raise NotImplementedError


class _Search(pickle.Pickler):
    """A pickler of containers and objects of private modules; it keeps all other objects as they are."""

    def __init__(self, file: io.BytesIO, is_private: Callable[[str], bool]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._is_private = is_private
        self.kept: list[Any] = []
        self.found = False

    def persistent_id(self, thing: object) -> int | None:
        """Return the number of an object kept as it is, or None to have it pickled; see `pickle.Pickler`."""
        kind = type(thing)
        if kind in _PLAIN:
            return None
        module = (thing if isinstance(thing, type | FunctionType) else kind).__module__
        if self._is_private(module):
            self.found = True
            return None
        if kind in _CALLS:
            return None
        self.kept.append(thing)
        return len(self.kept) - 1


class _Finder(pickle.Unpickler):
    def __init__(self, copy: Copy) -> None:
        super().__init__(io.BytesIO(copy.text))
        self._kept = copy.kept

    def persistent_load(self, number: int) -> object:
        """Return the kept object with that number, for `pickle.Unpickler`."""
        return self._kept[number]


class Copy:
    """A value of which each rank gets a copy that uses the rank's own classes and functions."""

    __slots__ = ("kept", "text")

    def __init__(self, text: bytes, kept: list[Any]) -> None:
        self.text = text
        self.kept = kept

    def get(self) -> Any:
        """Return a new copy, in the current rank or host."""
        return _Finder(self).load()


def copy_of(thing: object, is_private: Callable[[str], bool]) -> Copy | None:
    """Return a `Copy` of an object that involves private modules; None if it does not, or cannot be copied.

    `is_private` takes a module's name.
    """
    file = io.BytesIO()
    search = _Search(file, is_private)
    try:
        search.dump(thing)
    except Exception:  # includes any exception from the program's own classes
        return None
    return Copy(file.getvalue(), search.kept) if search.found else None


def restore_copies(result: Any) -> None:
    """Replace copies among the returned values by objects of the host's own classes.

    Raises an `XsimError` if the host cannot import a value's class.
    """
    values = [] if result is None else result.values
    for rank, value in enumerate(values):
        if type(value) is Copy:
            try:
                values[rank] = value.get()
            except Exception as error:
                raise XsimError(f"the value that rank {rank} has returned: {type(error).__name__}: {error}") from None


def pack(parts: Iterable[Any], leaves: str) -> None:
    """Pickle the values returned by a function on each rank before they leave the rank's process.

    Each of the parts has ``values``, from rank ``first`` on. `leaves` is the option by which the user put ranks into
    several processes; if it is empty, values are not pickled. Raises a `ConfigError` if a value cannot be pickled.
    """
    _through(dumps, parts, leaves)


def unpack(parts: Iterable[Any], leaves: str) -> None:
    """Unpickle values pickled by `pack`."""
    _through(loads, parts, leaves)


def _through(function: Callable[[Any], Any], parts: Iterable[Any], leaves: str) -> None:
    for part in parts if leaves else ():
        part.values = [
            _through_pickle(function, rank, value, leaves) for rank, value in enumerate(part.values, part.first)
        ]


def _through_pickle(function: Callable[[Any], Any], rank: int, value: object, leaves: str) -> object:
    try:
        return function(value)
    except Exception as error:  # from a class of the program
        raise ConfigError(
            f"{leaves}: what the function returned on rank {rank} cannot leave its process: {error}; return what can"
            f" be pickled, or drop {leaves}"
        ) from None
