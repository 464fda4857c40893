"""Detection of programs that use greenlets themselves, which makes each wait slightly slower; see `fiber`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from greenlet import greenlet

from . import current, fiber
from .patches import Patches, Table

_modules = fiber._modules


def _noticed(name: str) -> property:
    """Return a property for an attribute of `greenlet` that only programs using greenlets access."""

    def value(module: ModuleType) -> Any:
        if current.here() is not None:
            fiber.record_greenlets(True)
        return vars(module)[name]

    return property(value)


class _GreenletModule(ModuleType):
    greenlet = _noticed("greenlet")
    _C_API = _noticed("_C_API")


PATCHED: Table = (("greenlet", "watched: use by the program", {"__class__": _GreenletModule}),)


_looked_at: tuple[list[str], bool] = [], False
"""The modules that the last run began with, and whether one of them uses greenlets: looking takes a millisecond."""


def install(patches: Patches) -> None:
    """Detect programs that use greenlets, for the duration of a run."""
    global _looked_at
    patches.install(PATCHED)
    names = [*_modules]
    if names != _looked_at[0]:
        _looked_at = names, any(_has_greenlets(name, module) for name, module in _modules.copy().items())
    fiber.record_greenlets(_looked_at[1])


def _has_greenlets(name: str, module: Any) -> bool:
    """Return True if a package that ranks share imported `greenlet` before the run."""
    found = getattr(module, "__dict__", {}).get("greenlet")
    return found in (greenlet, _modules["greenlet"]) and not name.startswith(("greenlet", "xsim_py"))
