"""A function that is simulated gets its arguments, and gives its value back, as processes of its ranks would have it.

What pickle can name, each rank finds for itself: a function at the top level of a module of the program is that of the
rank's own copy of the module, as in processes that were started for it. A closure, a lambda, or a function of
``__main__`` or of a notebook has no such name: all ranks call the one that there is, whose globals they share.

Arguments are handed over as they are, unless there are objects of private modules in them: those would not be instances
of the rank's own classes, so each rank gets a copy. For values that ranks return it is the other way round.

Who has more to say of what goes into ranks, as a test with its fixtures, gives a `FoundInRanks`.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from pickle import dumps, loads  # as they are before a program puts others there
from types import FunctionType, MethodType
from typing import Any

from xsim_py.errors import ConfigError, XsimError

_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes, list, dict, tuple, set, frozenset))
_CALLS = (partial, MethodType)  # what they hold counts


class FoundInRanks:
    """A program that finds for itself, in each rank, what it calls of the rank's own modules.

    Attributes
    ----------
    home : Path
        The modules below this folder are private.
    again : bool
        Whether ranks import what their host has imported from where that came; else they look for it anew.
    """

    home: Path
    again: bool = True

    def hand_over(self, is_private: Callable[[str], bool]) -> None:
        """Keep what ranks are to have copies of; afterwards private modules are those of ranks."""
        raise NotImplementedError

    def __call__(self) -> Any:
        """Run in a rank."""
        raise NotImplementedError


class _Search(pickle.Pickler):
    """Pickles what private modules have to do with, and containers; the rest it keeps as it is."""

    def __init__(self, file: io.BytesIO, is_private: Callable[[str], bool]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._is_private = is_private
        self.kept: list[Any] = []
        self.found = False

    def persistent_id(self, thing: Any) -> int | None:
        """Keep an object as it is and return its number, or return None to have it pickled; see `pickle.Pickler`."""
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

    def persistent_load(self, number: int) -> Any:
        """Return the object that was kept at that place, as `pickle.Unpickler` asks for it."""
        return self._kept[number]


class Copy:
    """A value of which each rank gets a copy, with the rank's own classes and functions of the same names."""

    __slots__ = ("kept", "text")

    def __init__(self, text: bytes, kept: list[Any]) -> None:
        self.text = text
        self.kept = kept

    def get(self) -> Any:
        """Make one more copy, here."""
        return _Finder(self).load()


def copy_of(thing: Any, is_private: Callable[[str], bool]) -> Copy | None:
    """Return copies of something that has to do with private modules; None if it has not, or cannot be copied.

    Parameters
    ----------
    thing : object
        Anything.
    is_private : callable
        Whether a module of this name is private.
    """
    file = io.BytesIO()
    search = _Search(file, is_private)
    try:
        search.dump(thing)
    except Exception:  # whatever the program's own classes raise, too
        return None
    return Copy(file.getvalue(), search.kept) if search.found else None


def given_back(result: Any) -> None:
    """Replace copies among what ranks have returned by objects of their host's own classes.

    Raises
    ------
    XsimError
        One is of a class that the host cannot import.
    """
    values = [] if result is None else result.values
    for rank, value in enumerate(values):
        if type(value) is Copy:
            try:
                values[rank] = value.get()
            except Exception as error:
                raise XsimError(f"the value that rank {rank} has returned: {type(error).__name__}: {error}") from None


def pack(parts: Iterable[Any], leaves: str) -> None:
    """Pickle what a function has returned on each rank, where it leaves their process.

    Parameters
    ----------
    parts : iterable
        Each has ``values``, from rank ``first`` on.
    leaves : str
        What has put ranks into several processes, as the user has named it; if nothing has, all stays as it is.

    Raises
    ------
    ConfigError
        A value cannot be pickled.
    """
    _through(dumps, parts, leaves)


def unpack(parts: Iterable[Any], leaves: str) -> None:
    """Unpickle what `pack` has pickled."""
    _through(loads, parts, leaves)


def _through(function: Callable[[Any], Any], parts: Iterable[Any], leaves: str) -> None:
    for part in parts if leaves else ():
        part.values = [
            _through_pickle(function, rank, value, leaves) for rank, value in enumerate(part.values, part.first)
        ]


def _through_pickle(function: Callable[[Any], Any], rank: int, value: Any, leaves: str) -> Any:
    try:
        return function(value)
    except Exception as error:  # of a class of the program
        raise ConfigError(
            f"{leaves}: what the function returned on rank {rank} cannot leave its process: {error}; return what can"
            f" be pickled, or drop {leaves}"
        ) from None
