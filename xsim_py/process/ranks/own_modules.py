"""The private modules of a rank, by name, and what is computed from all modules."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")
_modules = sys.modules  # during a run, attributes of `sys` are slow

shadowed: dict[str, ModuleType] = {}
"""Modules shared by all ranks, except for ranks that have replaced or removed them."""

_NONE: set[str] = set()  # stays empty


def from_modules(compute: Callable[[], T]) -> Callable[[], T]:
    """Make a function of all loaded modules compute again only if they differ from those of its last call."""
    seen: list[Any] = []
    results: list[T] = []

    def result() -> T:
        modules = [*_modules.values()]
        if not results or len(modules) != len(seen) or not all(map(operator.is_, modules, seen)):
            seen[:] = modules
            results[:] = [compute()]
        return results[0]

    return result


class OwnModules(dict[str, ModuleType]):
    """The private modules of a rank, by name; changed only by `put` and `drop`."""

    __slots__ = ("gone", "history")

    _histories: ClassVar[dict[tuple[int, str, bool], int]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.history = 0  # identifies the sequence of names added and removed; equal histories mean equal names
        self.gone: set[str] = _NONE  # the names of shared modules that this rank has removed from ``sys.modules``

    def put(self, name: str, module: ModuleType) -> None:
        """Add or replace a module."""
        if name not in self:
            self._note(name, True)
            self.gone.discard(name)
        self[name] = module

    def drop(self, name: str) -> None:
        """Remove a module."""
        del self[name]
        self._note(name, False)

    def hide(self, name: str) -> None:
        """Remove a shared module's name in this rank."""
        if self.gone is _NONE:
            self.gone = set()
        self.gone.add(name)
        self._note(name, False)

    def show(self, name: str) -> None:
        """Make a shared module visible in this rank again."""
        if name in self:
            self.drop(name)
        self.gone.discard(name)
        self._note(name, True)

    def _note(self, name: str, there: bool) -> None:
        known = self._histories
        self.history = known.setdefault((self.history, name, there), len(known) + 1)
