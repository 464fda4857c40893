"""What a rank finds in the interpreter: its own ``__main__``, ``sys.argv`` and private modules.

Real processes share nothing. Here all ranks share one interpreter, so what is a process's own is swapped when the
simulator switches ranks: two dictionary stores, and two more for each private module that the program has.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from .rank import Rank

__all__ = ["forget", "install", "installed"]

installed: Rank | None = None
"""The rank whose modules are in ``sys.modules`` now."""

_outside: tuple[ModuleType, list[str]] | None = None


def install(rank: Rank) -> None:
    """Make the interpreter look as `rank` knows it."""
    global installed
    previous = installed
    installed = rank
    modules = sys.modules
    if previous is None:
        _remember()
    elif previous.modules is not None:
        for name in previous.modules:
            modules.pop(name, None)
    main = rank.main
    if main is not None:
        modules["__main__"] = main
        sys.argv = rank.argv  # type: ignore[assignment]
    if rank.modules is not None:
        modules.update(rank.modules)


def _remember() -> None:
    global _outside
    _outside = (sys.modules["__main__"], sys.argv)


def forget() -> None:
    """Put back what was there before the first `install`."""
    global installed, _outside
    if installed is not None and installed.modules:
        for name in installed.modules:
            sys.modules.pop(name, None)
    if _outside is not None:
        sys.modules["__main__"], sys.argv = _outside
    installed = _outside = None
