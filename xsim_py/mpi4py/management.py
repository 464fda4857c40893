"""The methods of `MPI.Comm` that create, compare, describe and free communicators."""

from __future__ import annotations

from typing import Any, NoReturn, Self, TypeVar

from xsim_py.mpi import attributes as attrs
from xsim_py.mpi import constants as c
from xsim_py.mpi import errhandler as handlers
from xsim_py.mpi import errors
from xsim_py.mpi import management as manage
from xsim_py.mpi.algorithm_selection import INFO_KEY, WORDS, selection_of_word
from xsim_py.mpi.calls import begin, refused
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.dynamic.spawn import app_number
from xsim_py.mpi.failures.implicit import apply_hints
from xsim_py.mpi.group import Members, contains
from xsim_py.process.lifecycle import abort_job

from . import send_buffers
from .attribute_calls import Attributed
from .commhandle import SELF, WORLD, CommHandle
from .errhandling import BoundHandler, HasErrorHandler, first_handler
from .group import Group, group_of
from .handle import H, handle_of
from .info import INFO_NULL, Info, items_of
from .inside import comm_of, members_of
from .methods import attribute
from .options import Options, current_options, on_unusual_options
from .plain_arguments import Comm, plain_text
from .request import Request, Task

__all__ = ["Management"]

M = TypeVar("M", bound="Management")


def _begin(options: Options) -> None:
    """Set the error handlers of COMM_WORLD and COMM_SELF by ``mpi4py.rc.errors``."""
    if options.errors == "exception":
        return
    handler = handlers.ABORT if options.errors == "abort" else handlers.ARE_FATAL
    for impl in (WORLD, SELF):
        handle_of(CommHandle, impl)._special().errhandler = BoundHandler(handler, Management)


on_unusual_options(_begin)


def wrapped(cls: type[H], made: Communicator, parent: Communicator | None = None) -> H:
    """Return the handle of a new communicator, with the error handler of ``mpi4py.rc.errors``."""
    if current_options().errors != "exception":
        made.errhandler = first_handler(cls, parent.errhandler if parent else BoundHandler(handlers.ARE_FATAL, cls))
    return handle_of(cls, made)


def member_ranks(handle: Comm, group: Group) -> Any:
    """Return the ranks of a group, whose members must be in the communicator of a handle."""
    members = members_of(group)
    comm = comm_of(handle)
    if not contains(Members(comm.ranks), members):
        comm.fail(c.ERR_GROUP, "the group is not a subset of the communicator's")
    return members.ranks


class Management(HasErrorHandler, Attributed, CommHandle):
    """The methods of `Comm` that do not communicate."""

    __slots__ = ()

    _kind = "Comm"

    def _is_predefined(self) -> bool:
        return self._impl is WORLD or self._impl is SELF

    def _new(self, made: Communicator | None, cls: type[M]) -> M:
        """Return the handle of a communicator derived from this one; null for None."""
        return cls() if made is None else wrapped(cls, made, self._comm())

    def _plain_class(self) -> type[Any]:
        raise NotImplementedError

    def free(self) -> None:
        if self._is_predefined():
            self._set_null()
        elif self:
            self.Free()

    # ------------------------------------------------------------------------------------------- properties

    def Get_group(self) -> Group:
        return group_of(Members(self._comm().ranks))

    group = attribute(Get_group)

    def Get_size(self) -> int:
        return len(self._comm().ranks)

    @property
    def size(self) -> int:
        return len(self._comm().ranks)

    def Get_rank(self) -> int:
        return self._comm().me

    @property
    def rank(self) -> int:
        return self._comm().me

    def Compare(self, comm: Comm) -> int:
        return manage.same_context(self._comm(), comm_of(comm))

    def Is_inter(self) -> bool:
        return self._comm().is_inter

    @property
    def is_inter(self) -> bool:
        return self._comm().is_inter

    def Is_intra(self) -> bool:
        return not self._comm().is_inter

    @property
    def is_intra(self) -> bool:
        return not self._comm().is_inter

    def Get_topology(self) -> int:
        topology = self._comm().topology
        return c.UNDEFINED if topology is None else int(topology.kind)

    topology = attribute(Get_topology)

    @property
    def is_topo(self) -> bool:
        return bool(self) and self.Get_topology() != c.UNDEFINED

    def Get_name(self) -> str:
        if not self:
            return "MPI_COMM_NULL"
        comm = self._comm()
        if comm.name is None:
            return "MPI_COMM_WORLD" if self._impl is WORLD else ""
        return comm.name

    def Set_name(self, name: str) -> None:
        self._comm().name = plain_text(name)[: c.MAX_OBJECT_NAME - 1]

    name = attribute(Get_name, Set_name)

    # -------------------------------------------------------------------------------------- new communicators

    def Clone(self) -> Self:
        return self.Dup()

    def Dup(self, info: Info | None = None) -> Self:
        return self._duplicate(self._make_uniform("Comm.Dup", manage.duplicate), info)

    def Dup_with_info(self, info: Info) -> Self:
        return self.Dup(info)

    def Idup(self, info: Info | None = None) -> tuple[Self, Request]:
        comm = self._comm()
        operation = refused(comm, None, collective="Comm.Idup")
        made, agree = manage.prepare_duplicate(comm, "Comm.Idup")
        return self._duplicate(made, info), handle_of(Request, Task(operation or begin("Comm.Idup", agree), comm=comm))

    def Idup_with_info(self, info: Info) -> tuple[Self, Request]:
        return self.Idup(info)

    def _duplicate(self, made: Communicator, info: Info | None) -> Self:
        comm = self._comm()
        copy = self._new(made, type(self))
        made.attributes = attrs.copy_attributes(self, comm.attributes)
        hints = comm.info if info is None else items_of(info)
        self._hint(made, dict(hints) if hints else None)
        return copy

    def Create(self, group: Group) -> Comm:
        made = self._make_uniform("Comm.Create", manage.create, member_ranks(self, group))
        return self._new(made, self._plain_class())

    def Split(self, color: int = 0, key: int = 0) -> Comm:
        comm = self._comm()
        if color < 0 and color != c.UNDEFINED:
            comm.fail(c.ERR_ARG, f"color {color} is negative")
        return self._new(self._make_uniform("Comm.Split", manage.split, color, key), self._plain_class())

    def Split_type(self, split_type: int, key: int = 0, info: Info = INFO_NULL) -> Comm:
        comm = self._comm()
        node = comm.fabric.settings.machine.node_of[comm.box.rank.number]
        if split_type == c.UNDEFINED:
            color = c.UNDEFINED
        elif split_type == c.COMM_TYPE_SHARED:
            color = node
        elif split_type in (c.COMM_TYPE_HW_GUIDED, c.COMM_TYPE_RESOURCE_GUIDED):
            requested = items_of(info).get("mpi_hw_resource_type") if info else None
            color = node if requested in ("mpi_shared_memory", "node") else c.UNDEFINED
        elif split_type == c.COMM_TYPE_HW_UNGUIDED:
            # The levels of this machine are the whole machine and the node; below the whole machine comes the node.
            nodes = comm.fabric.settings.machine.node_of
            same = all(nodes[rank] == node for rank in comm.ranks)
            color = c.UNDEFINED if same else node
            if info and not same:
                info.Set("mpi_hw_resource_type", "mpi_shared_memory")
        else:
            comm.fail(c.ERR_ARG, f"unknown split type {split_type}")
        name = "Comm.Split_type"
        return self._new(self._make_uniform(name, manage.split, color, key, name), self._plain_class())

    def Free(self) -> None:
        comm = self._comm()
        if self._is_predefined():
            comm.fail(c.ERR_COMM, "a predefined communicator cannot be freed")
        attrs.delete_all(self, comm.attributes)
        comm.object_context = None
        comm.freed = True
        self._impl = self._null

    def Disconnect(self) -> None:
        comm = self._comm()
        if not self._is_predefined():
            manage.agree(comm, "Comm.Disconnect")
        self.Free()

    # -------------------------------------------------------------------------------------------------- info

    def Set_info(self, info: Info) -> None:
        self._hint(self._comm(), dict(items_of(info)))

    @staticmethod
    def _hint(comm: Communicator, hints: dict[str, str] | None) -> None:
        """Set hints, some of which have an effect."""
        requested = (hints or {}).get(INFO_KEY)
        if requested is not None and requested not in WORDS:
            errors.fail(c.ERR_INFO_VALUE, f"{INFO_KEY}={requested} is neither {' nor '.join(WORDS)}")
        apply_hints(comm, hints or {})
        comm.info = hints
        comm.prefer(comm.fabric.settings.collectives if requested is None else selection_of_word(requested))

    def Get_info(self) -> Info:
        return Info.Create(self._comm().info or {})

    info = attribute(Get_info, Set_info)

    # --------------------------------------------------------------------------------------------- attributes

    def _attributes(self) -> attrs.Attributes:
        return attrs.attributes_of(self._comm())

    def Get_attr(self, keyval: int) -> int | Any | None:
        if keyval in _PREDEFINED_ATTRIBUTES:
            return _predefined_attribute(self._comm(), keyval)
        return super().Get_attr(keyval)

    # ------------------------------------------------------------------------------------------------- errors

    def _handler_owner(self) -> Communicator:
        return self._comm()

    def Abort(self, errorcode: int = 0) -> NoReturn:
        comm = self._comm()
        abort_job(errorcode, f"MPI.Comm.Abort({errorcode}) on {comm.label()}")

    # ------------------------------------------------------------------------------ buffers for buffered sends

    def Attach_buffer(self, buf: object) -> None:
        send_buffers.attach(self._comm(), *send_buffers.size_of(buf))

    def Detach_buffer(self) -> Any:
        comm = self._comm()
        return send_buffers.detach(comm, comm.box)

    def Flush_buffer(self) -> None:
        send_buffers.flush(self._comm().box)

    def Iflush_buffer(self) -> Request:
        box = self._comm().box
        return handle_of(Request, Task(begin("Comm.Iflush_buffer", lambda: send_buffers.flush(box))))


_PREDEFINED_ATTRIBUTES = frozenset((c.TAG_UB, c.IO, c.WTIME_IS_GLOBAL, c.UNIVERSE_SIZE, c.APPNUM, c.LASTUSEDCODE))


def _predefined_attribute(comm: Communicator, keyval: int) -> object:
    if keyval == c.TAG_UB:
        return 2**31 - 1
    if keyval == c.IO:
        return c.ANY_SOURCE
    if keyval == c.WTIME_IS_GLOBAL:
        return 1
    if keyval == c.UNIVERSE_SIZE:
        return comm.fabric.settings.machine.universe
    if keyval == c.APPNUM:
        return app_number(comm)
    return errors.table().last_used
