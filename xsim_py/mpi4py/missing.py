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

__all__ = ["FILE_NULL", "MISSING", "SESSION_NULL", "File", "Session", "fill", "stub"]

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
    "files": {
        "File.Open": "MPI_File_open",
        "File.Close": "MPI_File_close",
        "File.Delete": "MPI_File_delete",
        "File.Set_size": "MPI_File_set_size",
        "File.Preallocate": "MPI_File_preallocate",
        "File.Get_size": "MPI_File_get_size",
        "File.Get_amode": "MPI_File_get_amode",
        "File.Get_group": "MPI_File_get_group",
        "File.Set_info": "MPI_File_set_info",
        "File.Get_info": "MPI_File_get_info",
        "File.Set_view": "MPI_File_set_view",
        "File.Get_view": "MPI_File_get_view",
        "File.Read_at": "MPI_File_read_at",
        "File.Read_at_all": "MPI_File_read_at_all",
        "File.Write_at": "MPI_File_write_at",
        "File.Write_at_all": "MPI_File_write_at_all",
        "File.Iread_at": "MPI_File_iread_at",
        "File.Iread_at_all": "MPI_File_iread_at_all",
        "File.Iwrite_at": "MPI_File_iwrite_at",
        "File.Iwrite_at_all": "MPI_File_iwrite_at_all",
        "File.Read": "MPI_File_read",
        "File.Read_all": "MPI_File_read_all",
        "File.Write": "MPI_File_write",
        "File.Write_all": "MPI_File_write_all",
        "File.Iread": "MPI_File_iread",
        "File.Iread_all": "MPI_File_iread_all",
        "File.Iwrite": "MPI_File_iwrite",
        "File.Iwrite_all": "MPI_File_iwrite_all",
        "File.Seek": "MPI_File_seek",
        "File.Get_position": "MPI_File_get_position",
        "File.Get_byte_offset": "MPI_File_get_byte_offset",
        "File.Read_shared": "MPI_File_read_shared",
        "File.Write_shared": "MPI_File_write_shared",
        "File.Iread_shared": "MPI_File_iread_shared",
        "File.Iwrite_shared": "MPI_File_iwrite_shared",
        "File.Read_ordered": "MPI_File_read_ordered",
        "File.Write_ordered": "MPI_File_write_ordered",
        "File.Seek_shared": "MPI_File_seek_shared",
        "File.Get_position_shared": "MPI_File_get_position_shared",
        "File.Read_at_all_begin": "MPI_File_read_at_all_begin",
        "File.Read_at_all_end": "MPI_File_read_at_all_end",
        "File.Write_at_all_begin": "MPI_File_write_at_all_begin",
        "File.Write_at_all_end": "MPI_File_write_at_all_end",
        "File.Read_all_begin": "MPI_File_read_all_begin",
        "File.Read_all_end": "MPI_File_read_all_end",
        "File.Write_all_begin": "MPI_File_write_all_begin",
        "File.Write_all_end": "MPI_File_write_all_end",
        "File.Read_ordered_begin": "MPI_File_read_ordered_begin",
        "File.Read_ordered_end": "MPI_File_read_ordered_end",
        "File.Write_ordered_begin": "MPI_File_write_ordered_begin",
        "File.Write_ordered_end": "MPI_File_write_ordered_end",
        "File.Get_type_extent": "MPI_File_get_type_extent",
        "File.Set_atomicity": "MPI_File_set_atomicity",
        "File.Get_atomicity": "MPI_File_get_atomicity",
        "File.Sync": "MPI_File_sync",
        "File.Create_errhandler": "MPI_File_create_errhandler",
        "File.Get_errhandler": "MPI_File_get_errhandler",
        "File.Set_errhandler": "MPI_File_set_errhandler",
        "File.Call_errhandler": "MPI_File_call_errhandler",
        "File.size": "MPI_File_get_size",
        "File.amode": "MPI_File_get_amode",
        "File.group": "MPI_File_get_group",
        "File.group_size": "MPI_File_get_group",
        "File.group_rank": "MPI_File_get_group",
        "File.info": "MPI_File_get_info",
        "File.atomicity": "MPI_File_get_atomicity",
        "Register_datarep": "MPI_Register_datarep",
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


@fill
class File(Handle):
    """File I/O context."""

    __slots__ = ()

    _null = Null("FILE_NULL")
    _error = c.ERR_FILE

    def __new__(cls, file: File | None = None) -> Self:
        return cls._copy(file)

    def free(self) -> None:
        self._forget()


SESSION_NULL: Any = Session._constant("SESSION_NULL", Session._null, 0x120)
FILE_NULL: Any = File._constant("FILE_NULL", File._null, 0x118)
