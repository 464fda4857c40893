"""The collective calls of mpi4py, one row each: parameters, and the role of each buffer.

Rows are data. They define the methods of the interface (`collective_calls`) and the checks of collectives
(`checks.collectives`, `checks.significant`), and have the argument lists of the C binding. A test compares them with
mpi4py's stub file and with MPICH's prototypes (tests/mpi4py/test_call_table.py).

Each column of a row is a parameter. For a buffer, the form of its data follows a colon (MPI 4.1, chapters 6 and 8.6):
``one`` block, ``each`` for equal blocks, one per rank or neighbour, ``v`` for blocks with counts, ``w`` for blocks with
counts and types, or ``part`` for blocks with the counts in `recvcounts`. A buffer with ``@`` is significant only on the
root. An upper-case row stands for three calls: blocking, nonblocking (``Ibcast``) and persistent (``Bcast_init``). A
lower-case row is a blocking call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

__all__ = ["COLLECTIVES", "OPTIONAL", "Buffer", "Collective"]

_ROWS = """
Comm       Barrier
Comm       Bcast                  buf:one        root
Comm       Gather                 sendbuf:one    recvbuf:each@  root
Comm       Gatherv                sendbuf:one    recvbuf:v@     root
Comm       Scatter                sendbuf:each@  recvbuf:one    root
Comm       Scatterv               sendbuf:v@     recvbuf:one    root
Comm       Allgather              sendbuf:one    recvbuf:each
Comm       Allgatherv             sendbuf:one    recvbuf:v
Comm       Alltoall               sendbuf:each   recvbuf:each
Comm       Alltoallv              sendbuf:v      recvbuf:v
Comm       Alltoallw              sendbuf:w      recvbuf:w
Comm       Reduce                 sendbuf:one    recvbuf:one@   op  root
Comm       Allreduce              sendbuf:one    recvbuf:one    op
Comm       Reduce_scatter_block   sendbuf:each   recvbuf:one    op
Comm       Reduce_scatter         sendbuf:part   recvbuf:one    recvcounts  op
Intracomm  Scan                   sendbuf:one    recvbuf:one    op
Intracomm  Exscan                 sendbuf:one    recvbuf:one    op
Topocomm   Neighbor_allgather     sendbuf:one    recvbuf:each
Topocomm   Neighbor_allgatherv    sendbuf:one    recvbuf:v
Topocomm   Neighbor_alltoall      sendbuf:each   recvbuf:each
Topocomm   Neighbor_alltoallv     sendbuf:v      recvbuf:v
Topocomm   Neighbor_alltoallw     sendbuf:w      recvbuf:w
Comm       barrier
Comm       bcast                  obj:one        root
Comm       gather                 sendobj:one    root
Comm       scatter                sendobj:each@  root
Comm       allgather              sendobj:one
Comm       alltoall               sendobj:each
Comm       reduce                 sendobj:one    op  root
Comm       allreduce              sendobj:one    op
Intracomm  scan                   sendobj:one    op
Intracomm  exscan                 sendobj:one    op
Topocomm   neighbor_allgather     sendobj:one
Topocomm   neighbor_alltoall      sendobj:each
"""
OPTIONAL = ("op", "recvcounts", "root")
"""Parameters with a default."""


class Buffer(NamedTuple):
    """A buffer, or an object, that a collective takes."""

    parameter: str
    form: str
    """``one``, ``each``, ``v``, ``w`` or ``part``."""
    is_of_root: bool
    """True if it is significant only on the root."""
    blocks: str | None
    """The suffix of calls with such blocks: empty, ``v`` or ``w``; None if it is one block."""


@dataclass(frozen=True)
class Collective:
    """A row of the table."""

    owner: str
    name: str
    parameters: tuple[str, ...]
    sent: Buffer | None
    received: Buffer | None
    """The buffer of a broadcast is both: it is sent by the root, and received by the others."""

    @property
    def forms(self) -> tuple[str, ...]:
        """The names of its calls: blocking, nonblocking, persistent."""
        return (self.name,) if self.name.islower() else (self.name, f"I{self.name.lower()}", f"{self.name}_init")

    @cached_property
    def has_root(self) -> bool:
        """True if one rank, the root, has a special role."""
        return "root" in self.parameters

    @cached_property
    def from_root(self) -> bool:
        """True if data go from the root to the others."""
        return self.has_root and self.sent is not None and (self.sent.is_of_root or self.sent is self.received)

    @cached_property
    def to_root(self) -> bool:
        """True if data go from the others to the root."""
        return self.has_root and not self.from_root

    @cached_property
    def reduces(self) -> bool:
        """True if it applies an operation to data of ranks."""
        return "op" in self.parameters

    @cached_property
    def is_of_objects(self) -> bool:
        """True if it takes pickled objects instead of buffers."""
        return self.name.islower()

    @cached_property
    def is_of_neighbors(self) -> bool:
        """True if ranks exchange data only with their neighbours."""
        return self.owner == "Topocomm"

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """Its different buffers, those that are significant on all ranks first."""
        found = [self.sent] if self.sent is self.received else [self.sent, self.received]
        return tuple(sorted((each for each in found if each is not None), key=lambda each: each.is_of_root))

    @cached_property
    def has_unequal_blocks(self) -> bool:
        """True if a buffer has a count for each rank."""
        return any(each.form in ("v", "w") for each in self.buffers)

    def c_arguments(self, form: str = "") -> Iterator[str]:
        """Yield the kinds of the arguments of a call in C, in order (MPI 4.1, A.3.4).

        They are ``in`` and ``out`` for addresses, ``count``, ``type``, ``counts``, ``displacements``, ``types``,
        ``op``, ``root``, ``comm``, ``info`` and ``request``. `form` is empty, ``I`` or ``_init``.
        """
        if self.reduces:
            yield from ("in", "out", "counts" if "recvcounts" in self.parameters else "count", "type", "op")
        else:
            for buffer, address in ((self.sent, "in"), (self.received, "out")):
                if buffer is not None and (address == "out" or self.sent is not self.received):
                    yield address
                    if buffer.form in ("v", "w"):
                        yield from ("counts", "displacements", "types" if buffer.form == "w" else "type")
                    else:
                        yield from ("count", "type")
        yield from ("root",) * self.has_root + ("comm",)
        yield from {"": (), "I": ("request",), "_init": ("info", "request")}[form]


def _buffer(column: str) -> Buffer:
    parameter, _, form = column.partition(":")
    blocks = {"each": "", "v": "v", "w": "w"}.get(form.rstrip("@"))
    return Buffer(parameter, form.rstrip("@"), form.endswith("@"), blocks)


def _row(owner: str, name: str, *columns: str) -> Collective:
    buffers = [_buffer(column) for column in columns if ":" in column]
    sent = next((each for each in buffers if not each.parameter.startswith("recv")), None)
    received = sent if name.lower() == "bcast" else next((each for each in buffers if each is not sent), None)
    return Collective(owner, name, tuple(column.partition(":")[0] for column in columns), sent, received)


COLLECTIVES = {row.name: row for row in (_row(*line.split()) for line in _ROWS.strip().splitlines())}
"""The rows by name."""
