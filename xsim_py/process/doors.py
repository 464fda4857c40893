"""All that gives a rank its own part of Python and of its process is put in place here, while a run lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import environment, fiber, finalizers, life, logs, loops, own, settings, threads, warned, watchers

if TYPE_CHECKING:
    from .patches import Patches

__all__ = ["install_doors"]


def install_doors(patches: Patches) -> None:
    """Put all of them in place; the order matters where one calls what another has replaced."""
    for part in (fiber, life, threads, own, environment, settings, finalizers, loops, watchers, logs, warned):
        part.install(patches)
