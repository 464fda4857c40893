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


PATCHED: Table = (("greenlet", "watched: use by a program", {"__class__": _GreenletModule}),)


def install(patches: Patches) -> None:
    """Detect programs that use greenlets, for the duration of a run."""
    patches.install(PATCHED)
    candidates = [name for name, each in _modules.copy().items() if "greenlet" in getattr(each, "__dict__", ())]
    fiber.record_greenlets(any(map(_has_greenlets, candidates)))


def _has_greenlets(name: str) -> bool:
    """Return True if a package that ranks share imported `greenlet` before the run."""
    found = vars(_modules[name])["greenlet"]
    return found in (greenlet, _modules["greenlet"]) and not name.startswith(("greenlet", "xsim_py"))
