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

__all__ = ["FILE_NULL", "MISSING", "SESSION_NULL", "WIN_NULL", "File", "Session", "Win", "fill", "stub"]

MISSING: dict[str, dict[str, str]] = {
    "partitioned communication": {
        "Comm.Psend_init": "MPI_Psend_init",
        "Comm.Precv_init": "MPI_Precv_init",
        "Prequest.Pready": "MPI_Pready",
        "Prequest.Pready_range": "MPI_Pready_range",
        "Prequest.Pready_list": "MPI_Pready_list",
        "Prequest.Parrived": "MPI_Parrived",
    },
    "persistent collectives": {
        "Comm.Barrier_init": "MPI_Barrier_init",
        "Comm.Bcast_init": "MPI_Bcast_init",
        "Comm.Gather_init": "MPI_Gather_init",
        "Comm.Gatherv_init": "MPI_Gatherv_init",
        "Comm.Scatter_init": "MPI_Scatter_init",
        "Comm.Scatterv_init": "MPI_Scatterv_init",
        "Comm.Allgather_init": "MPI_Allgather_init",
        "Comm.Allgatherv_init": "MPI_Allgatherv_init",
        "Comm.Alltoall_init": "MPI_Alltoall_init",
        "Comm.Alltoallv_init": "MPI_Alltoallv_init",
        "Comm.Alltoallw_init": "MPI_Alltoallw_init",
        "Comm.Reduce_init": "MPI_Reduce_init",
        "Comm.Allreduce_init": "MPI_Allreduce_init",
        "Comm.Reduce_scatter_block_init": "MPI_Reduce_scatter_block_init",
        "Comm.Reduce_scatter_init": "MPI_Reduce_scatter_init",
        "Intracomm.Scan_init": "MPI_Scan_init",
        "Intracomm.Exscan_init": "MPI_Exscan_init",
        "Topocomm.Neighbor_allgather_init": "MPI_Neighbor_allgather_init",
        "Topocomm.Neighbor_allgatherv_init": "MPI_Neighbor_allgatherv_init",
        "Topocomm.Neighbor_alltoall_init": "MPI_Neighbor_alltoall_init",
        "Topocomm.Neighbor_alltoallv_init": "MPI_Neighbor_alltoallv_init",
        "Topocomm.Neighbor_alltoallw_init": "MPI_Neighbor_alltoallw_init",
    },
    "processes that start or join a run, and the ports they meet at": {
        "Intracomm.Spawn": "MPI_Comm_spawn",
        "Intracomm.Spawn_multiple": "MPI_Comm_spawn_multiple",
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
        "Intracomm.Create_from_group": "MPI_Comm_create_from_group",
        "Intercomm.Create_from_groups": "MPI_Intercomm_create_from_groups",
    },
    "one-sided communication": {
        "Win.Create": "MPI_Win_create",
        "Win.Allocate": "MPI_Win_allocate",
        "Win.Allocate_shared": "MPI_Win_allocate_shared",
        "Win.Shared_query": "MPI_Win_shared_query",
        "Win.Create_dynamic": "MPI_Win_create_dynamic",
        "Win.Attach": "MPI_Win_attach",
        "Win.Detach": "MPI_Win_detach",
        "Win.Free": "MPI_Win_free",
        "Win.Set_info": "MPI_Win_set_info",
        "Win.Get_info": "MPI_Win_get_info",
        "Win.Get_group": "MPI_Win_get_group",
        "Win.Get_attr": "MPI_Win_get_attr",
        "Win.Set_attr": "MPI_Win_set_attr",
        "Win.Delete_attr": "MPI_Win_delete_attr",
        "Win.Create_keyval": "MPI_Win_create_keyval",
        "Win.Free_keyval": "MPI_Win_free_keyval",
        "Win.tomemory": "MPI_Win_get_attr",
        "Win.Put": "MPI_Put",
        "Win.Get": "MPI_Get",
        "Win.Accumulate": "MPI_Accumulate",
        "Win.Get_accumulate": "MPI_Get_accumulate",
        "Win.Fetch_and_op": "MPI_Fetch_and_op",
        "Win.Compare_and_swap": "MPI_Compare_and_swap",
        "Win.Rput": "MPI_Rput",
        "Win.Rget": "MPI_Rget",
        "Win.Raccumulate": "MPI_Raccumulate",
        "Win.Rget_accumulate": "MPI_Rget_accumulate",
        "Win.Fence": "MPI_Win_fence",
        "Win.Start": "MPI_Win_start",
        "Win.Complete": "MPI_Win_complete",
        "Win.Post": "MPI_Win_post",
        "Win.Wait": "MPI_Win_wait",
        "Win.Test": "MPI_Win_test",
        "Win.Lock": "MPI_Win_lock",
        "Win.Unlock": "MPI_Win_unlock",
        "Win.Lock_all": "MPI_Win_lock_all",
        "Win.Unlock_all": "MPI_Win_unlock_all",
        "Win.Flush": "MPI_Win_flush",
        "Win.Flush_all": "MPI_Win_flush_all",
        "Win.Flush_local": "MPI_Win_flush_local",
        "Win.Flush_local_all": "MPI_Win_flush_local_all",
        "Win.Sync": "MPI_Win_sync",
        "Win.Create_errhandler": "MPI_Win_create_errhandler",
        "Win.Get_errhandler": "MPI_Win_get_errhandler",
        "Win.Set_errhandler": "MPI_Win_set_errhandler",
        "Win.Call_errhandler": "MPI_Win_call_errhandler",
        "Win.Get_name": "MPI_Win_get_name",
        "Win.Set_name": "MPI_Win_set_name",
        "Win.info": "MPI_Win_get_info",
        "Win.group": "MPI_Win_get_group",
        "Win.group_size": "MPI_Win_get_group",
        "Win.group_rank": "MPI_Win_get_group",
        "Win.attrs": "MPI_Win_get_attr",
        "Win.flavor": "MPI_Win_get_attr",
        "Win.model": "MPI_Win_get_attr",
        "Win.name": "MPI_Win_get_name",
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
class Win(Handle):
    """Remote memory access context."""

    __slots__ = ()

    _null = Null("WIN_NULL")
    _error = c.ERR_WIN

    def __new__(cls, win: Win | None = None) -> Self:
        return cls._copy(win)

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
WIN_NULL: Any = Win._constant("WIN_NULL", Win._null, 0x110)
FILE_NULL: Any = File._constant("FILE_NULL", File._null, 0x118)
