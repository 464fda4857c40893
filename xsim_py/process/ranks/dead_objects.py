"""Objects of dead ranks are kept for ever: none of their code may run, not even a finalizer."""

from __future__ import annotations

import ctypes
from typing import Any


class _DeadGreenlet:
    """The greenlet of a dead fiber: whoever would wake it wakes nobody."""

    __slots__ = ()
    dead = False

    def switch(self, *_: Any) -> None:
        """Do nothing."""


DEAD_GREENLET: Any = _DeadGreenlet()


def keep_for_ever(thing: object) -> None:
    """Never free `thing`. That costs its memory until this process ends, and then Python does not look at it either."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
