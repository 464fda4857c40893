"""Delivery of errors to error handlers (MPI 4.1, chapter 9.3).

Communicators, windows, files and sessions have error handlers.

A window or file has the handler of its internal communicator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from xsim_py.mpi import constants as c
from xsim_py.mpi import errhandler as handlers
from xsim_py.mpi import errors
from xsim_py.process.lifecycle import abort_job
from xsim_py.process.output.tracebacks import report
from xsim_py.process.ranks import current

from .errhandler import Errhandler, create_errhandler
from .handle import Handle, handle_of
from .inside import live_impl
from .options import current_options

__all__ = ["BoundHandler", "HandleFactory", "HasErrorHandler", "Reporting", "first_handler"]


class Reporting:
    """Passes an error to an error handler; after a user's handler the call continues.

    Hot path: each call of a window has one, hence not by `contextlib`.
    """

    __slots__ = ("owner",)

    def __init__(self, owner: Any) -> None:
        self.owner = owner  # has ``report(error)``, which returns True if the handler has handled the error

    def __enter__(self) -> None:
        """Do nothing on entry."""

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> bool:
        return isinstance(error, errors.Exception) and self.owner.report(error)


class HandleFactory:
    """Creates the argument of a user's error handler.

    It is the window or file of an internal communicator.
    """

    __slots__ = ("cls", "impl")

    def __init__(self, cls: Any, impl: object) -> None:
        self.cls = cls  # the class of the argument
        self.impl = impl  # the object of the handle

    def make(self) -> Any:
        """Return the argument."""
        return handle_of(self.cls, self.impl)


class BoundHandler:
    """An error handler as called by a communicator."""

    __slots__ = ("factory", "handler")

    def __init__(self, handler: handlers.ErrorHandler, factory: Any) -> None:
        self.handler = handler
        self.factory = factory  # the class or `HandleFactory` of the object passed to a user's function

    def __call__(self, comm: Any, error: errors.Exception) -> bool:
        """Act on an error; return True if the user's function has handled it."""
        if current.events is not None:
            current.events.handled(error)
        function = self.handler.function
        if function is None:
            rank = comm.box.rank.number
            status = error.Get_error_class() & 0xFF or 1  # a class of the program may be a multiple of 256
            abort_job(status, f"{self.handler.name} at rank {rank} on {comm.label()}: {error}")
        try:
            is_fixed = isinstance(self.factory, HandleFactory)
            handle = self.factory.make() if is_fixed else handle_of(self.factory, comm)
            function(handle, error.Get_error_code())
        except Exception as problem:
            report(problem)
            abort_job(1, f"an error handler raised {type(problem).__name__}: {problem}")
        return True


def first_handler(factory: object, mpi_default: BoundHandler | None) -> BoundHandler | None:
    """Return the initial error handler of an object by ``mpi4py.rc.errors``.

    The result is None for ERRORS_RETURN, the default. `factory` is that of a `BoundHandler`. `mpi_default` is MPI's own
    initial handler for such an object, which mpi4py keeps with ``"default"``.
    """
    word = current_options().errors
    if word == "default":
        return mpi_default
    predefined = {"abort": handlers.ABORT, "fatal": handlers.ARE_FATAL}
    return BoundHandler(predefined[word], factory) if word in predefined else None


class HasErrorHandler(Handle):
    """A handle whose object has an error handler."""

    __slots__ = ()

    _kind: ClassVar[str]

    def _handler_owner(self) -> Any:
        """Return the communicator or session that keeps and calls the handler."""
        raise NotImplementedError

    def _handle_factory(self) -> Any:
        """Return the factory of the object passed to a user's error handler; see `BoundHandler`."""
        return type(self)

    @classmethod
    def Create_errhandler(cls, errhandler_fn: Callable[[Any, int], None]) -> Errhandler:
        return create_errhandler(cls._kind, errhandler_fn)

    def Get_errhandler(self) -> Errhandler:
        bound = self._handler_owner().errhandler
        return handle_of(Errhandler, handlers.RETURN if bound is None else bound.handler)

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        owner = self._handler_owner()
        handler: handlers.ErrorHandler = live_impl(errhandler)
        if handler.kind not in ("", self._kind):
            owner.fail(c.ERR_ERRHANDLER, f"this error handler was made for a {handler.kind}")
        owner.errhandler = None if handler is handlers.RETURN else BoundHandler(handler, self._handle_factory())

    def Call_errhandler(self, errorcode: int) -> None:
        owner = self._handler_owner()
        if owner.errhandler is not None:
            owner.errhandler(owner, errors.Exception(errorcode))
