"""The class `buffer`, i.e. raw memory, and the constants for special addresses.

A class written in Python cannot export a buffer before CPython 3.12, yet user programs wrap these objects with
`numpy.frombuffer` and `memoryview` (every user-defined reduction does). So `buffer` inherits the buffer protocol from
`numpy.ndarray` and hides the other inherited names.
"""

from __future__ import annotations

import operator
from typing import Any, final

import numpy as np

from .buffer_protocol import exporting_nothing
from .dlpack import at_address, foreign, is_device_memory, is_foreign

__all__ = [
    "BOTTOM",
    "BUFFER_AUTOMATIC",
    "IN_PLACE",
    "BottomType",
    "BufferAutomaticType",
    "InPlaceType",
    "KnownViews",
    "at_address",
    "buffer",
    "exported",
    "flat_view",
    "flattened",
    "is_bottom",
    "is_in_place",
    "memory",
]

_BYTE = np.dtype(np.uint8)
_NOTHING = object()
_PUBLIC_NAMES = frozenset(
    {
        "address", "allocate", "cast", "format", "fromaddress", "frombuffer", "itemsize", "nbytes", "obj", "readonly",
        "release", "tobytes", "toreadonly",
    }
)  # fmt: skip


class _OnlyOwnNames(type):
    """A metaclass that hides names inherited from `numpy.ndarray` from `dir` and `getattr`."""

    def __dir__(cls) -> list[str]:
        return sorted(name for name in super().__dir__() if name.startswith("__") or name in _PUBLIC_NAMES)

    def __getattribute__(cls, name: str) -> Any:
        if not name.startswith("_") and name not in _PUBLIC_NAMES and name != "mro":
            raise AttributeError(f"type object '{cls.__module__}.{cls.__name__}' has no attribute {name!r}")
        return super().__getattribute__(name)


@final
class buffer(np.ndarray, metaclass=_OnlyOwnNames):
    """Contiguous memory, seen as bytes."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __new__(cls, buf: object = _NOTHING, /) -> buffer:
        """Wrap an object that exports a contiguous buffer.

        Without an argument, return an empty buffer.
        """
        if buf is _NOTHING:
            return np.ndarray.__new__(cls, 0, _BYTE)
        view = flat_view(buf, writable=False)
        return np.ndarray.__new__(cls, len(view), _BYTE, view)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in _PUBLIC_NAMES:
            raise AttributeError(f"'mpi4py.MPI.buffer' object has no attribute {name!r}")
        return super().__getattribute__(name)

    def __dir__(self) -> list[str]:
        return dir(type(self))

    def __repr__(self) -> str:
        return object.__repr__(self)

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    @staticmethod
    def allocate(nbytes: int, clear: bool = False) -> buffer:
        size = operator.index(nbytes)
        if size < 0:
            raise ValueError("expecting non-negative size")
        return buffer(bytearray(size))  # cleared or not: fresh memory must not differ between runs

    @staticmethod
    def frombuffer(obj: object, readonly: bool = False) -> buffer:
        view = flat_view(obj, writable=not readonly)
        return buffer(view.toreadonly() if readonly else view)

    @staticmethod
    def fromaddress(address: int, nbytes: int, readonly: bool = False) -> buffer:
        address, size = operator.index(address), operator.index(nbytes)
        if size < 0:
            raise ValueError("expecting non-negative buffer length")
        if size > 0 and address == 0:
            raise ValueError("expecting non-NULL address")
        return buffer.frombuffer(at_address(address, size), readonly)

    @property
    def address(self) -> int:
        return 0 if self._base is None else int(self.__array_interface__["data"][0])

    @property
    def obj(self) -> object:
        base = self._base
        return base.obj if isinstance(base, memoryview) else base

    @property
    def readonly(self) -> bool:
        return not np.ndarray.__getattribute__(self, "flags").writeable

    @property
    def _base(self) -> Any:
        """Return the owner of the memory; None if there is no memory."""
        return np.ndarray.__getattribute__(self, "base")

    @property
    def format(self) -> str:
        return "B"

    def _check_accessible(self) -> None:
        if is_device_memory(self._base):
            raise BufferError("buffer is not CPU-accessible")

    def cast(self, format: str, shape: object = ...) -> memoryview:
        self._check_accessible()
        view = memoryview(self)
        return view.cast(format) if shape is ... else view.cast(format, shape)  # type: ignore[call-overload,no-any-return]

    def tobytes(self, order: str | None = None) -> bytes:
        self._check_accessible()
        return super().tobytes()

    def toreadonly(self) -> buffer:
        base = self._base
        if base is None or isinstance(base, buffer):
            return buffer(memoryview(self).toreadonly())
        owner_view = flat_view(base, writable=False)  # so that the copy refers to the same object
        start = self.address - int(np.asarray(owner_view).__array_interface__["data"][0])
        return buffer(owner_view[start : start + len(self)].toreadonly())

    def release(self) -> None:
        self.__setstate__((1, (0,), _BYTE, False, b""))  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return len(self) > 0

    def __delitem__(self, item: object) -> None:
        raise NotImplementedError("a buffer does not change its length")

    def __getitem__(self, item: object) -> Any:
        self._check_accessible()
        if isinstance(item, slice):
            if item.step not in (None, 1):
                raise IndexError("slice with step not supported")
            return super().__getitem__(item)
        return int(super().__getitem__(_index(item, len(self))))

    def __setitem__(self, item: Any, value: Any) -> None:
        self._check_accessible()
        if self.readonly:
            raise TypeError("buffer is read-only")
        if not isinstance(item, slice):
            memoryview(self)[_index(item, len(self))] = operator.index(value) & 0xFF
            return
        if item.step not in (None, 1):
            raise IndexError("slice with step not supported")
        if hasattr(value, "__index__") and not isinstance(value, buffer):
            np.asarray(self)[item] = operator.index(value) & 0xFF
            return
        view = flat_view(value, writable=False)
        if len(view) != len(range(len(self))[item]):
            raise ValueError("slice length does not match buffer")
        memoryview(self)[item] = view


def _index(item: object, length: int) -> int:
    if not hasattr(item, "__index__"):
        raise TypeError("index must be integer or slice")
    index = operator.index(item)
    if not -length <= index < length:
        raise IndexError("index out of range")
    return index


memory = buffer


def exported(obj: Any) -> memoryview:
    """Return the memory that an object exports.

    As in mpi4py, the buffer protocol comes first. An object that exports nothing raises a `TypeError`, `BufferError` or
    `ValueError`. Memory of a GPU, which a virtual rank does not have, raises a `NotImplementedError`.
    """
    if isinstance(obj, _Address):
        return memoryview(bytearray())
    try:
        return memoryview(obj)
    except (TypeError, BufferError, ValueError):
        view = foreign(obj) if _known is None else _known.view(obj)
        if view is None:
            raise
        return view


class KnownViews:
    """Cached views of memory that other libraries export: asking them again is slow.

    A real MPI, likewise, remembers only the addresses of the buffers of a persistent operation.
    """

    __slots__ = ("_views",)

    def __init__(self) -> None:
        self._views: dict[int, tuple[Any, memoryview | None]] = {}

    def view(self, obj: object) -> memoryview | None:
        """Return the view that `foreign` returns for an object, which is kept alive by the cache."""
        found = self._views.get(id(obj))
        if found is None:
            found = self._views[id(obj)] = (obj, foreign(obj))
        return found[1]

    def __enter__(self) -> None:
        """Make `exported` use this cache, in a call that does not wait."""
        global _known
        _known = self

    def __exit__(self, *_: object) -> None:
        global _known
        _known = None


_known: KnownViews | None = None


def flat_view(obj: object, *, writable: bool) -> memoryview:
    """Return the contiguous memory that an object exports, as a flat view of bytes.

    Raises a `TypeError` or `ValueError` if the object exports no memory, and a `BufferError` if the memory is not
    contiguous, or is read-only although `writable`.
    """
    try:
        view = exported(obj)
    except BufferError:
        if type(obj) is not np.ndarray or obj.dtype.kind not in "Mm":
            raise
        view = obj.view("i8").data  # numpy exports no format for dates, but their bytes are available
    return flattened(obj, view, writable=writable)


def flattened(obj: object, view: memoryview, *, writable: bool) -> memoryview:
    """Return the result of `flat_view` for an object whose exported view is known."""
    if view.c_contiguous and view.nbytes and not (writable and view.readonly):
        return view.cast("B")
    return _uncommon_view(obj, view, writable)


def _uncommon_view(obj: object, view: memoryview, writable: bool) -> memoryview:
    """Return a view of empty or Fortran-ordered memory; reject any other."""
    source = "dlpack: buffer" if is_foreign(obj) and type(obj) is not buffer else "memoryview: underlying buffer"
    if writable and view.readonly:
        plain = isinstance(obj, (bytes, buffer))
        raise BufferError("Object is not writable." if plain else f"{source} is not writable")
    if not view.contiguous:
        raise BufferError(f"{source} is not contiguous")
    if view.nbytes == 0:
        return view if view.format == "B" and view.ndim == 1 else memoryview(bytearray() if writable else b"")
    return np.asarray(view).T.data.cast("B")


class _Address:
    """The base of `BOTTOM`, `IN_PLACE` and `BUFFER_AUTOMATIC`: a name and an integer value."""

    __slots__ = ()
    _name = ""
    _value = 0

    def __bool__(self) -> bool:
        return self._value != 0

    def __int__(self) -> int:
        return self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, type(self)):
            return True
        if not hasattr(other, "__index__"):
            return NotImplemented
        return self._value == operator.index(other)

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name


@exporting_nothing
@final
class BottomType(_Address):
    """Type of `BOTTOM`."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()
    _name = "BOTTOM"

    def __index__(self) -> int:
        return self._value


@exporting_nothing
@final
class InPlaceType(_Address):
    """Type of `IN_PLACE`."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()
    _name = "IN_PLACE"
    _value = -1


@exporting_nothing
@final
class BufferAutomaticType(_Address):
    """Type of `BUFFER_AUTOMATIC`."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()
    _name = "BUFFER_AUTOMATIC"
    _value = -2


BOTTOM = BottomType()
IN_PLACE = InPlaceType()
BUFFER_AUTOMATIC = BufferAutomaticType()


def is_bottom(obj: object) -> bool:
    """Return True if a buffer argument means absolute addresses."""
    return obj is None or obj is BOTTOM


def is_in_place(obj: object) -> bool:
    """Return True if a buffer argument means that the other buffer serves for both."""
    return obj is None or obj is IN_PLACE
