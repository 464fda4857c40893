"""A dictionary or a list of a shared module of which each rank has its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from . import current

_READING = frozenset(
    [
        "__contains__",
        "__eq__",
        "__getitem__",
        "__iter__",
        "__len__",
        "__or__",
        "__repr__",
        "__reversed__",
        "copy",
        "count",
        "get",
        "index",
        "items",
        "keys",
        "values",
        "valuerefs",
    ]
)
_OF_OBJECT = frozenset(dir(object)) - _READING


class _OfEachRank:
    """A collection of which each rank has its own, from the first change on."""

    __slots__ = ("begin", "first", "key", "shared")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, key: str, shared: Any, first: Any, begin: Callable[[], object]) -> None:
        self.key = key
        self.shared = shared
        self.first = first
        self.begin = begin

    def make(self) -> Any:
        """Make the collection of a rank, which is about to change it."""
        self.begin()
        return self.first.copy()


def _reading(name: str) -> Callable[..., Any]:
    def method(self: _OfEachRank, *args: Any, **kwargs: Any) -> Any:
        fiber = current.here()
        found = self.shared if fiber is None else (fiber.rank.extra or {}).get(self.key, self.first)
        return getattr(found, name)(*args, **kwargs)

    return method


def _changing(name: str) -> Callable[..., Any]:
    def method(self: _OfEachRank, *args: Any, **kwargs: Any) -> Any:
        fiber = current.here()
        found = self.shared if fiber is None else fiber.rank.private(self.key, self.make)
        return getattr(found, name)(*args, **kwargs)

    return method


@cache
def _class(kind: Any) -> type[_OfEachRank]:
    names = [name for name in dir(kind) if callable(getattr(kind, name)) and name not in _OF_OBJECT]
    methods = {name: (_reading if name in _READING else _changing)(name) for name in names}
    return type(kind.__name__, (_OfEachRank,), {"__slots__": (), "__hash__": None, **methods})


def of_each_rank(key: str, shared: Any, *, empty: bool = False, begin: Callable[[], object] = lambda: None) -> Any:
    """Return what looks like `shared`; in a rank it is one of its own.

    Parameters
    ----------
    key : str
        Under this name a rank keeps its own, from its first change on.
    shared : collection
        What is there outside of ranks; it has a method ``copy``.
    empty : bool
        Whether that of a rank is empty at first, and no copy.
    begin : callable
        Called in a rank before its first change.
    """
    kind: Any = type(shared)
    return _class(kind)(key, shared, kind() if empty else shared, begin)
