"""Process state that a rank may change, but few ranks do.

Standard streams, ``sys.excepthook``, the directory, the environment: the first change gives the rank an entry, which
is installed whenever that rank runs. A rank that changes nothing costs nothing. State that is only read
(``os.environ``) stays shared until it is written.

Some settings change unnoticed, such as the list ``warnings.filters`` or state in C. Once a rank has touched such a
`Setting`, it is read at each switch to another rank.
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
    from _typeshed import StrOrBytesPath

    from .rank import Rank

_modules = sys.modules  # during a run, attributes of `sys` are slow
_shared: dict[str, Any] = {}
"""By name, for each setting that some rank has changed: the value for ranks that have not changed it."""


MISSING: Any = object()
"""Represents a missing attribute."""


class Setting(NamedTuple):
    """How to read and set one piece of process state."""

    get: Callable[[], Any]
    set: Callable[[Any], object]
    passes: bool = False
    """Whether it is often set only temporarily: once it has the shared value again, the rank's entry is dropped."""
    keep: Callable[[Any], Any] | None = None
    """Returns the value to keep at a switch to another rank, given the one kept before; None: the result of `get`."""
    drop: Callable[[Any], object] | None = None
    """Called with the kept value once it will not be set again."""


_settings: dict[str, Setting] = {}
"""The settings that are read at a switch to another rank, by name."""


def put(entries: dict[str, Any]) -> None:
    """Install a rank's changes, for its turn."""
    for name, value in entries.items():
        _set(name, value)


def restore_shared(rank: Rank, following: dict[str, Any] | None = None) -> None:
    """Restore the shared values of a rank's changes and keep the rank's values for its next turn.

    If `following`, which is `put` next, has the same names, restoring is skipped, as it would have no effect. In a
    whole session of pytest all ranks have changed twenty settings.
    """
    entries = rank.private_state
    assert entries is not None
    is_replaced = following is not None and following.keys() == entries.keys()
    # A temporary change, as with ``warnings.catch_warnings``, must cost nothing afterwards.
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
    """Restore everything to its state before the run."""
    put(_shared)
    drop(_shared)
    _shared.clear()


def declare(name: str, setting: Setting) -> None:
    """Register how a setting that ranks `change` by this name is read and set."""
    _settings[name] = setting


def shared(name: str) -> Any:
    """Return the value for ranks that have not changed a setting, which some rank has changed."""
    return _shared[name]


def drop(entries: dict[str, Any]) -> None:
    """Release kept values of settings that will not be set again."""
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


def change(rank: Rank, name: str, shared: object, value: object) -> None:
    """Record that `rank` has just replaced `shared` by `value`."""
    _shared.setdefault(name, shared)
    if rank.private_state is None:
        rank.private_state = {}
        rank.bare = False
    rank.private_state[name] = value


def touch(rank: Rank, name: str, setting: Setting) -> bool:
    """Give `rank`, which is running, its own entry for a setting that it is about to change; True if it had none."""
    is_first = rank.private_state is None or name not in rank.private_state
    if is_first:
        touched(rank, name, setting, setting.get())
    return is_first


def touched(rank: Rank, name: str, setting: Setting, before: object) -> None:
    """Do the same as `touch` if `rank` has already changed the setting, whose value was `before`."""
    _settings[name] = setting
    change(rank, name, before, setting.get())


def own_attribute(rank: Rank, module: ModuleType, name: str) -> None:
    """Give `rank` its own entry for an attribute of a shared module that it is about to change."""
    table = vars(module)

    def put_in(value: object) -> None:
        if value is MISSING:
            table.pop(name, None)
        else:
            table[name] = value

    touch(rank, f"{module.__name__}.{name}", Setting(lambda: table.get(name, MISSING), put_in))


class OwnAttributes(ModuleType):
    """The class of a shared module during a run, in which a rank's assignments apply to that rank only."""

    def __setattr__(self, name: str, value: object) -> None:
        fiber = current.here()
        is_submodule = isinstance(value, ModuleType) and _modules.get(f"{self.__name__}.{name}") is value
        if fiber is not None and name != "__class__" and not is_submodule:  # which Python assigns for all
            own_attribute(fiber.rank, self, name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        fiber = current.here()
        if fiber is not None:
            own_attribute(fiber.rank, self, name)
        super().__delattr__(name)


def _chdir(path: StrOrBytesPath) -> None:
    before = os.getcwd()
    _real_chdir(path)
    change(current.rank(), "directory", before, os.getcwd())


_real_chdir = os.chdir


PATCHED: Table = (
    ("builtins", "private: assignments by the rank", {"__class__": OwnAttributes}),
    ("os", "private: the current directory", {"chdir": in_ranks(_chdir), "fchdir": in_ranks(_chdir)}),
)


def install(patches: Patches) -> None:
    """Watch for changes for the duration of a run."""
    _settings.clear()
    patches.install(PATCHED)
