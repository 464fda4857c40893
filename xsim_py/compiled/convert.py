"""Conversion between the arguments of a C call and those of the methods of `xsim_py.mpi4py.MPI`.

Handles are numbers: those of the ABI for predefined objects, and from 0x1000 on for others, counted by each process.
Buffers stay in the program's memory. `RemoteMemory` reads and writes them there when a message is packed or unpacked,
so that a receive that completes later needs no copy.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.mpi import constants as c
from xsim_py.mpi import handles
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.errors import fail
from xsim_py.mpi.memory import OutsideMemory
from xsim_py.mpi.predefined import FORTRAN_ONLY
from xsim_py.mpi4py.bufspec import BlockBuffer, UserBuffer, usable
from xsim_py.mpi4py.handle import CONSTANTS, Handle, handle_of
from xsim_py.mpi4py.inside import comm_of, impl_of, null_of

from .by_hand import MPI

if TYPE_CHECKING:
    from xsim_py.mpi.comm import Communicator

    from .child import Child

__all__ = [
    "CParameter",
    "Handles",
    "RemoteMemory",
    "blocks_at",
    "buffer_at",
    "new_status",
    "parameters_of",
    "read_status",
    "write_status",
]

_FIRST = 0x1000  # the ABI reserves lower numbers for predefined handles
_OF_PROGRAM = 1 << 30  # from here on, the program itself gives requests their numbers (library/runtime.c)
_NULL_TYPES = range(0x2C0, 0x300)  # types of Fortran that are null here have numbers, too
_PREDEFINED: dict[int, Handle] = {
    **dict.fromkeys(_NULL_TYPES, MPI.DATATYPE_NULL),
    **{each.toint(): each for each in CONSTANTS.values()},
    **{number: handle_of(MPI.Datatype, each) for number, each in FORTRAN_ONLY.items()},
}


class CParameter(NamedTuple):
    """A parameter of a C function, as in ``library/interface.txt``."""

    name: str
    kind: str
    """The kind of the MPI Forum's description, such as RANK."""
    direction: str
    """``in``, ``out`` or ``inout``."""
    ctype: str
    form: str
    """``v`` for a value, ``p`` for a pointer, ``a`` for an array."""
    length: str

    @property
    def code(self) -> str:
        """The code of its elements for `struct`."""
        return _CODES.get(self.ctype, "q")


_CODES = {"int": "i", "double": "d", "char": "c", "MPI_Fint": "i"}


def parameters_of(rows: str) -> list[CParameter]:
    """Return the parameters in a row of ``interface.txt``."""
    return [CParameter(*row.split(":")) for row in rows.split()]


@cache
def predefined_sizes() -> bytes:
    """Return the size of each predefined type without padding, by handle from 0x200 on; 0 for all other numbers."""
    sizes = bytearray(256)
    for each in CONSTANTS.values():
        if isinstance(each, MPI.Datatype) and each and impl_of(each).is_verbatim and impl_of(each).size < 256:
            sizes[each.toint() - 0x200] = impl_of(each).size
    return bytes(sizes)


class Handles:
    """The objects of one program, by the numbers that it knows."""

    __slots__ = ("_free", "_next", "_numbers", "addresses", "comms", "later", "objects")

    def __init__(self) -> None:
        self.objects: dict[int, Any] = {}  # all but the predefined ones
        self.comms: dict[int, Communicator] = {}  # those that are in use for messages within a group
        self._numbers: dict[int, list[int]] = {}  # by address of the object behind the handle: number, and how often
        self._next = _FIRST
        self._free: list[int] = []
        self.later: dict[int, Any] = {}  # error handlers of communicators that do not exist yet, by number
        self.addresses: dict[tuple[object, ...], tuple[int, int]] = {}
        """Memory of the program that the binding has allocated, by purpose: address and size."""

    def get(self, number: int, family: type[Handle]) -> Any:
        """Return the object with a number; raise an error if there is none, or it is of another class."""
        found = self._object(number)
        if not isinstance(found, family):
            fail(family._error, f"no {family.__name__} has the handle {number:#x}")
        return found

    def _object(self, number: int) -> Any:
        return (self.objects if number >= _FIRST else _PREDEFINED).get(number)

    def comm(self, number: int) -> Communicator | None:
        """Return the communicator with a number; None if it is null, or between two groups."""
        handle = self._object(number)
        if not isinstance(handle, MPI.Intracomm) or not handle:
            return None
        found: Communicator = comm_of(handle)
        self.comms[number] = found
        return found

    def number(self, handle: Handle) -> int:
        """Return the number of an object; an object that is passed on again keeps its number."""
        impl = impl_of(handle)
        number = handles.predefined_number(impl)
        if number is not None:
            return number
        known = self._numbers.get(id(impl))
        if known is not None:
            known[1] += 1
            return known[0]
        number = self.add(handle)
        self._numbers[id(impl)] = [number, 1]
        return number

    def lend(self, handle: Handle) -> int:
        """Return the number of an object for a callback, which does not own it."""
        impl = impl_of(handle)
        if isinstance(handle, MPI.Comm):
            for each in (MPI.COMM_WORLD, MPI.COMM_SELF):
                if impl is comm_of(each):
                    return int(each.toint())
        known = self._numbers.get(id(impl))
        return self.number(handle) if known is None else known[0]

    def is_shared(self, impl: object) -> bool:
        """Return True if the program has got the number of an object more than once."""
        known = self._numbers.get(id(impl))
        return known is not None and known[1] > 1

    def add(self, handle: Handle) -> int:
        """Give an object a number that no other has."""
        if self._free:
            number = self._free.pop()
        else:
            number = self._next
            self._next += 1
        self.objects[number] = handle
        return number

    def drop(self, number: int, impl: object = None) -> None:
        """Forget a number; `impl` is the object that was behind the handle."""
        known = self._numbers.get(id(impl))
        if known is not None:
            known[1] -= 1
            if known[1]:
                self.objects[number] = handle_of(type(self.objects[number]), impl)
                return
            del self._numbers[id(impl)]
        self.comms.pop(number, None)
        if number >= _FIRST:
            del self.objects[number]
            if number < _OF_PROGRAM:
                self._free.append(number)


def null_number(family: type[Handle]) -> int:
    """Return the number of the null handle of a class."""
    number = handles.predefined_number(null_of(family))
    assert number is not None
    return number


# ------------------------------------------------------------------------------------------------------------ buffers


class RemoteMemory(OutsideMemory):
    """Memory of a program."""

    __slots__ = ("child",)

    def __init__(self, child: Child, address: int, size: int) -> None:
        super().__init__(address, size)
        self.child = child

    def __getitem__(self, part: slice) -> bytearray:
        """Return a copy of a part."""
        return self.child.read(self.address + part.start, part.stop - part.start)

    def __setitem__(self, part: slice, data: bytes) -> None:
        """Store a part."""
        if data:
            self.child.write(self.address + part.start, data)

    def change(self, first: int, old: bytes, new: bytearray) -> None:
        """Store the bytes that differ."""
        self.child.change(self.address + first, old, new)


def buffer_at(child: Child, address: int, count: int, datatype: Type) -> UserBuffer:
    """Return a buffer in the program's memory: one block, or equal consecutive blocks."""
    if count < 0:
        fail(c.ERR_COUNT, f"negative count {count}")
    usable(datatype)
    return UserBuffer(child.memory, address, count, datatype)


def blocks_at(child: Child, counts: list[int], addresses: list[int], datatypes: list[Type]) -> BlockBuffer:
    """Return one block in the program's memory for each rank."""
    if counts and min(counts) < 0:
        fail(c.ERR_COUNT, f"negative count {min(counts)}")
    for count, datatype in zip(counts, datatypes, strict=True):
        if count or datatype is datatypes[0]:
            usable(datatype)
    return BlockBuffer(child.memory, counts, addresses, datatypes)


class CallData(UserBuffer):
    """Data that have come with the call."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def pack(self) -> bytes:
        """Return the data."""
        return self.data


# ----------------------------------------------------------------------------------------------------------- statuses

_STATUS = struct.Struct("=iiiiqq")
_ENDS = struct.Struct("=ii")
_INSIDE = struct.Struct("=iqq")
STATUS_BYTES = _STATUS.size


_UNSET = -1


def new_status() -> Any:
    """Return a status for a call that sets the error only if it describes no message (MPI 5.0, 3.2.5 and 3.7.3)."""
    status = MPI.Status()
    status.error = _UNSET
    return status


def write_status(child: Child, address: int, status: Any) -> None:
    """Write a status; its error only if it has been set."""
    fields = int(status.cancelled), status.count, 0
    if status.error != _UNSET:
        child.write(address, _STATUS.pack(status.source, status.tag, status.error, *fields))
    else:
        child.write(address, _ENDS.pack(status.source, status.tag))
        child.write(address + 12, _INSIDE.pack(*fields))


def read_status(child: Child, address: int) -> Any:
    """Return the status at an address."""
    found = MPI.Status()
    found.source, found.tag, found.error, cancelled, found.count, _ = _STATUS.unpack(child.read(address, STATUS_BYTES))
    found.cancelled = bool(cancelled)
    return found
