"""The persistent collectives of `MPI.Comm`, `MPI.Intracomm` and `MPI.Topocomm` (MPI 4.1, 6.13).

A persistent collective takes its number on the communicator when it is initialised, and each start uses that number
again: so processes may start what they have initialised in any order. The arguments are read again at each start, for
then the buffers hold what is to be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from xsim_py.mpi.calls import begin, refused, timed
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.transport.message import Operation

from . import collective_calls as calls
from .collective_calls import Plan, handled
from .commhandle import CommHandle
from .info import INFO_NULL, Info
from .memory import KnownViews
from .op import INSTANCES, Op
from .request import Prequest, Task

__all__ = ["PersistentCollectives", "PersistentScans", "persist"]

SUM = INSTANCES["SUM"]


def persist(comm: Communicator, plan: Callable[..., Plan], name: str, *args: Any) -> Prequest:
    """Initialise a collective that can be started again and again; wrong arguments are refused now."""
    first = _numbers(comm)
    views = KnownViews()
    with views:
        handled(comm, plan, comm, name, *args)

    def start() -> Operation | None:
        operation = refused(comm, None, collective=name)
        if operation is not None:
            return operation
        now = _numbers(comm)
        counted = set() if comm.fabric.meetings is None else comm.fabric.meetings.counted
        counted.add(comm)
        _set_numbers(comm, first)
        try:
            with views:
                planned = handled(comm, plan, comm, name, *args)
        finally:
            _set_numbers(comm, now)
            counted.discard(comm)
        return None if planned is None else begin(name, partial(timed, *planned))

    return Prequest._prepare(Task(None, None, comm), start)


def _numbers(comm: Communicator) -> tuple[int, int]:
    """How many collectives this rank has begun: on the communicator, and within its group where it is one of two."""
    return comm.collectives, 0 if comm.local is None else comm.local.collectives


def _set_numbers(comm: Communicator, numbers: tuple[int, int]) -> None:
    comm.collectives, local = numbers
    if comm.local is not None:
        comm.local.collectives = local


class PersistentCollectives(CommHandle):
    """The part of `Comm` that all its members call together, to begin later."""

    __slots__ = ()

    def Barrier_init(self, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.barrier, "Comm.Barrier_init")

    def Bcast_init(self, buf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.bcast, "Comm.Bcast_init", buf, root)

    def Gather_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.gather, "Comm.Gather_init", "", sendbuf, recvbuf, root)

    def Gatherv_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.gather, "Comm.Gatherv_init", "v", sendbuf, recvbuf, root)

    def Scatter_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.scatter, "Comm.Scatter_init", "", sendbuf, recvbuf, root)

    def Scatterv_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.scatter, "Comm.Scatterv_init", "v", sendbuf, recvbuf, root)

    def Allgather_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.allgather, "Comm.Allgather_init", "", sendbuf, recvbuf)

    def Allgatherv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.allgather, "Comm.Allgatherv_init", "v", sendbuf, recvbuf)

    def Alltoall_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.alltoall, "Comm.Alltoall_init", "", sendbuf, recvbuf)

    def Alltoallv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.alltoall, "Comm.Alltoallv_init", "v", sendbuf, recvbuf)

    def Alltoallw_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.alltoall, "Comm.Alltoallw_init", "w", sendbuf, recvbuf)

    def Reduce_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.reduce, "Comm.Reduce_init", sendbuf, recvbuf, op, root)

    def Allreduce_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.allreduce, "Comm.Allreduce_init", sendbuf, recvbuf, op)

    def Reduce_scatter_block_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        name = "Comm.Reduce_scatter_block_init"
        return persist(self._comm(), calls.reduce_scatter_block, name, sendbuf, recvbuf, op)

    def Reduce_scatter_init(
        self,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
        info: Info = INFO_NULL,
    ) -> Prequest:
        comm, name = self._comm(), "Comm.Reduce_scatter_init"
        counts = handled(comm, calls.counts_of, comm, name, sendbuf, recvbuf, recvcounts)
        return persist(comm, calls.reduce_scatter, name, sendbuf, recvbuf, counts, op)


class PersistentScans(CommHandle):
    """The reductions that only an `Intracomm` has."""

    __slots__ = ()

    def Scan_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.scan, "Intracomm.Scan_init", "scan", sendbuf, recvbuf, op)

    def Exscan_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), calls.scan, "Intracomm.Exscan_init", "exscan", sendbuf, recvbuf, op)
