"""What of mpi4py is not simulated yet: one table, and the stubs made from it.

Every entry raises `NotImplementedError` with its MPI name when a program uses it, so a program that needs it stops
there and not somewhere later. The table of the documentation (docs/reference/api.md) is made from this one; a test
compares both with mpi4py's own list of names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self, TypeVar

from xsim_py.errors import InternalError
from xsim_py.mpi import constants as c
from xsim_py.mpi4py.handle import Handle, Null

__all__ = ["MISSING", "SESSION_NULL", "Session", "fill", "stub"]

MISSING: dict[str, dict[str, str]] = {
    "processes that start or join a run, and the ports they meet at": {
        "Intracomm.Accept": "MPI_Comm_accept",
        "Intracomm.Connect": "MPI_Comm_connect",
        "Comm.Join": "MPI_Comm_join",
        "Open_port": "MPI_Open_port",
        "Close_port": "MPI_Close_port",
        "Publish_name": "MPI_Publish_name",
        "Unpublish_name": "MPI_Unpublish_name",
        "Lookup_name": "MPI_Lookup_name",
    },
    "sessions": {
        "Session.Init": "MPI_Session_init",
        "Session.Finalize": "MPI_Session_finalize",
        "Session.Get_num_psets": "MPI_Session_get_num_psets",
        "Session.Get_nth_pset": "MPI_Session_get_nth_pset",
        "Session.Get_info": "MPI_Session_get_info",
        "Session.Get_pset_info": "MPI_Session_get_pset_info",
        "Session.Create_group": "MPI_Group_from_session_pset",
        "Session.Attach_buffer": "MPI_Session_attach_buffer",
        "Session.Detach_buffer": "MPI_Session_detach_buffer",
        "Session.Flush_buffer": "MPI_Session_flush_buffer",
        "Session.Iflush_buffer": "MPI_Session_iflush_buffer",
        "Session.Create_errhandler": "MPI_Session_create_errhandler",
        "Session.Get_errhandler": "MPI_Session_get_errhandler",
        "Session.Set_errhandler": "MPI_Session_set_errhandler",
        "Session.Call_errhandler": "MPI_Session_call_errhandler",
        "Group.Create_from_session_pset": "MPI_Group_from_session_pset",
    },
}
"""What is missing: by subject, mpi4py's name and MPI's."""

_ENTRIES = {name: (mpi_name, subject) for subject, names in MISSING.items() for name, mpi_name in names.items()}

C = TypeVar("C", bound=type)


def stub(name: str) -> Callable[..., NoReturn]:
    """Make a function that says that `name` (``"Open_port"``, ``"Win.Create"``) is not there."""
    mpi_name, subject = _ENTRIES[name]

    def not_simulated(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(
            f"{mpi_name} is not simulated yet: {subject}. The API table in the documentation (docs/reference/api.md) "
            "says what is."
        )

    not_simulated.__name__ = name.rpartition(".")[2]
    not_simulated.__qualname__ = name
    not_simulated.__module__ = "mpi4py.MPI"
    return not_simulated


def fill(cls: C) -> C:
    """Add to a class the stubs that the table lists for it; a class decorator.

    What begins with a small letter is read without a call, so its stub is a property.
    """
    for name in _ENTRIES:
        owner, _, attribute = name.rpartition(".")
        if owner != cls.__name__:
            continue
        if hasattr(cls, attribute):
            raise InternalError(f"MPI.{name} is there, and listed as missing")
        setattr(cls, attribute, property(stub(name)) if attribute[0].islower() else stub(name))
    return cls


@fill
class Session(Handle):
    """Session context."""

    __slots__ = ()

    _null = Null("SESSION_NULL")
    _error = c.ERR_SESSION

    def __new__(cls, session: Session | None = None) -> Self:
        return cls._copy(session)

    def free(self) -> None:
        self._forget()


SESSION_NULL: Any = Session._constant("SESSION_NULL", Session._null, 0x120)
