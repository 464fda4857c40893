"""`MPI.Status`."""

from __future__ import annotations

import copyreg
import ctypes
import operator
from array import array
from functools import lru_cache
from typing import Any, Self

from xsim_py.mpi import constants as c
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.errors import fail
from xsim_py.mpi4py.datatype import INSTANCES, Datatype, core_of
from xsim_py.mpi4py.inside import live_impl

__all__ = ["Status"]

BYTE = INSTANCES["BYTE"]
_INTEGERS = 8


class Status:
    """Status object."""

    # A hot path: a receive may fill one for every message, so the fields are bare slots and `_set` writes them all.
    # `help` and `inspect.getdoc` find their descriptions in the table of slots.
    __module__ = "mpi4py.MPI"
    __slots__ = {
        "__weakref__": None,
        "_memory": None,
        "cancelled": "Whether the communication was cancelled.",
        "count": "How many bytes the message has.",
        "error": "The error code of a call that completes several requests.",
        "source": "The rank that has sent the message.",
        "tag": "The tag of the message.",
    }
    __hash__ = None  # type: ignore[assignment]

    source: int
    tag: int
    error: int
    count: int
    cancelled: bool
    _memory: array[int]

    def __new__(cls, status: Status | None = None) -> Self:
        self = object.__new__(cls)
        if status is None:
            self.source = c.ANY_SOURCE
            self.tag = c.ANY_TAG
            self.error = c.SUCCESS
            self.count = 0
            self.cancelled = False
        elif isinstance(status, Status):
            self.__setstate__(status.__getstate__())
        else:
            raise TypeError(f"argument 'status' has incorrect type (expected Status, got {type(status).__name__})")
        return self

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return self.__getstate__() == other.__getstate__()

    def __ne__(self, other: object, /) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return self.__getstate__() != other.__getstate__()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        return (copyreg.__newobj__, (type(self),), self.__getstate__())  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, int]:
        return {
            "source": self.source,
            "tag": self.tag,
            "error": self.error,
            "count": self.count,
            "cancelled": self.cancelled,
        }

    def __setstate__(self, state: dict[str, int]) -> None:
        self.source = state["source"]
        self.tag = state["tag"]
        self.error = state["error"]
        self.count = state.get("count", 0)
        self.cancelled = bool(state.get("cancelled", False))

    def Get_source(self) -> int:
        return self.source

    def Set_source(self, source: int) -> None:
        self.source = operator.index(source)

    def Get_tag(self) -> int:
        return self.tag

    def Set_tag(self, tag: int) -> None:
        self.tag = operator.index(tag)

    def Get_error(self) -> int:
        return self.error

    def Set_error(self, error: int) -> None:
        self.error = operator.index(error)

    def Get_count(self, datatype: Datatype = BYTE) -> int:
        size = _live(datatype).size
        if size == 0:
            return c.UNDEFINED if self.count else 0
        whole, rest = divmod(self.count, size)
        return c.UNDEFINED if rest else whole

    def Get_elements(self, datatype: Datatype) -> int:
        core = _live(datatype)
        if core.size == 0:
            return c.UNDEFINED if self.count else 0
        return core.basic_elements(self.count)

    def Set_elements(self, datatype: Datatype, count: int) -> None:
        core = _live(datatype)
        count = operator.index(count)
        if count < 0:
            fail(c.ERR_COUNT, f"{count} elements")
        whole, rest = divmod(count, core.elements) if core.elements else (0, 0)
        self.count = whole * core.size + _leading_bytes(core, rest)

    def Is_cancelled(self) -> bool:
        return self.cancelled

    def Set_cancelled(self, flag: bool) -> None:
        self.cancelled = bool(flag)

    def tomemory(self) -> memoryview:
        """Return the fields as memory; writing to it changes the status."""
        if not isinstance(self, _InMemory):
            self._memory = array("i", self.py2f())
            self.__class__ = _in_memory(type(self))  # type: ignore[arg-type]
        return memoryview(self._memory)

    def _address(self) -> int:
        """Return the address of the fields in memory, with their current values."""
        fields = array("i", self.py2f())
        if hasattr(self, "_memory"):
            self._memory[:] = fields
        else:
            self._memory = fields
        return self._memory.buffer_info()[0]

    @classmethod
    def _at(cls, address: int) -> Self:
        """Return the status whose fields are at an address."""
        return cls.f2py(list((ctypes.c_int * _INTEGERS).from_address(address)))

    def py2f(self) -> list[int]:
        """Return the fields as Fortran integers.

        These are source, tag, error, low and high half of the bytes, and cancelled.
        """
        low, high = self.count & 0x7FFFFFFF, self.count >> 31
        fields = [self.source, self.tag, self.error, low, high, int(self.cancelled)]
        return fields + [0] * (_INTEGERS - len(fields))

    @classmethod
    def f2py(cls, arg: list[int]) -> Self:
        self = cls()
        self.source, self.tag, self.error, low, high, cancelled, _, _ = map(operator.index, arg)
        self.count = high << 31 | low
        self.cancelled = bool(cancelled)
        return self


class _InMemory:
    """The base of a status that a program has seen as memory, which stores its fields."""

    __slots__ = ()


def _field(place: int) -> property:
    def read(self: Any) -> int:
        value: int = self._memory[place]
        return value

    def write(self: Any, value: int) -> None:
        self._memory[place] = operator.index(value)

    return property(read, write)


@lru_cache
def _in_memory(cls: type[Any]) -> type[Any]:
    """Return the class of such a status, which looks like its original class."""
    fields = {"source": _field(0), "tag": _field(1), "error": _field(2)}
    reduce = {"__reduce__": lambda self: (copyreg.__newobj__, (cls,), self.__getstate__())}  # type: ignore[attr-defined]
    return type(cls.__name__, (cls, _InMemory), {"__slots__": (), "__module__": cls.__module__, **fields, **reduce})


def set_message(status: Status, source: int, tag: int, nbytes: int) -> None:
    """Describe a message of `nbytes`.

    Keep the error field, as the standard requires for single completions.
    """
    status.source = source
    status.tag = tag
    status.count = nbytes
    status.cancelled = False


def _live(datatype: Datatype) -> Type:
    core_of(datatype)  # anything but a Datatype is a TypeError
    core: Type = live_impl(datatype)
    return core


def _leading_bytes(core: Type, elements: int) -> int:
    """Return the packed size of the first basic elements of a datatype."""
    size_bytes = 0
    for dtype, n in core.runs() if elements else ():
        used = min(n, elements)
        size_bytes += used * dtype.itemsize
        elements -= used
    return size_bytes
