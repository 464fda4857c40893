"""`sys` in a rank: its assignments apply to that rank only, and its lists are copied on first access."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Table
from xsim_py.process.ranks.private_state import MISSING, change

from . import sys_modules

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

_FOR_ALL = frozenset(("flags", "modules", "path_hooks", "path_importer_cache"))
"""The attributes of `sys` that are set for all ranks, because they belong to the import system."""


class UncopiedList(tuple[Any, ...]):
    """A list of `sys` that a rank has not accessed yet, so that all ranks share it."""

    __slots__ = ()


class PrivateSys(ModuleType):
    """The class of `sys` during a run: an assignment in a rank applies to that rank.

    Most ranks never access ``sys.argv`` and ``sys.path``, so a rank gets its copies on first access.
    """

    argv = property(lambda self: _list_of_rank("argv"))
    path = property(lambda self: _list_of_rank("path"))
    meta_path = property(lambda self: sys_modules.meta_path(sys._getframe(1)))
    modules = property(lambda self: sys_modules.modules(sys._getframe(1)))

    def __new__(cls, *args: Any) -> ModuleType:  # type: ignore[misc]
        """Create a plain module: Python creates imported modules with ``type(sys)``."""
        return ModuleType(*args)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__class__":  # at the end of the run
            super().__setattr__(name, value)
            return
        fiber = current.here()
        if fiber is not None and name == "meta_path":
            sys_modules.set_meta_path(fiber.rank, value)
            return
        if fiber is not None and name not in _FOR_ALL:
            rank = fiber.rank
            if rank.main is not None and name in ("argv", "path"):
                setattr(rank, name, value)
                return
            change(rank, name, self.__dict__.get(name, MISSING), value)
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        fiber = current.here()
        if fiber is not None and name not in _FOR_ALL and name in self.__dict__:
            change(fiber.rank, name, self.__dict__[name], MISSING)
        super().__delattr__(name)


def _list_of_rank(name: str) -> object:
    """Return the list of the installed rank, or else the shared one; also for the rank's threads."""
    rank = current.installed
    if rank is None or rank.main is None:
        return sys.__dict__[name]
    own = getattr(rank, name)
    if type(own) is UncopiedList:
        own = list(own)
        setattr(rank, name, own)
    return own


def set_flags(rank: Rank, flags: dict[str, Any]) -> None:
    """Replace some of ``sys.flags`` for the running rank."""
    real = sys.flags
    known = {name: getattr(real, name) for name in dir(real) if not name.startswith(("_", "n_"))}
    sys.__dict__["flags"] = changed = SimpleNamespace(**{**known, **flags})
    change(rank, "flags", real, changed)


PATCHED: Table = (("sys", "private: assignments by the rank", {"__class__": PrivateSys}),)
