"""`logging` and `warnings` in a rank: it configures its own logging, and what it does to warnings ends with the run.

A warning of what xsim does for a rank, such as numpy's of a sum that is too large, is one of the line that has called.
So it is shown once for each rank, and not for the first one that comes by, which depends on shards.

Loggers are shared by name, but what a program sets on them is private. In each rank the root logger begins as in a new
process, whatever the simulator's caller has made of it; the others begin as the packages that own them have left them.
"""

from __future__ import annotations

import logging
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from . import clock, current
from .patches import Patches

__all__ = ["install"]

_OURS = str(Path(__file__).parents[1]) + "/"
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
    show = warnings._showwarnmsg  # type: ignore[attr-defined]
    patches.set(warnings, "_showwarnmsg", partial(_show, show))
    filters = list(warnings.filters)
    patches.at_end(lambda: _restore(filters))


def _show(show: Any, warning: warnings.WarningMessage) -> None:
    """Show a warning; of one that comes from here ask again, where the program has called."""
    frame = sys._getframe(1) if warning.filename.startswith(_OURS) and current.here() is not None else None
    while frame is not None and frame.f_code.co_filename != warning.filename:
        frame = frame.f_back
    if frame is not None:
        frame.f_globals["__warningregistry__"] = None  # nothing is remembered here: the next one comes, too
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    if frame is None:
        show(warning)
        return
    warnings.warn_explicit(
        warning.message,
        warning.category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__"),
        frame.f_globals.setdefault("__warningregistry__", {}),
        source=warning.source,
    )


def _restore(filters: list[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]
