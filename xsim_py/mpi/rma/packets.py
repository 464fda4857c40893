"""Packets: messages between the MPI libraries of the ranks of a window.

A packet gives its location in the target's memory as displacement and layout: it must be self-contained, as the target
may be in another process.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from xsim_py.mpi import constants as c
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.errors import fail
from xsim_py.mpi.handles import object_of
from xsim_py.mpi.memory import Memory
from xsim_py.mpi.op import PREDEFINED, make_fold
from xsim_py.mpi.typemap import Layout

PUT, GET, ACCUMULATE, FETCH, SWAP, DATA, LOCK, UNLOCK, POSTED, COMPLETED = range(10)
"""The kinds of packets. FETCH is the get-accumulate kind, SWAP is compare and swap, and DATA is the reply to the three
kinds that return a result; POSTED and COMPLETED belong to general active target synchronisation.
"""


class TargetPlace(NamedTuple):
    """Elements in the memory of the target."""

    displacement: int
    """In the target's displacement unit; an address if memory is attached."""
    elements: int
    """The number of elements."""
    size_bytes: int
    """Their packed size."""
    extent: int
    """The distance from one to the next in bytes."""
    layout: Layout | None
    """The locations of the bytes of one element; None if all of them are contiguous."""
    low: int
    """The begin of the accessed bytes, counted from the first element's origin."""
    high: int
    """The end of the accessed bytes, counted from the first element's origin."""

    @property
    def total_bytes(self) -> int:
        """The packed size of all elements."""
        return self.elements * self.size_bytes

    def read(self, memory: Memory, offset: int) -> bytes:
        """Return the packed elements; the first has its origin at ``memory[offset]``."""
        if self.layout is None:
            return bytes(memory[offset : offset + self.total_bytes])
        return self.layout.pack(memory, origin=offset, count=self.elements, extent=self.extent)

    def write(self, memory: Memory, offset: int, data: bytes) -> None:
        """Store packed elements: all of them, or as many complete ones as there are data for."""
        if self.layout is None:
            memory[offset : offset + len(data)] = data
        elif data:
            count = len(data) // self.size_bytes
            self.layout.unpack(data, memory, origin=offset, count=count, extent=self.extent)


def place_of(datatype: Type, displacement: int, count: int) -> TargetPlace:
    """Return the location of `count` elements of a type."""
    low, high = datatype.span(count)
    layout = None if datatype.is_verbatim or low == high else datatype.layout
    return TargetPlace(displacement, count, datatype.size, datatype.extent, layout, low, high)


class RmaPacket(NamedTuple):
    """One message from library to library."""

    kind: int
    window: int
    source: int
    """The sending rank in the window."""
    ticket: int = 0
    """The origin's number of an operation that returns a result."""
    place: TargetPlace | None = None
    """The location of an operation."""
    data: bytes = b""
    """Packed elements; of SWAP first the value to compare with, then the value to store."""
    operation: str = ""
    """The name of a predefined accumulate operation."""
    basic: int = 0
    """The handle of the predefined type of the elements."""
    mode: int = 0
    """The mode of a lock to acquire first; 0 for packets that lock nothing."""


def basic_type(datatype: Type) -> Type | None:
    """Return the predefined type of all elements; None if there are several."""
    if datatype.is_predefined:
        return datatype
    found = {id(basic): basic for basic in map(basic_type, datatype.recipe.types)}
    return next(iter(found.values())) if len(found) == 1 else None


def check_operation(name: str, datatype: Type | None) -> None:
    """Raise an error if the operation does not support elements of a type."""
    if name in ("REPLACE", "NO_OP"):
        return
    if datatype is None:
        fail(c.ERR_TYPE, "an accumulate needs elements of one predefined datatype")
    make_fold(PREDEFINED[name], datatype)


def combine(packet: RmaPacket, old: bytes) -> bytes:
    """Return the value that an accumulate stores instead of `old`."""
    if packet.operation == "REPLACE" or not packet.data:
        return packet.data
    if packet.operation == "NO_OP":
        return old
    datatype: Any = object_of(packet.basic)
    return make_fold(PREDEFINED[packet.operation], datatype)(old, packet.data)
