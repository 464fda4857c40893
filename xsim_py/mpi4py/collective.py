"""The upper-case collectives of `MPI.Comm` and `MPI.Intracomm`, blocking and non-blocking.

What they do is in `collective_calls`; here are mpi4py's names and signatures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import collective_calls as calls
from .collective_calls import run, start
from .commhandle import CommHandle
from .op import INSTANCES, Op
from .request import Request

__all__ = ["Collectives", "Scans"]

SUM = INSTANCES["SUM"]


class Collectives(CommHandle):
    """The part of `Comm` that all its members call together."""

    __slots__ = ()

    def Barrier(self) -> None:
        run(self._comm(), calls.barrier, "Comm.Barrier")

    def Bcast(self, buf: Any, root: int = 0) -> None:
        run(self._comm(), calls.bcast, "Comm.Bcast", buf, root)

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        run(self._comm(), calls.gather, "Comm.Gather", "", sendbuf, recvbuf, root)

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        run(self._comm(), calls.gather, "Comm.Gatherv", "v", sendbuf, recvbuf, root)

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        run(self._comm(), calls.scatter, "Comm.Scatter", "", sendbuf, recvbuf, root)

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        run(self._comm(), calls.scatter, "Comm.Scatterv", "v", sendbuf, recvbuf, root)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        run(self._comm(), calls.allgather, "Comm.Allgather", "", sendbuf, recvbuf)

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        run(self._comm(), calls.allgather, "Comm.Allgatherv", "v", sendbuf, recvbuf)

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        run(self._comm(), calls.alltoall, "Comm.Alltoall", "", sendbuf, recvbuf)

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        run(self._comm(), calls.alltoall, "Comm.Alltoallv", "v", sendbuf, recvbuf)

    def Alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        run(self._comm(), calls.alltoall, "Comm.Alltoallw", "w", sendbuf, recvbuf)

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        run(self._comm(), calls.reduce, "Comm.Reduce", sendbuf, recvbuf, op, root)

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        run(self._comm(), calls.allreduce, "Comm.Allreduce", sendbuf, recvbuf, op)

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        run(self._comm(), calls.reduce_scatter_block, "Comm.Reduce_scatter_block", sendbuf, recvbuf, op)

    def Reduce_scatter(self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM) -> None:
        run(self._comm(), calls.reduce_scatter, "Comm.Reduce_scatter", sendbuf, recvbuf, recvcounts, op)

    # ------------------------------------------------------------------------------------------- non-blocking

    def Ibarrier(self) -> Request:
        return start(self._comm(), calls.barrier, "Comm.Ibarrier")

    def Ibcast(self, buf: Any, root: int = 0) -> Request:
        return start(self._comm(), calls.bcast, "Comm.Ibcast", buf, root)

    def Igather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        return start(self._comm(), calls.gather, "Comm.Igather", "", sendbuf, recvbuf, root)

    def Igatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        return start(self._comm(), calls.gather, "Comm.Igatherv", "v", sendbuf, recvbuf, root)

    def Iscatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        return start(self._comm(), calls.scatter, "Comm.Iscatter", "", sendbuf, recvbuf, root)

    def Iscatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        return start(self._comm(), calls.scatter, "Comm.Iscatterv", "v", sendbuf, recvbuf, root)

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        return start(self._comm(), calls.allgather, "Comm.Iallgather", "", sendbuf, recvbuf)

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        return start(self._comm(), calls.allgather, "Comm.Iallgatherv", "v", sendbuf, recvbuf)

    def Ialltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        return start(self._comm(), calls.alltoall, "Comm.Ialltoall", "", sendbuf, recvbuf)

    def Ialltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        return start(self._comm(), calls.alltoall, "Comm.Ialltoallv", "v", sendbuf, recvbuf)

    def Ialltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        return start(self._comm(), calls.alltoall, "Comm.Ialltoallw", "w", sendbuf, recvbuf)

    def Ireduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> Request:
        return start(self._comm(), calls.reduce, "Comm.Ireduce", sendbuf, recvbuf, op, root)

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        return start(self._comm(), calls.allreduce, "Comm.Iallreduce", sendbuf, recvbuf, op)

    def Ireduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        return start(self._comm(), calls.reduce_scatter_block, "Comm.Ireduce_scatter_block", sendbuf, recvbuf, op)

    def Ireduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> Request:
        return start(self._comm(), calls.reduce_scatter, "Comm.Ireduce_scatter", sendbuf, recvbuf, recvcounts, op)


class Scans(CommHandle):
    """The reductions that only an `Intracomm` has."""

    __slots__ = ()

    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        run(self._comm(), calls.scan, "Intracomm.Scan", "scan", sendbuf, recvbuf, op)

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        run(self._comm(), calls.scan, "Intracomm.Exscan", "exscan", sendbuf, recvbuf, op)

    def Iscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        return start(self._comm(), calls.scan, "Intracomm.Iscan", "scan", sendbuf, recvbuf, op)

    def Iexscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        return start(self._comm(), calls.scan, "Intracomm.Iexscan", "exscan", sendbuf, recvbuf, op)
