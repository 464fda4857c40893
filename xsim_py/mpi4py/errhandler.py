"""`MPI.Errhandler`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from xsim_py.mpi import constants as c
from xsim_py.mpi import errhandler as handlers
from xsim_py.mpi4py.handle import Handle, Null, UserFunctions, handle_of, predefine, predefine_null

__all__ = ["ERRHANDLER_NULL", "ERRORS_ABORT", "ERRORS_ARE_FATAL", "ERRORS_RETURN", "Errhandler"]


class Errhandler(Handle):
    """Error handler."""

    __slots__ = ()

    _null = Null("ERRHANDLER_NULL")
    _error = c.ERR_ERRHANDLER

    def __new__(cls, errhandler: Errhandler | None = None) -> Self:
        return cls._copy(errhandler)

    def free(self) -> None:
        if self:
            self.Free()

    def Free(self) -> None:
        handler: handlers.ErrorHandler = self._live()
        UserFunctions.of(f"{handler.kind} error handler").unregister(handler)
        self._set_null()


def create_errhandler(kind: str, function: Callable[[Any, int], object]) -> Errhandler:
    """Create the handler of a user's function: the body of every ``Create_errhandler``."""
    if not callable(function):
        raise TypeError(f"an error handler is a function, not {type(function).__name__}")
    handler = handlers.ErrorHandler(f"{kind} error handler", function, kind)
    return handle_of(Errhandler, UserFunctions.of(f"{kind} error handler").register(handler))


ERRHANDLER_NULL = predefine_null(Errhandler, 0x140)
ERRORS_ARE_FATAL = predefine(Errhandler, "ERRORS_ARE_FATAL", handlers.ARE_FATAL, 0x141)
ERRORS_ABORT = predefine(Errhandler, "ERRORS_ABORT", handlers.ABORT, 0x142)
ERRORS_RETURN = predefine(Errhandler, "ERRORS_RETURN", handlers.RETURN, 0x143)
