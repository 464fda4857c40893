"""`warnings` in a rank: each has its own filters, its own ways to show and to catch them, and remembers its own.

The interpreter reads ``warnings.filters`` and the like whenever something warns, so those of a rank are in their places
while it runs, once it has touched them (`private_state`). What has been shown already is remembered where the line is
that has warned. The modules of the program are private, and so is that; in a module that all ranks share nothing is
remembered, and each rank is asked whether it has seen this warning before.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import is_simulator
from xsim_py.process.ranks import current, private_state
from xsim_py.process.ranks.patches import Around, Patches, Table, in_ranks, watched, with_real

if TYPE_CHECKING:
    from types import FrameType

    from xsim_py.process.ranks.rank import Rank

_REGISTRY = "__warningregistry__"
_NAMES = ("filters", "onceregistry", "defaultaction", "showwarning", "formatwarning", "_showwarnmsg_impl")
_module = vars(warnings)

_forgetful: list[tuple[dict[str, Any], Any]] = []
"""The globals of shared modules in which nothing is remembered for now, and what was."""


def _get() -> tuple[Any, ...]:
    return tuple(_module[name] for name in _NAMES)


def _set(values: tuple[Any, ...]) -> None:
    _module.update(zip(_NAMES, values, strict=True))


_SETTING = private_state.Setting(_get, _set, passes=True)


def _touch(rank: Rank) -> None:
    """Give a rank warnings of its own, as it is about to change something."""
    if rank.private_state is None or "warnings" not in rank.private_state:
        private_state.touch(rank, "warnings", _SETTING)
        _module["filters"] = list(_module["filters"])
        _module["onceregistry"] = dict(_module["onceregistry"])


class _OwnWarnings(private_state.OwnAttributes):
    """The class of module `warnings` during a run: a rank that assigns ``warnings.filters`` gets filters of its own."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _NAMES:
            fiber = current.here()
            if fiber is not None:
                _touch(fiber.rank)
            _module[name] = value
        else:
            super().__setattr__(name, value)


def _mutated() -> None:
    """Let the running rank see warnings again that it has seen, as filters have changed."""
    rank = current.rank()
    for module in (rank.main, *(rank.modules or {}).values()):
        registry = vars(module).get(_REGISTRY) if module is not None else None
        if registry:
            registry.clear()
    if rank.extra is not None:
        rank.extra.pop("warned", None)


def _show(show: Callable[[Any], None], warning: warnings.WarningMessage) -> None:
    """Show a warning, unless the rank has seen it before: for modules that ranks share, that is found out here."""
    fiber = current.here()
    frame = None if fiber is None or _asked else _caller(warning)
    if fiber is None or frame is None or _is_private(fiber.rank, frame):
        show(warning)
        return
    names = frame.f_globals
    # With None in its place the interpreter remembers nothing for that module, so it asks again in every rank.
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
"""Not empty while a rank is asked, which comes to `_show` again."""


def _ask(rank: Rank, warning: warnings.WarningMessage, file: str, line: int, names: dict[str, Any]) -> None:
    """Warn again of a line, with what the rank remembers of the module in which it stands."""
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
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (frame.f_lineno != warning.lineno or frame.f_code.co_filename != warning.filename):
        frame = frame.f_back
    return frame


def _is_private(rank: Rank, frame: FrameType) -> bool:
    return not is_simulator(frame.f_code.co_filename) and rank.owns(frame.f_globals)


def _remember_again() -> None:
    while _forgetful:
        names, registry = _forgetful.pop()
        if registry is None:
            names.pop(_REGISTRY, None)
        else:
            names[_REGISTRY] = registry


PATCHED: Table = (
    ("warnings", "private", {"showwarning": Around(lambda real: real), "formatwarning": Around(lambda real: real)}),
    ("warnings", "private", {"_showwarnmsg": with_real(_show), "_filters_mutated": in_ranks(_mutated)}),
    ("warnings", "private", {"_add_filter": watched(_touch), "resetwarnings": watched(_touch)}),
    ("warnings.catch_warnings", "private", {"__enter__": watched(_touch)}),
    ("warnings", "private: assignments of a rank", {"__class__": _OwnWarnings}),
)


def install(patches: Patches) -> None:
    """Let each rank have its warnings for the duration of a run."""
    patches.at_end(partial(_restore, list(warnings.filters)))
    patches.at_end(_remember_again)
    patches.install(PATCHED)


def _restore(filters: list[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]
