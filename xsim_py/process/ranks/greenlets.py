"""Detection of programs that use greenlets themselves, which makes each wait slightly slower; see `fiber`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from greenlet import greenlet

from . import current, fiber
from .own_modules import from_modules
from .patches import Patches, Table

_modules = sys.modules


def _noticed(name: str) -> property:
    """Return a property for an attribute of `greenlet` that only programs using greenlets access."""

    def value(module: ModuleType) -> object:
        if current.here() is not None:
            fiber.record_greenlets(True)
        return vars(module)[name]

    return property(value)


class _GreenletModule(ModuleType):
    greenlet = _noticed("greenlet")
    _C_API = _noticed("_C_API")


PATCHED: Table = (("greenlet", "watched: the simulator records the use of greenlets", {"__class__": _GreenletModule}),)


@from_modules
def _names() -> list[tuple[str, dict[str, Any]]]:
    """Return the names in each module: asking each module for them takes a millisecond."""
    return [(name, each.__dict__) for name, each in _modules.copy().items() if hasattr(each, "__dict__")]


def install(patches: Patches) -> None:
    """Detect programs that use greenlets, for the duration of a run."""
    patches.install(PATCHED)
    candidates = [(name, names["greenlet"]) for name, names in _names() if "greenlet" in names]
    fiber.record_greenlets(any(_is_greenlet(name, found) for name, found in candidates))


def _is_greenlet(name: str, found: object) -> bool:
    """Return True if a package that ranks share imported `greenlet` before the run."""
    return found in (greenlet, _modules["greenlet"]) and not name.startswith(("greenlet", "xsim_py"))
