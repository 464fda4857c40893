"""``mpi4py.rc``, and the options with which MPI was imported.

mpi4py reads its options once, when a process imports `MPI`: environment variables ``MPI4PY_RC_...`` first, then
``mpi4py.rc``. Here all ranks share the module, and only few set an option: until one does, no rank has a table.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pickle import HIGHEST_PROTOCOL
from typing import Any, NamedTuple

from xsim_py.mpi import constants as c
from xsim_py.mpi.per_process import of_process
from xsim_py.process.python.environment import changed_variables

__all__ = [
    "Option",
    "Options",
    "Rc",
    "current_options",
    "note_import",
    "on_unusual_options",
    "rc",
    "read_environment",
    "use",
    "with_import_hook",
]

Option = bool | int | str | None

_DEFAULTS: dict[str, Option] = {
    "initialize": True,
    "threads": True,
    "thread_level": "multiple",
    "finalize": None,
    "fast_reduce": True,
    "recv_mprobe": True,
    "irecv_bufsz": 32768,
    "errors": "exception",
}


# whether any process has set an option: most do not, and a table for each that reads one would be wasteful
_changed = False


def _options() -> dict[str, Option]:
    """Return the options set by the current process."""
    return of_process("rc", dict[str, Option])


class Rc:
    """Runtime configuration options; every virtual process has its own."""

    def __init__(self, **kwargs: Option) -> None:
        self(**kwargs)

    def __getattr__(self, name: str) -> Option:
        if name not in _DEFAULTS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return _options().get(name, _DEFAULTS[name]) if _changed else _DEFAULTS[name]

    def __setattr__(self, name: str, value: Option) -> None:
        global _changed
        if name not in _DEFAULTS:
            raise TypeError(f"object has no attribute {name!r}")
        _changed = True
        _options()[name] = value

    def __call__(self, **kwargs: Option) -> None:
        for name in kwargs:
            if name not in _DEFAULTS:
                raise TypeError(f"unexpected argument {name!r}")
        for name, value in kwargs.items():
            setattr(self, name, value)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_DEFAULTS]

    def __repr__(self) -> str:
        return "<mpi4py.rc>"


rc = Rc()


class Options(NamedTuple):
    """The options with which a process has imported MPI; see `mpi4py.Rc` for their meanings."""

    initialize: bool = True
    threads: bool = True
    thread_level: int = c.THREAD_MULTIPLE
    finalize: bool = True
    fast_reduce: bool = True
    recv_mprobe: bool = True
    irecv_bufsz: int = 32768
    errors: str = "exception"
    pickle_protocol: int = HIGHEST_PROTOCOL
    pickle_threshold: int = 1024**2 // 4


_USUAL = Options()
_observers: list[Callable[[Options], object]] = []
_is_set_outside = False  # whether environment variables set options before any rank runs

_LEVELS = {
    "single": c.THREAD_SINGLE,
    "funneled": c.THREAD_FUNNELED,
    "serialized": c.THREAD_SERIALIZED,
    "multiple": c.THREAD_MULTIPLE,
}


def read_environment() -> None:
    """Check at the start of a run whether the environment sets mpi4py options."""
    global _is_set_outside
    _is_set_outside = any(name.startswith(("MPI4PY_RC_", "MPI4PY_PICKLE_")) for name in os.environ)


def current_options() -> Options:
    """Return the options with which the current process has imported MPI."""
    return of_process("options", _read) if _changed or _is_set_outside or changed_variables else _USUAL


def on_unusual_options(observer: Callable[[Options], object]) -> None:
    """Register a function for imports of MPI with unusual options.

    It is called with the options of the process.
    """
    _observers.append(observer)


def note_import() -> None:
    """Note that the current process imports MPI."""
    current_options()


def use(options: Options) -> None:
    """Give the current process options that its environment does not change, for programs that do not use mpi4py."""
    global _changed
    _changed = True
    of_process("options", lambda: options)
    for observer in _observers:
        observer(options)


class _Spec(ModuleSpec):
    """The specification of a module.

    Python asks it at each import whether initialisation is in progress.
    """

    @property
    def _initializing(self) -> bool:
        note_import()
        return False

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        """Ignore the value, which Python sets during the first import."""


def with_import_hook(spec: ModuleSpec | None) -> ModuleSpec:
    """Return the specification of `MPI` that notices imports.

    ``from mpi4py import MPI`` uses only the package.
    """
    assert spec is not None
    own_spec = _Spec(spec.name, spec.loader, origin=spec.origin)
    own_spec.has_location = spec.has_location
    own_spec.cached = spec.cached
    return own_spec


def _read() -> Options:
    """Read the options and apply their immediate effects."""
    values = {name: _value_of(name, default) for name, default in _DEFAULTS.items()}
    read: dict[str, Any] = {}
    for name, value in values.items():
        read_one: Callable[[Any], Any] = _READERS.get(name, _flag)
        meaning = read_one(value)
        if meaning is None:
            message = f"mpi4py.rc.{name}: unexpected value {value!r}"
            warnings.warn_explicit(message, RuntimeWarning, "<frozen importlib._bootstrap>", 241, registry={})
        else:
            read[name] = meaning
    for name in ("pickle_protocol", "pickle_threshold"):
        if (text := os.environ.get(f"MPI4PY_{name.upper()}")) is not None:
            read[name] = int(text)
    options = Options(**read)
    for observer in _observers:
        observer(options)
    return options


def _value_of(name: str, default: Option) -> Option:
    """Return the value of an option from the environment, or else as set by the program."""
    text = os.environ.get(f"MPI4PY_RC_{name.upper()}")
    if text is None:
        found: Option = getattr(rc, name)
        return found
    value: Option = text.lower()
    if type(default) is int and text.isdecimal():
        value = int(text)
    elif text.lower() in _WORDS:
        value = _WORDS[text.lower()]
    setattr(rc, name, value)
    return value


_WORDS = {
    **dict.fromkeys(("", "0", "n", "no", "off", "false"), False),
    **dict.fromkeys(("1", "y", "yes", "on", "true"), True),
}


def _flag(value: object) -> bool | None:
    """Return a boolean option as mpi4py reads it; None if invalid."""
    if value in (True, "yes"):
        return True
    return False if value in (False, "no") else None


_READERS: dict[str, Callable[[Any], Any]] = {
    "thread_level": lambda value: _LEVELS.get(value) if isinstance(value, str) else None,
    "finalize": lambda value: value is None or _flag(value),  # like MPICH, forgive a program that forgets it
    "irecv_bufsz": lambda value: value if type(value) is int and value >= 0 else None,
    "errors": lambda value: value if value in ("default", "exception", "abort", "fatal") else None,
}
"""Readers of options that are not simply on or off; they return None for invalid values."""
