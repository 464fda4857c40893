"""The patches of a run: attributes of the standard library, each swapped for a virtual one while the run lasts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce, wraps
from importlib import import_module
from types import TracebackType
from typing import Any, ClassVar, TypeAlias

from . import current

layers = 0
"""How many frames are now between a call of the program and the method that it calls; see `Patches.wrap_calls`."""

Table: TypeAlias = tuple[tuple[str, str, Mapping[str, Any]], ...]
"""The replacements that a file makes. A row has the dotted name of a module, class or object, what ranks find there,
and the replacements by name. Each file has one table, `PATCHED`; docs/reference/patched.md is made of them."""

_modules = sys.modules  # while a run lasts, attributes of `sys` are slow


class Around:
    """A replacement that is made of what it replaces, as ``make(real, *arguments)``."""

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        self.make = make
        self.arguments = arguments


def in_ranks(virtual: Callable[..., Any]) -> Around:
    """Replace a function for ranks; who is none gets to the real one."""

    def choosing(real: Callable[..., Any]) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            return (real if current.here() is None else virtual)(*args, **kwargs)

        return function

    return Around(choosing)


def watched(before: Callable[..., object], *arguments: Any) -> Around:
    """Have ``before(rank, *arguments)`` called where a rank calls a function, and then the function."""

    def watching(real: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(real)
        def function(*args: Any, **kwargs: Any) -> Any:
            fiber = current.here()
            if fiber is not None:
                before(fiber.rank, *arguments)
            return real(*args, **kwargs)

        return function

    return Around(watching)


def with_real(function: Callable[..., Any]) -> Around:
    """Replace a function by one that gets it, as in ``function(real, ...)``."""
    return Around(partial(partial, function))


_IF_IMPORTED = frozenset(("asyncio", "bdb", "cProfile", "multiprocessing", "sched", "subprocess", "timeit"))
"""Packages that are not imported to be replaced: multiprocessing takes 30 ms, and few programs have children."""


def _found(place: str) -> Any:
    """Return what has a dotted name; None if it is not there, or in a package of `_IF_IMPORTED` that nobody needs."""
    top = place.partition(".")[0]
    if top not in _modules and top not in _IF_IMPORTED:
        import_module(top)
    name, inner = place, []
    while name and name not in _modules:
        name, _, last = name.rpartition(".")
        inner.append(last)
    return reduce(lambda owner, each: getattr(owner, each, None), reversed(inner), _modules.get(name))


def _add_layers(number: int) -> None:
    global layers
    layers += number


class Patches:
    """Attributes that are replaced now and put back at the end, last first.

    Attributes
    ----------
    latest : Patches
        Those of the run that lasts, by which more can be replaced when something is first needed.
    """

    latest: ClassVar[Patches]

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def install(self, *tables: Table) -> None:
        """Replace all that stands in these tables, but what this Python does not have, or has not imported."""
        Patches.latest = self
        for place, _, values in (row for table in tables for row in table):
            owner = _found(place)
            for name, value in values.items() if owner is not None else ():
                if isinstance(value, Around) and hasattr(owner, name):
                    self.set(owner, name, value.make(getattr(owner, name), *value.arguments))
                elif not isinstance(value, Around) and (hasattr(owner, name) or isinstance(owner, type)):
                    self.set(owner, name, value)

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace ``owner.name``; a class that has inherited it, or does not have it, gets it for itself."""
        if not isinstance(owner, type):
            self._undo.append(partial(setattr, owner, name, getattr(owner, name)))
        elif name in vars(owner):
            self._undo.append(partial(setattr, owner, name, vars(owner)[name]))
        else:
            self._undo.append(partial(delattr, owner, name))
        setattr(owner, name, value)

    def put(self, table: dict[str, Any], key: str, value: Any) -> None:
        """Replace ``table[key]``."""
        self._undo.append(partial(table.__setitem__, key, table[key]))
        table[key] = value

    def wrap_calls(
        self, owners: Iterable[type], wrap: Callable[[type, str, Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        """Replace each public method ``f`` called `name` that a class defines itself by ``wrap(class, name, f)``.

        It adds one frame to each call of the program, and to `layers`.
        """
        _add_layers(1)
        self.at_end(partial(_add_layers, -1))
        for owner in owners:
            for name, value in list(vars(owner).items()):
                if name.startswith("_"):
                    continue
                if isinstance(value, classmethod):
                    self.set(owner, name, classmethod(wrap(owner, name, value.__func__)))
                elif callable(value) and not isinstance(value, type | staticmethod):
                    self.set(owner, name, wrap(owner, name, value))

    def keep(self, table: dict[str, Any]) -> None:
        """Put back at the end what is in `table` now; what is added stays."""
        self._undo.append(partial(table.update, table.copy()))

    def at_end(self, function: Callable[[], object]) -> None:
        """Have ``function()`` called at the end."""
        self._undo.append(function)

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        while self._undo:
            self._undo.pop()()
