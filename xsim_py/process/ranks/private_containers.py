"""Dictionaries and lists of shared modules of which each rank has its own copy."""

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
    """A collection of which each rank has its own copy, from its first change on."""

    __slots__ = ("begin", "first", "key", "shared")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, key: str, shared: Any, first: Any, begin: Callable[[], object]) -> None:
        self.key = key
        self.shared = shared
        self.first = first
        self.begin = begin

    def make(self) -> Any:
        """Create the copy of a rank that is about to change it."""
        self.begin()
        return self.first.copy()


def _reading(name: str) -> Callable[..., Any]:
    def method(self: _OfEachRank, *args: object, **kwargs: object) -> object:
        fiber = current.here()
        found = self.shared if fiber is None else (fiber.rank.extra or {}).get(self.key, self.first)
        return getattr(found, name)(*args, **kwargs)

    return method


def _changing(name: str) -> Callable[..., Any]:
    def method(self: _OfEachRank, *args: object, **kwargs: object) -> object:
        fiber = current.here()
        found = self.shared if fiber is None else fiber.rank.private(self.key, self.make)
        return getattr(found, name)(*args, **kwargs)

    return method


@cache
def _class(kind: Any) -> type[_OfEachRank]:
    names = [name for name in dir(kind) if callable(getattr(kind, name)) and name not in _OF_OBJECT]
    methods = {name: (_reading if name in _READING else _changing)(name) for name in names}
    return type(kind.__name__, (_OfEachRank,), {"__slots__": (), "__hash__": None, **methods})


def of_each_rank(
    key: str, shared: object, *, empty: bool = False, begin: Callable[[], object] = lambda: None
) -> _OfEachRank:
    """Return a stand-in for `shared` that in each rank refers to the rank's own copy.

    A rank keeps its copy under the name `key`, from its first change on; `begin` is called in it before. The collection
    `shared`, used outside of ranks, has a method ``copy``; with `empty`, the rank's collection starts empty rather than
    as a copy.
    """
    kind: Any = type(shared)
    return _class(kind)(key, shared, kind() if empty else shared, begin)
