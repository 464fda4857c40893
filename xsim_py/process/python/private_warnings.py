"""`warnings` in a rank: each has its own filters, its own hooks, and its own record of shown warnings.

The interpreter reads ``warnings.filters`` and related attributes at every warning, so a rank's values are installed
while it runs, once it has changed them (`private_state`). Shown warnings are recorded in the module of the line that
warned. Modules of the program are private, and so is that record; in a shared module nothing is recorded, and each
rank is asked whether it has seen the warning before.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import is_simulator
from xsim_py.process.ranks import current, private_state
from xsim_py.process.ranks.patches import Patches, Table, Wrapper, in_ranks, watched, with_real

if TYPE_CHECKING:
    from types import FrameType

    from xsim_py.process.ranks.rank import Rank

_REGISTRY = "__warningregistry__"
_NAMES = ("filters", "onceregistry", "defaultaction", "showwarning", "formatwarning", "_showwarnmsg_impl")
_module = vars(warnings)

_forgetful: list[tuple[dict[str, Any], Any]] = []
"""The globals of shared modules in which recording is off for now, and their previous registries."""


def _get() -> tuple[Any, ...]:
    return tuple(_module[name] for name in _NAMES)


def _set(values: tuple[Any, ...]) -> None:
    _module.update(zip(_NAMES, values, strict=True))


_SETTING = private_state.Setting(_get, _set, passes=True)


def _touch(rank: Rank) -> None:
    """Give a rank its own warnings state, before it changes something."""
    if private_state.touch(rank, "warnings", _SETTING):
        _module["filters"] = list(_module["filters"])
        _module["onceregistry"] = dict(_module["onceregistry"])


class _OwnWarnings(private_state.OwnAttributes):
    """The class of module `warnings` during a run: a rank that assigns ``warnings.filters`` gets its own filters."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _NAMES:
            fiber = current.here()
            if fiber is not None:
                _touch(fiber.rank)
            _module[name] = value
        else:
            super().__setattr__(name, value)


def _mutated() -> None:
    """Reset the running rank's record of shown warnings, as filters have changed."""
    rank = current.rank()
    for module in (rank.main, *(rank.modules or {}).values()):
        registry = vars(module).get(_REGISTRY) if module is not None else None
        if registry:
            registry.clear()
    if rank.extra is not None:
        rank.extra.pop("warned", None)


def _show(show: Callable[[Any], None], warning: warnings.WarningMessage) -> None:
    """Show a warning, unless the rank has seen it before, which is checked here for shared modules."""
    fiber = current.here()
    frame = None if fiber is None or _asked else _caller(warning)
    if fiber is None or frame is None or _is_private(fiber.rank, frame):
        show(warning)
        return
    names = frame.f_globals
    # A registry of None stops the interpreter from recording for that module, so it asks again in every rank.
    if names.get(_REGISTRY, ()) is not None:
        _forgetful.append((names, names.get(_REGISTRY)))
        names[_REGISTRY] = None
    line, file = warning.lineno, warning.filename
    if is_simulator(file):
        while frame is not None and is_simulator(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            show(warning)
            return
        names, line, file = frame.f_globals, frame.f_lineno, frame.f_code.co_filename
    _ask(fiber.rank, warning, file, line, names)


_asked: list[bool] = []
"""Not empty during a rank's check, which calls `_show` again."""


def _ask(rank: Rank, warning: warnings.WarningMessage, file: str, line: int, names: dict[str, Any]) -> None:
    """Warn again of a line, with the rank's own registry for its module."""
    name = names.get("__name__")
    if rank.owns(names):
        registry = names.setdefault(_REGISTRY, {})
    else:
        registry = rank.private("warned", dict).setdefault(name, {})
    _asked.append(True)
    try:
        warnings.warn_explicit(warning.message, warning.category, file, line, name, registry, source=warning.source)
    finally:
        _asked.pop()


def _caller(warning: warnings.WarningMessage) -> FrameType | None:
    """Return the frame that a warning is about."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and (frame.f_lineno != warning.lineno or frame.f_code.co_filename != warning.filename):
        frame = frame.f_back
    return frame


def _is_private(rank: Rank, frame: FrameType) -> bool:
    return not is_simulator(frame.f_code.co_filename) and rank.owns(frame.f_globals)


def _remember_shown() -> None:
    while _forgetful:
        names, registry = _forgetful.pop()
        if registry is None:
            names.pop(_REGISTRY, None)
        else:
            names[_REGISTRY] = registry


PATCHED: Table = (
    ("warnings", "private", {"showwarning": Wrapper(lambda real: real), "formatwarning": Wrapper(lambda real: real)}),
    ("warnings", "private", {"_showwarnmsg": with_real(_show), "_filters_mutated": in_ranks(_mutated)}),
    ("warnings", "private", {"_add_filter": watched(_touch), "resetwarnings": watched(_touch)}),
    ("warnings.catch_warnings", "private", {"__enter__": watched(_touch)}),
    ("warnings", "private: assignments by the rank", {"__class__": _OwnWarnings}),
)


def install(patches: Patches) -> None:
    """Give each rank its own warnings for the duration of a run."""
    patches.at_end(partial(_restore, list(warnings.filters)))
    patches.at_end(_remember_shown)
    patches.install(PATCHED)


def _restore(filters: list[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]
