"""What is a rank's own, and what all ranks share, by where it has been written."""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from xsim_py.whose import is_installed

if TYPE_CHECKING:
    from .rank import Rank

__all__ = ["is_own_class", "is_shared_import", "owns"]


def owns(rank: Rank, names: dict[str, Any]) -> bool:
    """Whether these are the globals of one of the rank's own modules."""
    if rank.main is not None and names is vars(rank.main):
        return True
    module = None if rank.modules is None else rank.modules.get(str(names.get("__name__")))
    return module is not None and vars(module) is names


def is_own_class(rank: Rank, cls: type) -> bool:
    """Whether a class has been made in one of the rank's own modules."""
    return (cls.__module__ == "__main__" and rank.main is not None) or cls.__module__ in (rank.modules or ())


def is_shared_import(rank: Rank) -> bool:
    """Whether the caller is at work because a module is being imported that all ranks share."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            if owns(rank, frame.f_globals):
                return False
            if is_installed(frame.f_code.co_filename):
                return True
        frame = frame.f_back
    return False
