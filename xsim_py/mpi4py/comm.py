"""`MPI.Comm`, `MPI.Intracomm` and `MPI.Intercomm`: the classes, put together from their parts."""

from __future__ import annotations

from typing import Any, ClassVar

from xsim_py.mpi import constants as c
from xsim_py.mpi import management as manage
from xsim_py.mpi.group import Members

from .collective import Collectives, Scans
from .commhandle import SELF, WORLD
from .group import Group
from .handle import Null
from .management import Management
from .missing import fill
from .objects import ObjectCollectives, ObjectScans
from .p2p import PointToPoint
from .partitioned import Partitioned
from .persistent import PersistentCollectives, PersistentScans
from .topologies import Topologies
from .ulfm import FaultTolerance

__all__ = ["COMM_NULL", "COMM_SELF", "COMM_WORLD", "Comm", "Intercomm", "Intracomm"]


@fill
class Comm(
    Management,
    PointToPoint,
    Partitioned,
    Collectives,
    PersistentCollectives,
    ObjectCollectives,
    FaultTolerance,
):
    """Communication context."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()
    _null: ClassVar[Null] = Null("COMM_NULL")
    _error = c.ERR_COMM

    def __new__(cls, comm: Comm | None = None) -> Comm:
        return cls._copy(comm)

    def _plain(self) -> type[Any]:
        return Intercomm if self._comm().is_inter else Intracomm

    @classmethod
    def Get_parent(cls) -> Intercomm:
        parent: Intercomm = Intercomm()
        return parent


@fill
class Intracomm(Comm, Scans, PersistentScans, ObjectScans, Topologies):
    """Intracommunicator."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()

    def __new__(cls, comm: Comm | None = None) -> Intracomm:
        return cls._copy(comm)

    def Create_group(self, group: Group, tag: int = 0) -> Intracomm:
        comm = self._comm()
        made: Intracomm = self._new(manage.create_from_members(comm, self._members(group), tag), Intracomm)
        return made

    def Create_intercomm(self, local_leader: int, peer_comm: Intracomm, remote_leader: int, tag: int = 0) -> Intercomm:
        comm = self._comm()
        if not 0 <= local_leader < len(comm.ranks):
            comm.fail(c.ERR_RANK, f"local leader {local_leader} is not in 0..{len(comm.ranks) - 1}")
        peer = peer_comm._comm() if comm.me == local_leader else None
        if peer is not None and not 0 <= remote_leader < len(peer.remote):
            comm.fail(c.ERR_RANK, f"remote leader {remote_leader} is not in 0..{len(peer.remote) - 1}")
        made: Intercomm = self._new(manage.create_intercomm(comm, local_leader, peer, remote_leader, tag), Intercomm)
        return made


@fill
class Intercomm(Comm):
    """Intercommunicator."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()

    def __new__(cls, comm: Comm | None = None) -> Intercomm:
        return cls._copy(comm)

    def Get_remote_group(self) -> Group:
        return Group._of(Members(self._inter().remote))

    @property
    def remote_group(self) -> Group:
        return self.Get_remote_group()

    def Get_remote_size(self) -> int:
        return len(self._inter().remote)

    @property
    def remote_size(self) -> int:
        return self.Get_remote_size()

    def Merge(self, high: bool = False) -> Intracomm:
        made: Intracomm = self._new(manage.merge(self._inter(), bool(high)), Intracomm)
        return made

    def _inter(self) -> Any:
        comm = self._comm()
        if not comm.is_inter:
            comm.fail(c.ERR_COMM, "not an intercommunicator")
        return comm


COMM_NULL: Comm = Comm._constant("COMM_NULL", Comm._null, 0x100)
COMM_WORLD: Intracomm = Intracomm._constant("COMM_WORLD", WORLD, 0x101)
COMM_SELF: Intracomm = Intracomm._constant("COMM_SELF", SELF, 0x102)
