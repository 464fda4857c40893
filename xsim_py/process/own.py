"""What a process may change about itself, and few do.

Standard streams, ``sys.excepthook``, the directory, the environment: the first change gives the rank an entry of its
own, which is put in place whenever that rank runs. A rank that changes nothing costs nothing. What is only read
(``os.environ``) stays shared until it is written.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

from . import context, current

if TYPE_CHECKING:
    from .patches import Patches
    from .rank import Rank

__all__ = [
    "LOOP",
    "Unseen",
    "change",
    "changed_variables",
    "drop",
    "forget",
    "install",
    "places",
    "put",
    "set_flags",
    "shared",
    "take_back",
]

_OF_SYS = frozenset(
    ("argv", "breakpointhook", "displayhook", "excepthook", "path", "ps1", "ps2", "stderr", "stdin", "stdout")
)

LOOP = "running loop"
"""What stands for asyncio's running loop: that changes often, so it is kept when another rank takes its turn."""


class Place(Protocol):
    """Where something stands that a rank has for itself, and that is no attribute of `sys`."""

    def put(self, value: Any) -> None:
        """Put there what a rank has, or what all have."""

    def keep(self, value: Any) -> Any:
        """Give what is to be kept, where another rank takes its turn, of what was put there."""

    def drop(self, value: Any) -> None:
        """Nobody will put this there any more."""


places: dict[str, Place] = {}
"""Such places by the names of their entries; put there by the files that know them."""

_environ: Any = os.environ


_shared: dict[str, Any] = {}
"""What ranks that have changed nothing see, for each name that some rank has changed."""

changed_variables: set[str] = set()
"""What some rank has changed in the environment that C code sees: there is one for all. Nobody else may change it."""


def put(entries: dict[str, Any]) -> None:
    """Put what a rank has changed in its place."""
    for name, value in entries.items():
        _set(name, value)


def take_back(entries: dict[str, Any]) -> None:
    """Put what is shared in the place of what a rank has changed."""
    for name in entries:
        if name == LOOP:
            entries[name] = sys.modules["asyncio.events"]._get_running_loop()
        elif name in places:
            entries[name] = places[name].keep(entries[name])
        _set(name, _shared[name])


def forget() -> None:
    """Put everything back as it was before the run."""
    put(_shared)
    for name in changed_variables:
        value = os.environ.get(name)
        if value is None:
            os.unsetenv(name)
        else:
            os.putenv(name, value)
    changed_variables.clear()
    drop(_shared)
    _shared.clear()


def shared(name: str) -> Any:
    """What ranks see that have not changed it, of what some rank has changed."""
    return _shared[name]


def drop(entries: dict[str, Any]) -> None:
    """Let go of what is to be put in its place no more."""
    for name, value in entries.items():
        if name in places:
            places[name].drop(value)


def _set(name: str, value: Any) -> None:
    if name == "directory":
        _real_chdir(value)
    elif name == "environment":
        _environ._data = value
    elif name == LOOP:
        sys.modules["asyncio.events"]._set_running_loop(value)
    elif name in places:
        places[name].put(value)
    else:
        sys.__dict__[name] = value


def change(rank: Rank, name: str, shared: Any, value: Any) -> None:
    """Note what `rank` has just put in the place of `shared`."""
    _shared.setdefault(name, shared)
    if rank.own is None:
        rank.own = {}
        rank.bare = False
    rank.own[name] = value


def set_flags(rank: Rank, flags: dict[str, Any]) -> None:
    """Let the running rank find some of ``sys.flags`` set otherwise."""
    real = sys.flags
    known = {name: getattr(real, name) for name in dir(real) if not name.startswith(("_", "n_"))}
    sys.__dict__["flags"] = changed = SimpleNamespace(**{**known, **flags})
    change(rank, "flags", real, changed)


class Unseen(tuple[Any, ...]):
    """What is in a list of `sys` that a rank has not looked at yet; shared by all ranks."""

    __slots__ = ()


class PrivateSys(ModuleType):
    """The class of `sys` while a run lasts: an assignment in a rank holds for that rank.

    Most ranks never look at ``sys.argv`` and ``sys.path``, so a rank gets its own when it does.
    """

    argv = property(lambda self: _list_of_rank("argv"))
    path = property(lambda self: _list_of_rank("path"))

    def __new__(cls, *args: Any) -> ModuleType:  # type: ignore[misc]
        """A module like any other: Python makes those that it imports with ``type(sys)``."""
        return ModuleType(*args)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__class__":  # at the end of the run
            super().__setattr__(name, value)
            return
        fiber = current.here()
        if fiber is not None and name in _OF_SYS:
            rank = fiber.rank
            if rank.main is not None and name in ("argv", "path"):
                setattr(rank, name, value)
                return
            change(rank, name, getattr(self, name, None), value)
        self.__dict__[name] = value


def _list_of_rank(name: str) -> Any:
    """The list that the rank whose modules are installed has, or else the shared one; also for the rank's threads."""
    rank = context.installed
    if rank is None or rank.main is None:
        return sys.__dict__[name]
    own = getattr(rank, name)
    if type(own) is Unseen:
        own = list(own)
        setattr(rank, name, own)
    return own


def _chdir(path: Any) -> None:
    fiber = current.here()
    if fiber is None:
        _real_chdir(path)
        return
    before = os.getcwd()
    _real_chdir(path)
    change(fiber.rank, "directory", before, os.getcwd())


def _own_environment(name: str) -> None:
    fiber = current.here()
    if fiber is not None:
        changed_variables.add(name)
        if fiber.rank.own is None or "environment" not in fiber.rank.own:
            shared = _environ._data
            _environ._data = dict(shared)
            change(fiber.rank, "environment", shared, _environ._data)


def _set_variable(environ: os._Environ[str], name: str, value: str) -> None:
    _own_environment(name)
    _real_set_variable(environ, name, value)


def _delete_variable(environ: os._Environ[str], name: str) -> None:
    _own_environment(name)
    _real_delete_variable(environ, name)


_real_chdir = os.chdir
_real_set_variable, _real_delete_variable = os._Environ.__setitem__, os._Environ.__delitem__


def install(patches: Patches) -> None:
    """Watch for changes for the duration of a run."""
    patches.set(sys, "__class__", PrivateSys)
    patches.set(os, "chdir", _chdir)
    patches.set(os, "fchdir", _chdir)
    patches.set(os._Environ, "__setitem__", _set_variable)
    patches.set(os._Environ, "__delitem__", _delete_variable)
