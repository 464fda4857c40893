"""The patches of a run: attributes of the standard library, each swapped for a virtual one while the run lasts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any

__all__ = ["Patches", "layers"]

layers = 0
"""How many frames are now between a call of the program and the method that it calls; see `Patches.wrap_calls`."""


class Patches:
    """Attributes that are replaced now and put back at the end, last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace ``owner.name``."""
        self._undo.append(partial(setattr, owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def set_own(self, owner: type, name: str, value: Any) -> None:
        """Replace an attribute that a class defines itself; a class method comes back as one."""
        self._undo.append(partial(setattr, owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def add(self, owner: type, name: str, value: Any) -> None:
        """Give a class an attribute that it does not have."""
        self._undo.append(partial(delattr, owner, name))
        setattr(owner, name, value)

    def put(self, table: dict[str, Any], key: str, value: Any) -> None:
        """Replace ``table[key]``."""
        self._undo.append(partial(table.__setitem__, key, table[key]))
        table[key] = value

    def wrap_calls(self, owners: Iterable[type], wrap: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace each public method ``f`` called `name` that a class defines itself by ``wrap(name, f)``.

        It adds one frame to each call of the program, and to `layers`.
        """
        self.set(sys.modules[__name__], "layers", layers + 1)
        for owner in owners:
            for name, value in list(vars(owner).items()):
                if name.startswith("_"):
                    continue
                if isinstance(value, classmethod):
                    self.set_own(owner, name, classmethod(wrap(name, value.__func__)))
                elif callable(value) and not isinstance(value, type | staticmethod):
                    self.set_own(owner, name, wrap(name, value))

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
