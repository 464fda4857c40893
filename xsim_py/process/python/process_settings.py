"""Process settings changed by function calls and kept in C: a rank that calls one has its own from then on.

They are installed whenever such a rank runs, and restored when another rank runs (`private_state`).
"""

from __future__ import annotations

import gc
import locale
import os
import socket
import sys
import time
from functools import partial
from itertools import count
from types import ModuleType
from typing import Any

from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Patches, Table, Wrapper, watched
from xsim_py.process.ranks.private_state import Setting, touch

_real_umask, _real_locale = os.umask, locale.setlocale
_real_limit, _real_tzset = sys.setrecursionlimit, time.tzset
_real_gc = (gc.enable, gc.disable, gc.set_threshold)


def _umask() -> int:
    # The operating system returns the mask only when setting it.
    mask = _real_umask(0)
    _real_umask(mask)
    return mask


def _set_limit(limit: int) -> None:
    """Set the recursion limit as low as possible: the simulator's stack may be deeper than the program's limit."""
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


class _OwnContext:
    """The default start method of `multiprocessing`: each rank chooses once."""

    def __get__(self, context: object, owner: object = None) -> _OwnContext | Any | None:
        fiber = current.here()
        if context is None or fiber is None:
            return self if context is None else vars(context)["_actual_context"]
        return (fiber.rank.extra or {}).get("multiprocessing")

    def __set__(self, context: object, value: object) -> None:
        fiber = current.here()
        if fiber is None:
            vars(context)["_actual_context"] = value
        else:
            fiber.rank.extra = {**(fiber.rank.extra or {}), "multiprocessing": value}


class _OwnCount:
    """A counter that numbers the children of each rank from 1."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __next__(self) -> int:
        fiber = current.here()
        number: int = next(self.real if fiber is None else fiber.rank.private("children", lambda: count(1)))
        return number


_COLLECTING = watched(touch, "collector", Setting(_collector, _set_collector))
_LOCALE = Setting(partial(_real_locale, locale.LC_ALL), partial(_real_locale, locale.LC_ALL))
_TIMEOUT = Setting(socket.getdefaulttimeout, socket.setdefaulttimeout)
_DIGITS = Setting(sys.get_int_max_str_digits, sys.set_int_max_str_digits)
_LIMIT = Setting(sys.getrecursionlimit, _set_limit)
_ZONE = Setting(time.tzset, lambda _: _real_tzset())  # that of the rank's environment

_CONTEXTS = "multiprocessing.context"
_MULTIPROCESSING: Table = (
    (f"{_CONTEXTS}.DefaultContext", "private: start method of child processes", {"_actual_context": _OwnContext()}),
    ("multiprocessing.process", "private: counter of child processes", {"_process_counter": Wrapper(_OwnCount)}),
)
PATCHED: Table = (
    ("gc", "private", {"disable": _COLLECTING, "enable": _COLLECTING, "set_threshold": _COLLECTING}),
    ("locale", "private", {"setlocale": watched(touch, "locale", _LOCALE)}),
    ("os", "private", {"umask": watched(touch, "umask", Setting(_umask, _real_umask))}),
    ("socket", "private", {"setdefaulttimeout": watched(touch, "timeout", _TIMEOUT)}),
    ("sys", "private", {"set_int_max_str_digits": watched(touch, "digits", _DIGITS)}),
    ("sys", "private", {"setrecursionlimit": watched(touch, "recursion limit", _LIMIT)}),
    ("time", "private", {"tzset": watched(touch, "time zone", _ZONE)}),
    *_MULTIPROCESSING,
)


def imported(module: ModuleType) -> None:
    """Patch `multiprocessing` when it is imported; few programs need it."""
    if module.__name__ == _CONTEXTS:
        Patches.latest.install(_MULTIPROCESSING)
