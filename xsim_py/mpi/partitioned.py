"""Partitioned point-to-point communication (MPI 4.1, 4.2): parts are sent when they are ready.

The messages of a partitioned operation have a separate context, on which the tag also encodes which of the operations
with equal arguments they belong to: operations match in the order of their initialisation. Each partition that becomes
ready is one message, prefixed by its number; the receiver may divide the data into another number of partitions.
"""

from __future__ import annotations

import struct
from typing import Protocol

from xsim_py.process.ranks import current

from . import constants as c
from . import errors
from .comm import Communicator, derive_cid
from .transport.call_sites import ORDINAL, blame_sender, frame_here
from .transport.message import Operation
from .transport.p2p import SendCall, receive, start_send

_PREADY = SendCall("Prequest.Pready")
_HEADER = struct.Struct("<qq")


class Partitions(Protocol):
    """The program's buffer, in parts of equal size."""

    @property
    def nbytes(self) -> int:
        """The size of a partition."""

    def pack_part(self, i: int) -> bytes:
        """Return the contents of a partition."""

    def unpack_part(self, i: int, data: bytes) -> object:
        """Store the contents of a partition."""


class Stream:
    """One side of a partitioned operation, from its initialisation to its end.

    `peer` and `tag` are as passed by the program. `partitions` is the number of partitions on this side.
    """

    __slots__ = ("buffer", "cid", "comm", "partitions", "peer", "tag")

    def __init__(
        self, comm: Communicator, peer: int, tag: int, buffer: Partitions, partitions: int, *, sends: bool
    ) -> None:
        self.comm = comm
        self.peer = peer
        self.buffer = buffer
        self.partitions = partitions
        self.cid = derive_cid(comm.cid, "partitioned")
        counts: dict[tuple[int, int, int, bool], int] = comm.box.of_process("partitioned", dict)
        key = (comm.cid, peer, tag, sends)
        counts[key] = counts.get(key, 0) + 1
        self.tag = counts[key] * ORDINAL + tag

    def check(self, partition: int) -> int:
        """Raise an error if the partition does not exist."""
        if not 0 <= partition < self.partitions:
            errors.fail(c.ERR_ARG, f"partition {partition} is not in 0..{self.partitions - 1}")
        return partition


class Outgoing(Operation):
    """A started partitioned send: complete when all partitions were ready and have left."""

    __slots__ = ("ready", "remaining", "stream")

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self.stream = stream
        self.ready = [False] * stream.partitions
        self.remaining = stream.partitions

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        stream = self.stream
        missing = [str(i) for i, ready in enumerate(self.ready) if not ready]
        wanted = (
            f"partitions {', '.join(missing)} to be marked as ready" if missing else "its partitions to be received"
        )
        return f"a partitioned send on {stream.comm.label()} to rank {stream.peer}, for {wanted}"

    def mark(self, partition: int) -> None:
        """Send a partition (MPI_Pready)."""
        stream = self.stream
        if self.ready[stream.check(partition)]:
            errors.fail(c.ERR_ARG, f"partition {partition} is marked as ready already")
        self.ready[partition] = True
        data = _HEADER.pack(partition, stream.partitions) + stream.buffer.pack_part(partition)
        send = start_send(stream.comm, stream.peer, stream.tag, data, stream.cid, _PREADY, frame_here())
        if send is None:
            self.departed(None)
        else:
            send.waiter = _Departure(self, send)

    def departed(self, send: Operation | None) -> None:
        """Count a partition that has left, or cannot leave."""
        fiber = current.fiber
        self.remaining -= 1
        if send is not None:
            self.time_ps = max(self.time_ps, send.time_ps)
            self.error = self.error or send.error
        elif fiber is not None:
            self.time_ps = max(self.time_ps, fiber.clock_ps)
        if not self.remaining:
            self.complete()


class _Departure:
    """A waiter for the departure of a partition."""

    __slots__ = ("operation", "send")

    def __init__(self, operation: Outgoing, send: Operation) -> None:
        self.operation = operation
        self.send = send

    def resume(self) -> None:
        """Count the partition: it has left."""
        self.operation.departed(self.send)

    def interrupt(self) -> None:
        """Continue to wait: the partition cannot leave for now."""
        self.send.waiter = self


class Incoming:
    """A started partitioned receive, and the partitions received so far."""

    __slots__ = ("arrived", "parts", "received", "received_bytes", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.parts: list[bytes | None] | None = None
        self.arrived = [False] * stream.partitions
        self.received = 0
        self.received_bytes = 0

    def body(self) -> None:
        """Receive all partitions, in a separate fiber."""
        while self.parts is None or self.received < len(self.parts):
            stream = self.stream
            message = receive(stream.comm, stream.peer, stream.tag, stream.cid, "Comm.Precv_init")
            number, count = _HEADER.unpack_from(message.data)
            if self.parts is None:
                self.parts = [None] * count
            self.parts[number] = message.data[_HEADER.size :]
            self.received += 1
            self.received_bytes += len(message.data) - _HEADER.size
            try:
                self._store()
            except errors.Exception as error:
                blame_sender(error, message)
                raise

    def _store(self) -> None:
        """Unpack the partitions whose bytes are complete into the program's buffer."""
        parts, stream = self.parts, self.stream
        assert parts is not None
        theirs, mine, size_bytes = len(parts), stream.partitions, stream.buffer.nbytes
        for i in range(mine):
            first, end = i * theirs // mine, -(-(i + 1) * theirs // mine)
            if self.arrived[i] or any(part is None for part in parts[first:end]):
                continue
            data = b"".join(part for part in parts[first:end] if part is not None)
            part_bytes = len(data) // (end - first)
            if part_bytes * theirs > size_bytes * mine:
                errors.fail(
                    c.ERR_TRUNCATE, f"{part_bytes * theirs} bytes arrive, there is room for {size_bytes * mine}"
                )
            start = i * size_bytes - first * part_bytes
            stream.buffer.unpack_part(i, data[start : start + size_bytes])
            self.arrived[i] = True
