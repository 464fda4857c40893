"""The state of a process that its rank may change, and that few ranks do change.

Standard streams, ``sys.excepthook``, the directory, the environment: the first change gives the rank an entry of its
own, which is put in place whenever that rank runs. A rank that changes nothing costs nothing. What is only read
(``os.environ``) stays shared until it is written.

Some settings change without our notice, as ``warnings.filters``, a list, or what C keeps. Once a rank has touched such
a `Setting`, it is read whenever another rank takes its turn.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from . import current
from .patches import Patches, Table, in_ranks

if TYPE_CHECKING:
    from .rank import Rank

_modules = sys.modules  # while a run lasts, attributes of `sys` are slow
_shared: dict[str, Any] = {}
"""Under each name that some rank has changed stands the value for ranks that have not changed it."""


MISSING: Any = object()
"""Stands for an attribute that is not there."""


class Setting(NamedTuple):
    """A way to read something of the process, and to set it.

    Attributes
    ----------
    passes : bool
        Whether it is often set for a while only: where it is again as it is for all, the rank's own entry goes.
    keep : callable or None
        What is to be kept of it where another rank takes its turn, from what was kept before; None: what `get` gives.
    drop : callable or None
        Called with what was kept, when nobody will set it any more.
    """

    get: Callable[[], Any]
    set: Callable[[Any], object]
    passes: bool = False
    keep: Callable[[Any], Any] | None = None
    drop: Callable[[Any], object] | None = None


_settings: dict[str, Setting] = {}
"""These settings are read when another rank takes its turn, by their names."""


def put(entries: dict[str, Any]) -> None:
    """Put what a rank has changed in its place, for its turn."""
    for name, value in entries.items():
        _set(name, value)


def take_back(rank: Rank, following: dict[str, Any] | None = None) -> None:
    """Put what is shared in the place of what a rank has changed, and keep that for its next turn.

    Where `following`, what is `put` next, has the same names, what is shared would be in place for no time: that costs
    nothing then. In a whole session of pytest all ranks have changed twenty things.
    """
    entries = rank.private_state
    assert entries is not None
    is_replaced = following is not None and following.keys() == entries.keys()
    # A rank that has set something for a while only, as with ``warnings.catch_warnings``, is to cost nothing after
    # that.
    vain = []
    for name, value in entries.items():
        shared = _shared[name]
        setting = _settings.get(name)
        if setting is not None:
            entries[name] = value = setting.get() if setting.keep is None else setting.keep(value)
            if setting.passes and value == shared:
                vain.append(name)
        if not is_replaced:
            _set(name, shared)
    if vain:
        for name in vain:
            del entries[name]
        if not entries:
            rank.private_state = None
            rank.bare = rank.main is not None and rank.modules is None


def forget() -> None:
    """Put everything back as it was before the run."""
    put(_shared)
    drop(_shared)
    _shared.clear()


def declare(name: str, setting: Setting) -> None:
    """Say how what ranks `change` under this name is read and set."""
    _settings[name] = setting


def shared(name: str) -> Any:
    """Return what is there for ranks that have not changed it, of something that some rank has changed."""
    return _shared[name]


def drop(entries: dict[str, Any]) -> None:
    """Let go of what was kept of settings that are set no more."""
    for name, value in entries.items():
        setting = _settings.get(name)
        if setting is not None and setting.drop is not None:
            setting.drop(value)


def _set(name: str, value: Any) -> None:
    setting = _settings.get(name)
    if setting is not None:
        setting.set(value)
    elif name == "directory":
        _real_chdir(value)
    elif value is MISSING:
        sys.__dict__.pop(name, None)
    else:
        sys.__dict__[name] = value


def change(rank: Rank, name: str, shared: Any, value: Any) -> None:
    """Note what `rank` has just put in the place of `shared`."""
    _shared.setdefault(name, shared)
    if rank.private_state is None:
        rank.private_state = {}
        rank.bare = False
    rank.private_state[name] = value


def touch(rank: Rank, name: str, setting: Setting) -> None:
    """Give `rank`, which is running, a setting of its own if it has none, before it changes it."""
    if rank.private_state is None or name not in rank.private_state:
        touched(rank, name, setting, setting.get())


def touched(rank: Rank, name: str, setting: Setting, before: Any) -> None:
    """Do as `touch`, where `rank` has already changed what was `before`."""
    _settings[name] = setting
    change(rank, name, before, setting.get())


def own_attribute(rank: Rank, module: ModuleType, name: str) -> None:
    """Give `rank` an attribute of a shared module for itself, before it changes it."""
    table = vars(module)

    def put_in(value: Any) -> None:
        if value is MISSING:
            table.pop(name, None)
        else:
            table[name] = value

    touch(rank, f"{module.__name__}.{name}", Setting(lambda: table.get(name, MISSING), put_in))


class OwnAttributes(ModuleType):
    """The class of a shared module while a run lasts, where what a rank assigns in it holds for that rank."""

    def __setattr__(self, name: str, value: Any) -> None:
        fiber = current.here()
        is_submodule = isinstance(value, ModuleType) and _modules.get(f"{self.__name__}.{name}") is value
        if fiber is not None and name != "__class__" and not is_submodule:  # which Python puts there for all
            own_attribute(fiber.rank, self, name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        fiber = current.here()
        if fiber is not None:
            own_attribute(fiber.rank, self, name)
        super().__delattr__(name)


def _chdir(path: Any) -> None:
    before = os.getcwd()
    _real_chdir(path)
    change(current.rank(), "directory", before, os.getcwd())


_real_chdir = os.chdir


PATCHED: Table = (
    ("builtins", "private: assignments of a rank", {"__class__": OwnAttributes}),
    ("os", "private: the current directory", {"chdir": in_ranks(_chdir), "fchdir": in_ranks(_chdir)}),
)


def install(patches: Patches) -> None:
    """Watch for changes for the duration of a run."""
    _settings.clear()
    patches.install(PATCHED)
