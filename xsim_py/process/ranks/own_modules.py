"""The modules that a rank has for itself, by their names."""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar

shadowed: dict[str, ModuleType] = {}
"""Modules that all ranks share, but for ranks that have put others in their places, or nothing."""

_NONE: set[str] = set()  # stays empty


class OwnModules(dict[str, ModuleType]):
    """The modules that a rank has for itself, by their names; changed by `put` and `drop` only.

    Attributes
    ----------
    history : int
        A number for the names that have come and gone; where it is the same, the names are.
    gone : set of str
        The names of modules that all ranks share and that this rank has taken out of ``sys.modules``.
    """

    __slots__ = ("gone", "history")

    _histories: ClassVar[dict[tuple[int, str, bool], int]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.history = 0
        self.gone: set[str] = _NONE

    def put(self, name: str, module: ModuleType) -> None:
        """Add a module, or put another in its place."""
        if name not in self:
            self._note(name, True)
            self.gone.discard(name)
        self[name] = module

    def drop(self, name: str) -> None:
        """Take one out."""
        del self[name]
        self._note(name, False)

    def hide(self, name: str) -> None:
        """Let the name of a module that all share be that of no module in this rank."""
        if self.gone is _NONE:
            self.gone = set()
        self.gone.add(name)
        self._note(name, False)

    def show(self, name: str) -> None:
        """Let the name of a module that all share be that of this module again."""
        if name in self:
            self.drop(name)
        self.gone.discard(name)
        self._note(name, True)

    def _note(self, name: str, there: bool) -> None:
        known = self._histories
        self.history = known.setdefault((self.history, name, there), len(known) + 1)
