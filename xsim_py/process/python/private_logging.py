"""`logging` in a rank: each rank has its own configuration, from logger levels to shutdown.

A logger is the same object in all ranks, because shared packages keep it in a global. But each rank has its own values
of its attributes, of the logging manager, of the lists of handlers and levels, and of whatever it assigns in the
module. In each rank the root logger starts as in a new process, whatever the simulator's caller has configured; the
others start as the packages that own them have left them. A rank that sets a logger class creates its own loggers.

Changes that a package makes to its loggers during an import shared by all ranks apply to all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, MutableMapping
from functools import wraps
from typing import Any

from xsim_py.process.ranks import current, private_state
from xsim_py.process.ranks.patches import Patches, Table, Wrapper, in_ranks, watched
from xsim_py.process.ranks.private_containers import of_each_rank
from xsim_py.process.ranks.rank import EPOCH_S, Rank

from .sys_modules import is_for_all

_NEW_ROOT = {"level": logging.WARNING, "propagate": True, "disabled": False}
_OF_LOGGERS = ("handlers", "filters", "level", "propagate", "disabled", "parent")
_OF_MANAGERS = ("_disable", "emittedNoHandlerWarning", "loggerClass", "logRecordFactory")
_SAME = frozenset(("name", "manager", "_cache", "__class__", "__dict__"))
_SETTINGS = "logging"
"""The key under which a rank keeps its settings, by name and logger."""

_ENABLED = "logging is enabled"
"""The key under which a rank caches whether loggers are enabled, by logger and level."""

_NONE: dict[Any, Any] = {}
_NOTHING = object()


def _settings(rank: Rank) -> dict[Any, Any]:
    settings: dict[Any, Any] = rank.private(_SETTINGS, dict)
    return settings


class _PrivateSetting:
    """An attribute of a logger, or of the manager, with a separate value in each rank."""

    def __init__(self, name: str, usual: object = _NOTHING) -> None:
        self.name = name
        self.usual = usual  # the class attribute of this name, if any

    def __get__(self, logger: object, owner: object = None) -> object:
        if logger is None:
            return self if self.usual is _NOTHING else self.usual
        fiber = current.here()
        if fiber is None:
            return self._shared(logger)
        settings = (fiber.rank.extra or _NONE).get(_SETTINGS, _NONE)
        value = settings.get((self.name, logger), _NOTHING)
        if value is _NOTHING:
            value = self._first(logger)
            if isinstance(value, list):
                _settings(fiber.rank)[self.name, logger] = value
        return value

    def __set__(self, logger: object, value: object) -> None:
        fiber = current.here()
        if fiber is None or is_for_all():
            logger.__dict__[self.name] = value
        if fiber is not None:
            _settings(fiber.rank)[self.name, logger] = value
            _forget_enabled()

    def __delete__(self, logger: Any) -> None:
        fiber = current.here()
        table, key = (logger.__dict__, self.name) if fiber is None else (_settings(fiber.rank), (self.name, logger))
        if key not in table:
            raise AttributeError(self.name)
        del table[key]

    def _shared(self, logger: object) -> object:
        if self.name in logger.__dict__:
            return logger.__dict__[self.name]
        if self.usual is _NOTHING:
            raise AttributeError(f"{type(logger).__name__!r} object has no attribute {self.name!r}")
        get = getattr(type(self.usual), "__get__", None)
        return self.usual if get is None else get(self.usual, logger, type(logger))

    def _first(self, logger: object) -> object:
        """Return the value for a rank that has not set it."""
        if isinstance(logger, logging.RootLogger) and self.name in _OF_LOGGERS:
            return None if self.name == "parent" else _NEW_ROOT.get(self.name, [])
        shared = self._shared(logger)
        return list(shared) if isinstance(shared, list) else shared


def _forget_enabled(*_: object) -> None:
    """Clear the running rank's cache of enabled levels."""
    fiber = current.here()
    if fiber is not None and fiber.rank.extra is not None:
        fiber.rank.extra.pop(_ENABLED, None)


def _is_enabled(real: Callable[..., bool]) -> Callable[..., bool]:
    """Return ``isEnabledFor`` with a cache per rank: most log calls are not shown, so this has to be fast."""

    def is_enabled_for(self: logging.Logger, level: int) -> bool:
        fiber = current.here()
        if fiber is None:
            return real(self, level)
        try:
            # Found at once, or an exception: a membership test would slow down each call that logs nothing.
            enabled: bool = fiber.rank.extra[_ENABLED][self, level]  # type: ignore[index]
        except (KeyError, TypeError):
            enabled = not self.disabled and self.manager.disable < level and level >= self.getEffectiveLevel()
            fiber.rank.private(_ENABLED, dict)[self, level] = enabled
        return enabled

    return is_enabled_for


def _set_attribute(self: object, name: str, value: object) -> None:
    """Set an attribute of a logger; in a rank, its class has a private setting of this name from then on."""
    fiber = current.here()
    cls = type(self)
    if fiber is not None and name not in _SAME and not fiber.rank.has_made(cls):
        usual = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), _NOTHING)
        if not hasattr(type(usual), "__set__"):
            Patches.latest.set(cls, name, _PrivateSetting(name, usual))
    object.__setattr__(self, name, value)


# ------------------------------------------------------------------------------------------------- loggers by name


class _Loggers(MutableMapping[str, Any]):
    """The loggers by name, as a rank sees them: those from before the run and those it has requested itself."""

    def __init__(self, shared: dict[str, Any]) -> None:
        self.shared = shared
        self.of_ranks: set[str] = set()  # the names in `shared` that exist only because some rank has requested them

    def of_rank(self) -> dict[str, Any]:
        """Return the loggers that the running rank has requested; None marks one that it has deleted."""
        loggers: dict[str, Any] = current.running().rank.private("loggers", dict)
        return loggers

    def _seen(self) -> dict[str, Any]:
        if current.here() is None:
            return self.shared
        seen = {name: value for name, value in self.shared.items() if name not in self.of_ranks}
        seen.update(self.of_rank())
        return {name: value for name, value in seen.items() if value is not None}

    def __getitem__(self, name: str) -> Any:
        return self._seen()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen())

    def __len__(self) -> int:
        return len(self._seen())

    def __setitem__(self, name: str, logger: object) -> None:
        (self.shared if current.here() is None else self.of_rank())[name] = logger

    def __delitem__(self, name: str) -> None:
        fiber = current.here()
        if fiber is None:
            del self.shared[name]
            return
        gone = self[name]
        self.of_rank()[name] = None
        settings = _settings(fiber.rank)
        for key in [key for key in settings if key[1] is gone]:
            del settings[key]

    def get_logger(self, manager: object, name: str, real: Callable[..., Any]) -> Any:
        """Return the running rank's logger of a name, creating it if needed."""
        own = self.of_rank()
        if isinstance(own.get(name), logging.Logger):
            return own[name]
        fiber = current.running()
        cls = manager.loggerClass or logging._loggerClass  # type: ignore[attr-defined]
        there: Any = self.shared.get(name)
        is_there = isinstance(there, logging.Logger)
        if is_there and (name not in self.of_ranks or type(there) is cls):
            logger = there
        elif is_there or fiber.rank.has_made(cls):
            logger = cls(name)
            logger.manager = manager
            self._adopt(logger, own)
        else:
            before = set(self.shared)
            with current.outside():
                logger = real(manager, name)
            if not is_for_all():
                self.of_ranks |= self.shared.keys() - before | {name}
        own[name] = logger
        for parent in _parents(name):
            if parent not in own and (parent not in self.shared or parent in self.of_ranks):
                own[parent] = logging.PlaceHolder(logger)
        return logger

    def _adopt(self, logger: logging.Logger, own: dict[str, Any]) -> None:
        """Insert a logger that belongs to one rank into the hierarchy."""
        seen = {name: each for name, each in self.items() if isinstance(each, logging.Logger)}
        logger.parent = next((seen[name] for name in _parents(logger.name) if name in seen), logging.root)
        for name, each in seen.items():
            above: Any = each.parent
            if name.startswith(f"{logger.name}.") and (above is logging.root or len(above.name) < len(logger.name)):
                each.parent = logger


def _parents(name: str) -> Iterator[str]:
    """Yield the names of a logger's parents, from the nearest one up."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def _getting(real: Callable[..., Any]) -> Callable[..., Any]:
    loggers: Any = logging.Logger.manager.loggerDict

    @wraps(real)
    def get_logger(self: Any, name: str) -> Any:
        if current.here() is None or self.loggerDict is not loggers or not isinstance(name, str):
            return real(self, name)
        return loggers.get_logger(self, name, real)

    return get_logger


# ---------------------------------------------------------------------------------------------------------- for a run


def _adding(real: Callable[..., None], name: str) -> Callable[..., None]:
    """Wrap a method that adds to a list of a logger: additions during a shared import apply to all ranks."""

    @wraps(real)
    def add(self: object, what: object) -> None:
        fiber = current.here()
        if fiber is not None and isinstance(self, logging.Logger) and is_for_all():
            self.__dict__[name].append(what)
        real(self, what)

    return add


_CHANGING = {
    "setLoggerClass": "_loggerClass",
    "setLogRecordFactory": "_logRecordFactory",
    "captureWarnings": "_warnings_showwarning",
}


def _shut_down_at_end() -> None:
    """Call `logging.shutdown` at the end of a process that has handlers, after its other exit functions."""
    current.running().rank.private("atexit", list).insert(0, (logging.shutdown, (), {}))


def _started(real: float) -> int:
    return EPOCH_S * (10**9 if isinstance(real, int) else 1)  # nanoseconds since Python 3.13


def _lists(name: str, **options: Any) -> Wrapper:
    return Wrapper(lambda real: of_each_rank(f"logging.{name}", real, **options))


PATCHED: Table = (
    ("logging", "virtual: the start of the job", {"_startTime": Wrapper(_started)}),
    ("logging.Logger", "private", {name: _PrivateSetting(name) for name in _OF_LOGGERS}),
    ("logging.Manager", "private", {name: _PrivateSetting(name) for name in _OF_MANAGERS}),
    ("logging.Logger", "private", {"isEnabledFor": Wrapper(_is_enabled), "addHandler": Wrapper(_adding, "handlers")}),
    ("logging.Logger", "private", {"__setattr__": _set_attribute}),
    ("logging.Filterer", "private", {"addFilter": Wrapper(_adding, "filters")}),
    ("logging.Manager", "private", {"_clear_cache": in_ranks(_forget_enabled)}),
    ("logging.Logger.manager", "private: loggers of the rank", {"loggerDict": Wrapper(_Loggers)}),
    ("logging.Manager", "private: loggers of the rank", {"getLogger": Wrapper(_getting)}),
    ("logging", "private", {name: _lists(name) for name in ("_levelToName", "_nameToLevel")}),
    ("logging", "private", {"_handlerList": _lists("_handlerList", empty=True, begin=_shut_down_at_end)}),
    ("logging", "private", {"_handlers": _lists("_handlers", empty=True)}),
    ("logging.shutdown", "private", {"__defaults__": Wrapper(lambda _: (vars(logging)["_handlerList"],))}),
    (
        "logging",
        "private",
        {name: watched(private_state.own_attribute, logging, changed) for name, changed in _CHANGING.items()},
    ),
    ("logging", "private: assignments by the rank", {"__class__": private_state.OwnAttributes}),
)
