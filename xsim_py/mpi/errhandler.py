"""Error handlers: the reaction to failing calls (MPI 4.1, chapter 9.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ErrorHandler:
    """One error handler."""

    __slots__ = ("function", "kind", "name")

    def __init__(self, name: str, function: Callable[[Any, int], object] | None = None, kind: str = "") -> None:
        self.name = name  # for reports
        self.function = function  # the user's, called with (object, error code); None for the predefined handlers
        # The class of objects that the user made it for: ``"Comm"``, ``"Win"``, ``"File"`` or ``"Session"``; empty for
        # the predefined handlers, which fit all.
        self.kind = kind


ARE_FATAL = ErrorHandler("MPI_ERRORS_ARE_FATAL")
ABORT = ErrorHandler("MPI_ERRORS_ABORT")
RETURN = ErrorHandler("MPI_ERRORS_RETURN")
