"""A dictionary or a list of a shared module of which each rank has its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import current

__all__ = ["of_each_rank"]

_READING = ("__contains__", "__eq__", "__getitem__", "__iter__", "__len__", "__repr__", "__reversed__", "__or__")
_READING_NAMES = ("copy", "count", "get", "index", "items", "keys", "values", "valuerefs")
_OF_OBJECT = frozenset(dir(object)) - {"__eq__", "__repr__"}


def of_each_rank(key: str, shared: Any, *, empty: bool = False, begin: Callable[[], object] = lambda: None) -> Any:
    """Return what looks like `shared`; in a rank it is one of its own.

    Parameters
    ----------
    key : str
        Under this name a rank keeps its own, from its first change on.
    shared : collection
        What all have outside of ranks; it has a method ``copy``.
    empty : bool
        Whether that of a rank is empty at first, and no copy.
    begin : callable
        Called in a rank before its first change.
    """
    kind = type(shared)
    first = kind() if empty else shared

    def make() -> Any:
        begin()
        return first.copy()

    def reading(name: str) -> Callable[..., Any]:
        def method(_: Any, *args: Any, **kwargs: Any) -> Any:
            fiber = current.here()
            found = shared if fiber is None else (fiber.rank.extra or {}).get(key, first)
            return getattr(found, name)(*args, **kwargs)

        return method

    def changing(name: str) -> Callable[..., Any]:
        def method(_: Any, *args: Any, **kwargs: Any) -> Any:
            fiber = current.here()
            found = shared if fiber is None else fiber.rank.private(key, make)
            return getattr(found, name)(*args, **kwargs)

        return method

    names = [name for name in dir(kind) if callable(getattr(kind, name)) and name not in _OF_OBJECT]
    methods = {name: (reading if name in _READING + _READING_NAMES else changing)(name) for name in names}
    return type(kind.__name__, (), {**methods, "__hash__": None})()
