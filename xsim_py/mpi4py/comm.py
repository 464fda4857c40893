"""`MPI.Comm`, `MPI.Intracomm` and `MPI.Intercomm`, assembled from their parts."""

from __future__ import annotations

import operator
from typing import Any, ClassVar, TypeVar

from xsim_py.mpi import constants as c
from xsim_py.mpi import management as manage
from xsim_py.mpi.comm import WORLD_CID, Communicator, derive_cid, shared_context
from xsim_py.mpi.dynamic.join import join
from xsim_py.mpi.dynamic.spawn import parent_of
from xsim_py.mpi.errors import fail
from xsim_py.mpi.failures import noncollective
from xsim_py.mpi.group import Members
from xsim_py.mpi.session import note_session

from .collective_calls import Collectives, Scans
from .commhandle import SELF, WORLD
from .errhandler import Errhandler
from .group import Group, group_of
from .handle import Null, handle_of, predefine, predefine_null
from .info import INFO_NULL, Info
from .inside import comm_of, impl_of, members_of, plain_class_of
from .management import Management, member_ranks, wrapped
from .methods import attribute
from .p2p import PointToPoint
from .partitioned import Partitioned
from .processes import ProcessCreation
from .topologies import Topologies
from .ulfm import FaultTolerance

__all__ = ["COMM_NULL", "COMM_SELF", "COMM_WORLD", "Comm", "Intercomm", "Intracomm"]


C = TypeVar("C", bound="Comm")


class Comm(Management, PointToPoint, Partitioned, Collectives, FaultTolerance):
    """Communication context."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()
    _null: ClassVar[Null] = Null("COMM_NULL")
    _error = c.ERR_COMM

    def __new__(cls, comm: Comm | None = None) -> Comm:
        return cls._copy(comm)

    @classmethod
    def fromhandle(cls, handle: int) -> Comm:
        found: Comm = super().fromhandle(handle)
        if type(found).__module__ != "mpi4py.MPI" or not found:
            return found  # null, or of a class of the program
        kind = Topologies._class_of(found.Get_topology()) or plain_class_of(found)
        made: Comm = handle_of(kind, impl_of(found))
        return made

    def _plain_class(self) -> type[Any]:
        return Intercomm if self._comm().is_inter else Intracomm

    @classmethod
    def Get_parent(cls) -> Intercomm:
        found = parent_of(comm_of(COMM_WORLD))
        return Intercomm() if found is None else wrapped(Intercomm, found)

    @classmethod
    def Join(cls, fd: int) -> Intercomm:
        made = join(comm_of(COMM_SELF), operator.index(fd))
        return Intercomm() if made is None else wrapped(Intercomm, made)


class Intracomm(Comm, Scans, Topologies, ProcessCreation):
    """Intracommunicator."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()

    def __new__(cls, comm: Comm | None = None) -> Intracomm:
        if comm is not None and isinstance(comm, Comm) and comm and comm.is_inter:
            raise TypeError("expecting an intracommunicator")
        return cls._copy(comm)

    @classmethod
    def Create_from_group(
        cls,
        group: Group,
        stringtag: str = "org.mpi4py",
        info: Info = INFO_NULL,
        errhandler: Errhandler | None = None,
    ) -> Intracomm:
        if not group.Get_size():
            return Intracomm()
        return _configured(wrapped(cls, _from_group(group, stringtag)), info, errhandler)

    def _connected(self, made: Communicator) -> Intercomm:
        return self._new(made, Intercomm)

    def Create_group(self, group: Group, tag: int = 0) -> Intracomm:
        comm = self._comm()
        create = noncollective.create_among_survivors if comm.fabric.settings.discovers else manage.create_from_members
        members = member_ranks(self, group)
        if comm.box.rank.number not in members:
            return Intracomm()
        made = self._make_uniform("Intracomm.Create_group", create, members, tag, members=members)
        return self._new(made, Intracomm)

    def Create_intercomm(self, local_leader: int, peer_comm: Intracomm, remote_leader: int, tag: int = 0) -> Intercomm:
        comm = self._comm()
        if not 0 <= local_leader < len(comm.ranks):
            comm.fail(c.ERR_RANK, f"local leader {local_leader} is not in 0..{len(comm.ranks) - 1}")
        peer = comm_of(peer_comm) if comm.me == local_leader else None
        if peer is not None and not 0 <= remote_leader < len(peer.remote):
            comm.fail(c.ERR_RANK, f"remote leader {remote_leader} is not in 0..{len(peer.remote) - 1}")
        name = "Intracomm.Create_intercomm"
        made = self._make_uniform(name, manage.create_intercomm, local_leader, peer, remote_leader, tag)
        return self._new(made, Intercomm)


class Intercomm(Comm):
    """Intercommunicator."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()

    def __new__(cls, comm: Comm | None = None) -> Intercomm:
        if comm is not None and isinstance(comm, Comm) and comm and comm.is_intra:
            raise TypeError("expecting an intercommunicator")
        return cls._copy(comm)

    @classmethod
    def Create_from_groups(
        cls,
        local_group: Group,
        local_leader: int,
        remote_group: Group,
        remote_leader: int,
        stringtag: str = "org.mpi4py",
        info: Info = INFO_NULL,
        errhandler: Errhandler | None = None,
    ) -> Intercomm:
        for group, leader in ((local_group, local_leader), (remote_group, remote_leader)):
            if not 0 <= leader < group.Get_size():
                fail(c.ERR_RANK, f"leader {leader} is not in 0..{group.Get_size() - 1}")
        local = _from_group(local_group, stringtag)
        local_ranks, remote_ranks = members_of(local_group).ranks, members_of(remote_group).ranks
        leaders = tuple(sorted((local_ranks[local_leader], remote_ranks[remote_leader])))
        peer, place = None, 0
        if local.me == local_leader:  # the leaders meet on a context that is independent of COMM_WORLD's state
            cid = derive_cid(WORLD_CID, "groups", str(stringtag), leaders)
            peer = Communicator(shared_context(local.fabric, cid, leaders), local.box)
            place = 1 - peer.me
        made = wrapped(cls, manage.create_intercomm(local, local_leader, peer, place, 0))
        return _configured(made, info, errhandler)

    def Get_remote_group(self) -> Group:
        return group_of(Members(self._inter().remote))

    remote_group = attribute(Get_remote_group)

    def Get_remote_size(self) -> int:
        return len(self._inter().remote)

    remote_size = attribute(Get_remote_size)

    def Merge(self, high: bool = False) -> Intracomm:
        self._inter()
        return self._new(self._make_uniform("Intercomm.Merge", manage.merge, bool(high)), Intracomm)

    def _inter(self) -> Communicator:
        comm = self._comm()
        if not comm.is_inter:
            comm.fail(c.ERR_COMM, "not an intercommunicator")
        return comm


def _from_group(group: Group, stringtag: str) -> Communicator:
    """Return the communicator of a group.

    `stringtag` separates concurrent calls with equal groups.
    """
    world_comm = comm_of(COMM_WORLD)
    ranks, tag = members_of(group).ranks, str(stringtag)
    if world_comm.fabric.settings.discovers:
        made = noncollective.create_from_survivors(world_comm, ranks, tag)
    else:
        made = manage.create_from_members(world_comm, ranks, ("group", tag), WORLD_CID)
    if made is None:
        fail(c.ERR_GROUP, "this process is not a member of the group")
    session = impl_of(group).session
    if session is not None:
        note_session(made, session)
    return made


def _configured(comm: C, info: Info, errhandler: Errhandler | None) -> C:
    """Set the hints and the error handler of a communicator without a parent."""
    if info:
        comm.Set_info(info)
    if errhandler is not None:
        comm.Set_errhandler(errhandler)
    return comm


COMM_NULL: Comm = predefine_null(Comm, 0x100)
COMM_WORLD: Intracomm = predefine(Intracomm, "COMM_WORLD", WORLD, 0x101)
COMM_SELF: Intracomm = predefine(Intracomm, "COMM_SELF", SELF, 0x102)
