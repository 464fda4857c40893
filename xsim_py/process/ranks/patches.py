"""The patches of a run: attributes of the standard library, replaced by virtual ones while the run lasts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial, reduce, wraps
from importlib import import_module
from types import TracebackType
from typing import Any, ClassVar, TypeAlias

from . import current

Table: TypeAlias = tuple[tuple[str, str, Mapping[str, Any]], ...]
"""The replacements made by a file. A row has the dotted name of a module, class or object, a description for users,
and the replacements by name. Each file has one table, `PATCHED`; docs/reference/patched.md is generated from them.
"""

_modules = sys.modules  # during a run, attributes of `sys` are slow


class Wrapper:
    """A replacement built from the original, as ``make(real, *arguments)``."""

    def __init__(self, make: Callable[..., Any], *arguments: object) -> None:
        self.make = make
        self.arguments = arguments


def in_ranks(virtual: Callable[..., Any]) -> Wrapper:
    """Replace a function in ranks only; elsewhere the real one is called."""

    def choosing(real: Callable[..., Any]) -> Callable[..., Any]:
        def function(*args: object, **kwargs: object) -> object:
            return (real if current.here() is None else virtual)(*args, **kwargs)

        return function

    return Wrapper(choosing)


def watched(before: Callable[..., object], *arguments: object) -> Wrapper:
    """Call ``before(rank, *arguments)`` before each call of the function by a rank."""

    def watching(real: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(real)
        def function(*args: object, **kwargs: object) -> object:
            fiber = current.here()
            if fiber is not None:
                before(fiber.rank, *arguments)
            return real(*args, **kwargs)

        return function

    return Wrapper(watching)


def with_real(function: Callable[..., Any]) -> Wrapper:
    """Replace a function by one that receives the original, as in ``function(real, ...)``."""
    return Wrapper(partial(partial, function))


_IF_IMPORTED = frozenset(("asyncio", "bdb", "cProfile", "multiprocessing", "sched", "subprocess", "timeit"))
"""Packages that are not imported just to patch them: multiprocessing takes 30 ms, and few programs have child
processes.
"""


def _found(place: str) -> object:
    """Return the object with a dotted name; None if missing, or in a package of `_IF_IMPORTED` that is not imported."""
    top = place.partition(".")[0]
    if top not in _modules and top not in _IF_IMPORTED:
        import_module(top)
    name, inner = place, []
    while name and name not in _modules:
        name, _, last = name.rpartition(".")
        inner.append(last)
    return reduce(lambda owner, each: getattr(owner, each, None), reversed(inner), _modules.get(name))


class Patches:
    """Attributes that are replaced now and restored at the end, last first."""

    latest: ClassVar[Patches]
    """Those of the current run, for replacements made when first needed."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def install(self, *tables: Table) -> None:
        """Replace everything listed in these tables, except what this Python lacks or has not imported."""
        Patches.latest = self
        for place, _, values in (row for table in tables for row in table):
            owner = _found(place)
            for name, value in values.items() if owner is not None else ():
                if isinstance(value, Wrapper) and hasattr(owner, name):
                    self.set(owner, name, value.make(getattr(owner, name), *value.arguments))
                elif not isinstance(value, Wrapper) and (hasattr(owner, name) or isinstance(owner, type)):
                    self.set(owner, name, value)

    def set(self, owner: object, name: str, value: object) -> None:
        """Replace ``owner.name``; a class that inherits or lacks the attribute gets its own."""
        if not isinstance(owner, type):
            self._undo.append(partial(setattr, owner, name, getattr(owner, name)))
        elif name in vars(owner):
            self._undo.append(partial(setattr, owner, name, vars(owner)[name]))
        else:
            self._undo.append(partial(delattr, owner, name))
        setattr(owner, name, value)

    def put(self, table: dict[str, Any], key: str, value: object) -> None:
        """Replace ``table[key]``."""
        self._undo.append(partial(table.__setitem__, key, table[key]))
        table[key] = value

    def keep(self, table: dict[str, Any]) -> None:
        """Restore the current entries of `table` at the end; added entries stay."""
        self._undo.append(partial(table.update, table.copy()))

    def at_end(self, function: Callable[[], object]) -> None:
        """Call ``function()`` at the end."""
        self._undo.append(function)

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        while self._undo:
            self._undo.pop()()
