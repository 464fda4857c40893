"""The partitioned sends and receives of `MPI.Comm`."""

from __future__ import annotations

import operator

from xsim_py.mpi import constants as c
from xsim_py.mpi.calls import begin, refused
from xsim_py.mpi.partitioned import Incoming, Outgoing, Stream
from xsim_py.mpi.transport.message import Operation

from .bufspec import message
from .commhandle import CommHandle
from .info import INFO_NULL, Info
from .request import Prequest, persistent
from .request_tasks import PartitionedTask

__all__ = ["Partitioned"]


class Partitioned(CommHandle):
    """The methods of `Comm` that send and receive in partitions."""

    __slots__ = ()

    def Psend_init(self, buf: object, partitions: int, dest: int, tag: int = 0, info: Info = INFO_NULL) -> Prequest:
        return self._partitioned(buf, partitions, dest, tag, sends=True)

    def Precv_init(
        self,
        buf: object,
        partitions: int,
        source: int = c.ANY_SOURCE,
        tag: int = c.ANY_TAG,
        info: Info = INFO_NULL,
    ) -> Prequest:
        return self._partitioned(buf, partitions, source, tag, sends=False)

    def _partitioned(self, buf: object, partitions: int, peer: int, tag: int, *, sends: bool) -> Prequest:
        comm = self._comm()
        partitions = operator.index(partitions)
        if partitions < 1:
            comm.fail(c.ERR_ARG, f"{partitions} partitions")
        if not 0 <= tag < 2**31:
            comm.fail(c.ERR_TAG, f"tag {tag} is not in 0..{2**31 - 1}")  # no wildcard: MPI 4.1, 4.2.1
        if peer != c.PROC_NULL and not 0 <= peer < len(comm.remote):
            comm.fail(c.ERR_RANK, f"rank {peer} is not in 0..{len(comm.remote) - 1}")
        task = PartitionedTask(None, None, comm, null_source=peer == c.PROC_NULL and not sends)
        task.partitions = partitions
        if peer == c.PROC_NULL:
            return persistent(task, lambda: None)
        task.sends, task.tag = sends, tag
        buffer = message(buf, writable=not sends, blocks=partitions)
        stream = Stream(comm, peer, tag, buffer, partitions, sends=sends)
        return persistent(task, lambda: _begin(task, stream, sends))


def _begin(task: PartitionedTask, stream: Stream, sends: bool) -> Operation:
    comm = stream.comm
    refusal = refused(comm, comm.remote[stream.peer])
    if refusal is not None:
        task.outgoing = task.incoming = None
        return refusal
    if sends:
        task.outgoing = Outgoing(stream)
        return task.outgoing
    task.incoming = Incoming(stream)
    return begin("Comm.Precv_init", task.incoming.body)
