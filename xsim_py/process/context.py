"""What a rank finds in the interpreter: its own ``__main__``, ``sys.argv``, ``sys.path`` and private modules.

Real processes share nothing. Here all ranks share one interpreter, so what is a process's own is swapped when the
simulator switches ranks: one dictionary store, and two more for each private module that the program has. What few
programs change (`own`) is swapped only for the ranks that have changed it; the two lists are not swapped but looked up,
by `own.PrivateSys`.

Ranks of one program usually have modules of the same names, and then those of one take the places of the other's: a
program of seventy modules, such as mpi4py's own tests, would else spend a tenth of its time on taking them away.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from . import own  # which looks in here, at `installed`
from .grave import keep_for_ever

if TYPE_CHECKING:
    from .rank import Rank

__all__ = ["OwnModules", "covered", "forget", "install", "installed", "leave", "modules_of", "release"]

installed: Rank | None = None
"""The rank whose modules are in ``sys.modules`` now."""

covered: dict[str, ModuleType] = {}
"""Modules that all ranks share, but for ranks that have put others in their places, or nothing."""

_outside: ModuleType | None = None
_modules = sys.modules  # hot path: while a run lasts, attributes of `sys` are slow


def install(rank: Rank) -> None:
    """Make the interpreter look as `rank` knows it."""
    global installed
    previous = installed
    installed = rank
    if previous is None:
        _remember()
    else:
        if previous.modules is not None:
            if rank.modules is None or rank.modules.history != previous.modules.history or _has_more():
                _take_away(previous)
            elif previous.main is not None:
                previous.main = _modules.get("__main__")
        if previous.own is not None:
            own.take_back(previous)
    main = rank.main
    if main is not None:
        _modules["__main__"] = main
    if rank.modules is not None:
        _modules.update(rank.modules)
        for name in rank.modules.gone:
            _modules.pop(name, None)
    if rank.own is not None:
        own.put(rank.own)


def modules_of(rank: Rank) -> OwnModules:
    """The modules that a rank has for itself, to be changed."""
    if rank.modules is None:
        rank.modules = OwnModules()
        rank.bare = False
    return rank.modules


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


_MADE = ("__worker__", "__mp_main__")
"""What a process that loads the program of another calls it beside ``__main__``: mpi4py.futures, multiprocessing."""


def _has_more() -> bool:
    return _MADE[0] in _modules or _MADE[1] in _modules


def _take_away(rank: Rank) -> None:
    """Take out a rank's modules, and keep what it has put in the place of its program."""
    assert rank.modules is not None
    if rank.main is not None:
        rank.main = _modules.get("__main__")
    for name in _MADE:
        if name in _modules:
            rank.modules.put(name, _modules[name])
    for name in rank.modules:
        _modules.pop(name, None)
    if covered:
        _modules.update({name: covered[name] for name in (*rank.modules, *rank.modules.gone) if name in covered})


def _remember() -> None:
    global _outside
    _outside = _modules["__main__"]


def release(rank: Rank, *, dead: bool) -> None:
    """Take away what belonged to a rank that will not run again.

    A dead rank's objects must not be freed: their ``__del__`` is code of the program.
    """
    if installed is rank:
        if rank.modules is not None:
            _take_away(rank)
        if rank.own is not None:
            own.take_back(rank)
    if rank.own is not None:
        own.drop(rank.own)
    if dead:
        keep_for_ever((rank.main, rank.modules, rank.own, rank.extra))
    rank.main = rank.modules = rank.argv = rank.path = rank.own = None
    rank.bare = False


def leave() -> None:
    """Make the interpreter look as it does where no rank runs, until the next `install`."""
    global installed
    rank, installed = installed, None
    if rank is None:
        return
    if rank.modules is not None:
        _take_away(rank)
    elif rank.main is not None:
        rank.main = _modules.get("__main__")
    if rank.own is not None:
        own.take_back(rank)
    assert _outside is not None
    _modules["__main__"] = _outside


def forget() -> None:
    """Put back what was there before the first `install`."""
    global installed, _outside
    if installed is not None and installed.modules:
        _take_away(installed)
    own.forget()
    if _outside is not None:
        _modules["__main__"] = _outside
    installed = _outside = None
    covered.clear()
