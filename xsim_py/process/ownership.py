"""Globals and classes are a rank's own where they stand in one of its own modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .rank import Rank

__all__ = ["is_own_class", "owns"]


def owns(rank: Rank, names: dict[str, Any]) -> bool:
    """Tell whether these are the globals of one of the rank's own modules."""
    if rank.main is not None and names is vars(rank.main):
        return True
    module = None if rank.modules is None else rank.modules.get(str(names.get("__name__")))
    return module is not None and vars(module) is names


def is_own_class(rank: Rank, cls: type) -> bool:
    """Tell whether a class has been made in one of the rank's own modules."""
    return (cls.__module__ == "__main__" and rank.main is not None) or cls.__module__ in (rank.modules or ())
