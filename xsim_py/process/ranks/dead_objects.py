"""Where dead ranks are kept: none of their code may run, not even what the end of an object's life would run."""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = ["DEAD_GREENLET", "keep_for_ever"]


class _DeadGreenlet:
    """Takes the place of a dead fiber's greenlet: whoever would wake it finds nobody."""

    __slots__ = ()
    dead = False

    def switch(self, *_: Any) -> None:
        """Do nothing."""


DEAD_GREENLET: Any = _DeadGreenlet()


def keep_for_ever(thing: object) -> None:
    """Never free `thing`. That costs its memory until this process ends, and then Python does not look at it either."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
