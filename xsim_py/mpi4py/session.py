"""`MPI.Session`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Self

from xsim_py.mpi import constants as c
from xsim_py.mpi import errhandler as handlers
from xsim_py.mpi import errors
from xsim_py.mpi import session as sessions
from xsim_py.mpi.calls import begin

from . import attached
from .commhandle import mailbox
from .errhandler import Errhandler
from .group import Group, pset_name_of
from .handle import Handle, Null
from .info import INFO_NULL, Info
from .management import BoundHandler, _items, _room, first_handler
from .request import Request, Task

__all__ = ["SESSION_NULL", "Session"]

_KIND = "Session"
_HINTS = {"thread_level": "MPI_THREAD_MULTIPLE", "mpi_memory_alloc_kinds": "mpi,system"}


class Session(Handle):
    """Session context."""

    __slots__ = ()

    _null = Null("SESSION_NULL")
    _error = c.ERR_SESSION

    def __new__(cls, session: Session | None = None) -> Self:
        return cls._copy(session)

    def free(self) -> None:
        if self:
            self.Finalize()

    @property
    def _session(self) -> sessions.Session:
        session: sessions.Session = self._live()
        return session

    @classmethod
    def Init(cls, info: Info = INFO_NULL, errhandler: Errhandler | None = None) -> Self:
        session = sessions.Session(mailbox(), {**_HINTS, **_items(info)})
        face: Any = cls
        given = handlers.ARE_FATAL if errhandler is None else errhandler._live()
        session.errhandler = first_handler(face, None if given is handlers.RETURN else BoundHandler(given, face))
        return cls._make(session)

    def Finalize(self) -> None:
        self._live()
        self._forget()

    # --------------------------------------------------------------------------------------------- process sets

    def Get_num_psets(self, info: Info = INFO_NULL) -> int:
        self._live()
        return len(sessions.PROCESS_SETS)

    def Get_nth_pset(self, n: int, info: Info = INFO_NULL) -> str:
        session, n = self._session, operator.index(n)
        if not 0 <= n < len(sessions.PROCESS_SETS):
            session.fail(c.ERR_ARG, f"process set {n} of {len(sessions.PROCESS_SETS)}")
        return sessions.PROCESS_SETS[n]

    def Get_info(self) -> Info:
        return Info.Create(self._session.info)

    def Get_pset_info(self, pset_name: str) -> Info:
        return Info.Create({"mpi_size": str(len(self._session.members(pset_name_of(pset_name))))})

    def Create_group(self, pset_name: str) -> Group:
        return Group.Create_from_session_pset(self, pset_name)

    # --------------------------------------------------------------------------------- buffers for buffered sends

    def Attach_buffer(self, buf: Any) -> None:
        attached.attach(self._session, *_room(buf))

    def Detach_buffer(self) -> Any:
        session = self._session
        return attached.detach(session, session.box)

    def Flush_buffer(self) -> None:
        attached.flush(self._session.box)

    def Iflush_buffer(self) -> Request:
        box = self._session.box
        made: Request = Request._make(Task(begin("Session.Iflush_buffer", lambda: attached.flush(box))))
        return made

    # --------------------------------------------------------------------------------------------------- errors

    @classmethod
    def Create_errhandler(cls, errhandler_fn: Callable[[Session, int], None]) -> Errhandler:
        return Errhandler._create(_KIND, errhandler_fn)

    def Get_errhandler(self) -> Errhandler:
        bound = self._session.errhandler
        return Errhandler._make(handlers.RETURN if bound is None else bound.handler)

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        session = self._session
        handler: handlers.ErrorHandler = errhandler._live()
        if handler.kind not in ("", _KIND):
            session.fail(c.ERR_ERRHANDLER, f"this error handler was made for a {handler.kind}")
        face: Any = type(self)
        session.errhandler = None if handler is handlers.RETURN else BoundHandler(handler, face)

    def Call_errhandler(self, errorcode: int) -> None:
        session = self._session
        if session.errhandler is not None:
            session.errhandler(session, errors.Exception(errorcode))


SESSION_NULL: Any = Session._constant("SESSION_NULL", Session._null, 0x120)
