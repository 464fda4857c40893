"""`logging` and `warnings` in a rank: it configures its own logging, and what it does to warnings ends with the run.

Loggers are shared by name, but what a program sets on them is private. In each rank the root logger begins as in a new
process, whatever the simulator's caller has made of it; the others begin as the packages that own them have left them.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

from . import clock, current
from .patches import Patches

__all__ = ["install"]

_NEW_ROOT = {"level": logging.WARNING, "propagate": True, "disabled": False}


class _PrivateSetting:
    """An attribute of a logger of which each rank has its own value."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, logger: Any, owner: Any = None) -> Any:
        if logger is None:
            return self
        fiber = current.here()
        if fiber is None:
            return logger.__dict__[self.name]
        settings = fiber.rank.private("logging", dict)
        key = (logger, self.name)
        if key not in settings:
            settings[key] = self._first(logger)
        return settings[key]

    def __set__(self, logger: Any, value: Any) -> None:
        fiber = current.here()
        if fiber is None or self.name not in logger.__dict__:
            logger.__dict__[self.name] = value
        if fiber is not None:
            fiber.rank.private("logging", dict)[logger, self.name] = value

    def _first(self, logger: Any) -> Any:
        shared = logger.__dict__[self.name]
        if isinstance(shared, dict):  # what the logger remembers of levels
            return {}
        if isinstance(logger, logging.RootLogger):
            return _NEW_ROOT.get(self.name, [])
        return list(shared) if isinstance(shared, list) else shared


def install(patches: Patches) -> None:
    """Let each rank have its logging for the duration of a run."""
    for name in ("handlers", "filters", "level", "propagate", "disabled", "_cache"):
        patches.add(logging.Logger, name, _PrivateSetting(name))
    started = getattr(logging, "_startTime")  # noqa: B009  in nanoseconds since Python 3.13
    patches.set(logging, "_startTime", clock.EPOCH_S * (10**9 if isinstance(started, int) else 1))
    patches.set(warnings, "showwarning", warnings.showwarning)
    patches.set(warnings, "formatwarning", warnings.formatwarning)
    filters = list(warnings.filters)
    patches.at_end(lambda: _restore(filters))


def _restore(filters: list[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]
