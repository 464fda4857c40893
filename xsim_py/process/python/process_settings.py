"""Settings of a process that functions change, and C keeps: a rank that calls one has its own from then on.

They are put in their places whenever such a rank runs, and taken back when another one does (`private_state`).
"""

from __future__ import annotations

import gc
import locale
import os
import socket
import sys
import time
from collections.abc import Callable
from functools import partial, wraps
from itertools import count
from types import ModuleType
from typing import TYPE_CHECKING, Any

from xsim_py.process.ranks import current
from xsim_py.process.ranks.private_state import Setting, touch

if TYPE_CHECKING:
    from xsim_py.process.ranks.patches import Patches

__all__ = ["imported", "install"]

_modules = sys.modules  # while a run lasts, attributes of `sys` are slow
_real_umask, _real_locale = os.umask, locale.setlocale
_real_limit, _real_tzset = sys.setrecursionlimit, time.tzset
_real_gc = (gc.enable, gc.disable, gc.set_threshold)


def _umask() -> int:
    # The operating system tells it only to who sets it.
    mask = _real_umask(0)
    _real_umask(mask)
    return mask


def _set_limit(limit: int) -> None:
    """Set the recursion limit as far as that goes: the simulator may stand deeper than a program allows."""
    while True:
        try:
            _real_limit(limit)
            return
        except RecursionError:
            limit += 100


def _collector() -> tuple[bool, tuple[int, int, int]]:
    return gc.isenabled(), gc.get_threshold()


def _set_collector(value: tuple[bool, tuple[int, int, int]]) -> None:
    enable, disable, set_threshold = _real_gc
    (enable if value[0] else disable)()
    set_threshold(*value[1])


_COLLECTOR = ("collector", Setting(_collector, _set_collector))
_SETTINGS: dict[tuple[ModuleType, str], tuple[str, Setting]] = {
    (gc, "disable"): _COLLECTOR,
    (gc, "enable"): _COLLECTOR,
    (gc, "set_threshold"): _COLLECTOR,
    (locale, "setlocale"): (
        "locale",
        Setting(partial(_real_locale, locale.LC_ALL), partial(_real_locale, locale.LC_ALL)),
    ),
    (os, "umask"): ("umask", Setting(_umask, _real_umask)),
    (socket, "setdefaulttimeout"): ("timeout", Setting(socket.getdefaulttimeout, socket.setdefaulttimeout)),
    (sys, "set_int_max_str_digits"): ("digits", Setting(sys.get_int_max_str_digits, sys.set_int_max_str_digits)),
    (sys, "setrecursionlimit"): ("recursion limit", Setting(sys.getrecursionlimit, _set_limit)),
    (time, "tzset"): ("time zone", Setting(time.tzset, lambda _: _real_tzset())),  # that of the rank's environment
}
"""By the functions that change them."""


def _changing(real: Callable[..., Any], name: str, setting: Setting) -> Callable[..., Any]:
    @wraps(real)
    def function(*args: Any, **kwargs: Any) -> Any:
        fiber = current.here()
        if fiber is not None:
            touch(fiber.rank, name, setting)
        return real(*args, **kwargs)

    return function


class _OwnContext:
    """The way in which `multiprocessing` starts processes: each rank decides once."""

    def __get__(self, context: Any, owner: Any = None) -> Any:
        fiber = current.here()
        if context is None or fiber is None:
            return self if context is None else vars(context)["_actual_context"]
        return (fiber.rank.extra or {}).get("multiprocessing")

    def __set__(self, context: Any, value: Any) -> None:
        fiber = current.here()
        if fiber is None:
            vars(context)["_actual_context"] = value
        else:
            fiber.rank.extra = {**(fiber.rank.extra or {}), "multiprocessing": value}


class _OwnCount:
    """A counter that numbers the children of each rank from 1 on."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __next__(self) -> int:
        fiber = current.here()
        number: int = next(self.real if fiber is None else fiber.rank.private("children", lambda: count(1)))
        return number


_CONTEXTS, _PROCESSES = "multiprocessing.context", "multiprocessing.process"
_patches: list[Patches] = []


def imported(module: ModuleType) -> None:
    """Take notice of a shared module that has been imported: few programs need that of `multiprocessing`."""
    if module.__name__ == _CONTEXTS:
        for patches in _patches:
            _install_multiprocessing(patches)


def _install_multiprocessing(patches: Patches) -> None:
    contexts, processes = (_modules[name] for name in (_CONTEXTS, _PROCESSES))
    patches.add(contexts.DefaultContext, "_actual_context", _OwnContext())
    patches.set(processes, "_process_counter", _OwnCount(processes._process_counter))


def install(patches: Patches) -> None:
    """Watch for changes for the duration of a run."""
    for (module, function), (name, setting) in _SETTINGS.items():
        patches.set(module, function, _changing(getattr(module, function), name, setting))
    _patches.append(patches)
    patches.at_end(_patches.clear)
    # Not imported for this: that takes 30 ms, and few programs have children.
    if _CONTEXTS in _modules:
        _install_multiprocessing(patches)
