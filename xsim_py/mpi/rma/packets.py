"""Packets: messages between the MPI libraries of the ranks of a window.

A packet says where in the target's memory it works, as displacement and layout: it has to stand on its own, as the
target may live in another process.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from xsim_py.mpi import constants as c
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.errors import fail
from xsim_py.mpi.handles import object_of
from xsim_py.mpi.op import PREDEFINED, make_fold
from xsim_py.mpi.typemap import Layout

PUT, GET, ACCUMULATE, FETCH, SWAP, DATA, LOCK, UNLOCK, POSTED, COMPLETED = range(10)
"""What a packet is about. FETCH is the get-accumulate kind, SWAP is compare and swap, and DATA answers the three kinds
that return something; POSTED and COMPLETED are those of general active target synchronisation."""


class TargetPlace(NamedTuple):
    """Elements in the memory of the target.

    Attributes
    ----------
    displacement : int
        In the target's own unit; an address where memory is attached.
    elements, size_bytes, extent : int
        How many elements, the packed size of one, and the distance from one to the next in bytes.
    layout : Layout or None
        Where the bytes of one element are; None where all of them are one run of bytes.
    low, high : int
        The bytes that they touch, counted from the first one's origin.
    """

    displacement: int
    elements: int
    size_bytes: int
    extent: int
    layout: Layout | None
    low: int
    high: int

    @property
    def total_bytes(self) -> int:
        """The packed size of all elements."""
        return self.elements * self.size_bytes

    def read(self, memory: memoryview, offset: int) -> bytes:
        """The packed elements; the first has its origin at ``memory[offset]``."""
        if self.layout is None:
            return bytes(memory[offset : offset + self.total_bytes])
        return self.layout.pack(memory, origin=offset, count=self.elements, extent=self.extent)

    def write(self, memory: memoryview, offset: int, data: bytes) -> None:
        """Store packed elements: all of them, or as many whole ones as there are data for."""
        if self.layout is None:
            memory[offset : offset + len(data)] = data
        elif data:
            count = len(data) // self.size_bytes
            self.layout.unpack(data, memory, origin=offset, count=count, extent=self.extent)


def place_of(datatype: Type, displacement: int, count: int) -> TargetPlace:
    """The place of `count` elements of a type."""
    low, high = datatype.span(count)
    layout = None if datatype.is_verbatim or low == high else datatype.layout
    return TargetPlace(displacement, count, datatype.size, datatype.extent, layout, low, high)


class RmaPacket(NamedTuple):
    """One message from library to library.

    Attributes
    ----------
    kind : int
        What it is about.
    window, source : int, int
        The window, and the rank in it that says this.
    ticket : int
        What the origin calls an operation that returns something.
    place : TargetPlace or None
        Where an operation works.
    data : bytes
        Packed elements; of SWAP first what to compare with, then what to store.
    operation, basic : str, int
        What to accumulate with: the name of a predefined operation, and the handle of the predefined type that the
        elements are made of.
    mode : int
        How to lock, before anything else; 0 for packets that lock nothing.
    """

    kind: int
    window: int
    source: int
    ticket: int = 0
    place: TargetPlace | None = None
    data: bytes = b""
    operation: str = ""
    basic: int = 0
    mode: int = 0


def basic_type(datatype: Type) -> Type | None:
    """The predefined type that all elements are made of; None where there are several."""
    if datatype.is_predefined:
        return datatype
    found = {id(basic): basic for basic in map(basic_type, datatype.recipe.types)}
    return next(iter(found.values())) if len(found) == 1 else None


def check_operation(name: str, datatype: Type | None) -> None:
    """Refuse an operation that elements of a type can not be accumulated with."""
    if name in ("REPLACE", "NO_OP"):
        return
    if datatype is None:
        fail(c.ERR_TYPE, "an accumulate needs elements of one predefined datatype")
    make_fold(PREDEFINED[name], datatype)


def combine(packet: RmaPacket, old: bytes) -> bytes:
    """Return what an accumulate leaves in the place of `old`."""
    if packet.operation == "REPLACE" or not packet.data:
        return packet.data
    if packet.operation == "NO_OP":
        return old
    datatype: Any = object_of(packet.basic)
    return make_fold(PREDEFINED[packet.operation], datatype)(old, packet.data)
