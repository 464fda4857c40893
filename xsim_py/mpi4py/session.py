"""`MPI.Session`."""

from __future__ import annotations

import operator
from typing import Any, Self

from xsim_py.mpi import constants as c
from xsim_py.mpi import errhandler as handlers
from xsim_py.mpi import session as sessions
from xsim_py.mpi.calls import begin

from . import send_buffers
from .commhandle import mailbox
from .errhandler import Errhandler
from .errhandling import BoundHandler, HasErrorHandler, first_handler
from .group import Group, pset_name_of
from .handle import Null, handle_of, predefine_null
from .info import INFO_NULL, Info, items_of
from .inside import live_impl
from .phase import of_process_now
from .request import Request, Task

__all__ = ["SESSION_NULL", "Session"]

_HINTS = {"thread_level": "MPI_THREAD_MULTIPLE", "mpi_memory_alloc_kinds": "mpi,system"}


class Session(HasErrorHandler):
    """Session context."""

    __slots__ = ()

    _kind = "Session"

    _null = Null("SESSION_NULL")
    _error = c.ERR_SESSION

    def __new__(cls, session: Session | None = None) -> Self:
        return cls._copy(session)

    def free(self) -> None:
        if self:
            self.Finalize()

    @property
    def _session(self) -> sessions.SessionState:
        session: sessions.SessionState = self._live()
        return session

    @classmethod
    def Init(cls, info: Info = INFO_NULL, errhandler: Errhandler | None = None) -> Self:
        of_process_now().has_session = True
        session = sessions.SessionState(mailbox(), {**_HINTS, **items_of(info)})
        factory: Any = cls
        handler = handlers.ARE_FATAL if errhandler is None else live_impl(errhandler)
        session.errhandler = first_handler(
            factory, None if handler is handlers.RETURN else BoundHandler(handler, factory)
        )
        return cls._make(session)

    def Finalize(self) -> None:
        self._live()
        self._set_null()

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

    def Attach_buffer(self, buf: object) -> None:
        send_buffers.attach(self._session, *send_buffers.size_of(buf))

    def Detach_buffer(self) -> Any:
        session = self._session
        return send_buffers.detach(session, session.box)

    def Flush_buffer(self) -> None:
        send_buffers.flush(self._session.box)

    def Iflush_buffer(self) -> Request:
        box = self._session.box
        return handle_of(Request, Task(begin("Session.Iflush_buffer", lambda: send_buffers.flush(box))))

    # --------------------------------------------------------------------------------------------------- errors

    def _handler_owner(self) -> sessions.SessionState:
        return self._session


SESSION_NULL: Any = predefine_null(Session, 0x120)
