"""The base of all classes of MPI handles: null, equality, copies, numbers, pickling.

An instance is only a name for an object of the layer below (`_impl`), as in a real MPI: several instances may name the
same object, and freeing one of them sets that one to null.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, NoReturn, Self, TypeVar

import numpy as np

from xsim_py.mpi import handles
from xsim_py.mpi.errors import fail
from xsim_py.mpi.per_process import of_process

from .inside import impl_of, null_of

__all__ = ["CONSTANTS", "Handle", "Null", "UserFunctions", "handle_of", "int_list", "predefine", "predefine_null"]

H = TypeVar("H", bound="Handle")

CONSTANTS: dict[str, Handle] = {}
"""The predefined handles, by name."""

_blank = object.__new__


class Null:
    """The object of a null handle; each class of handles has a separate one."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def handle_of(cls: type[H], impl: Any) -> H:
    """Return a handle of an object.

    If `cls` is the user's subclass, call its ``__new__`` like mpi4py.
    """
    self = _blank(cls) if cls._is_ours else cls.__new__(cls)
    self._impl = impl
    return self


class Handle:
    """The base of the handle classes.

    A class of handles sets `_null` (its `Null`) and `_error` (the error class raised by calls on a null handle); its
    subclasses inherit both.
    """

    __slots__ = ("__weakref__", "_impl")

    _null: ClassVar[Null]
    _error: ClassVar[int]

    _is_ours: ClassVar[bool]  # whether it is one of our classes, whose `__new__` does nothing else

    _impl: Any

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Give our classes the names of a real MPI, for tracebacks and pickle."""
        super().__init_subclass__(**kwargs)
        cls._is_ours = cls.__module__.startswith("xsim_py.")
        if cls._is_ours:
            cls.__module__ = "mpi4py.MPI"

    @classmethod
    def _copy(cls, other: Handle | None) -> Self:
        """Return another handle of the object of `other`; the body of every ``__new__``."""
        self = object.__new__(cls)
        if other is None:
            self._impl = cls._null
        elif isinstance(other, Handle) and null_of(other) is cls._null:
            self._impl = impl_of(other)
        else:
            expected = f"mpi4py.MPI.{_family(cls).__name__}"
            raise TypeError(f"argument has incorrect type (expected {expected}, got {type(other).__name__})")
        return self

    @classmethod
    def _make(cls, impl: object) -> Self:
        return handle_of(cls, impl)

    def _live(self) -> Any:
        """Return the object, which must not be null."""
        if self._impl is self._null:
            self._refuse()
        return self._impl

    def _refuse(self) -> NoReturn:
        fail(self._error, f"{type(self).__name__} is null")

    def _name(self) -> str | None:
        return _names(len(CONSTANTS)).get(id(self))

    def _set_null(self) -> None:
        """Set the handle to null unless it is predefined."""
        if self._name() is None:
            self._impl = self._null

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Handle):
            return NotImplemented
        return self._impl is impl_of(other)

    def __ne__(self, other: object, /) -> bool:
        if not isinstance(other, Handle):
            return NotImplemented
        return self._impl is not impl_of(other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return self._impl is not self._null

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = self._name()
        if name is not None:
            return name
        if self._impl is self._null:
            return (type(self), ())
        for constant in CONSTANTS.values():
            if impl_of(constant) is self._impl and isinstance(self, _family(type(constant))):
                return (type(self), (constant,))
        raise ValueError(f"cannot serialize 'mpi4py.MPI.{type(self).__name__}' instance")

    @classmethod
    def fromhandle(cls, handle: int) -> Self:
        impl = handles.object_of(operator.index(handle))
        if impl is None:
            fail(cls._error, f"unknown handle {handle}")
        return cls._make(impl)

    @property
    def handle(self) -> int:
        return handles.number_of(self._impl)

    def toint(self) -> int:
        return self.handle

    @classmethod
    def fromint(cls, arg: int, /) -> Self:
        return cls.fromhandle(arg)

    def py2f(self) -> int:
        return self.handle

    @classmethod
    def f2py(cls, arg: int) -> Self:
        return cls.fromhandle(arg)


def predefine(cls: type[H], name: str, impl: object, number: int) -> H:
    """Create the predefined handle `name`, with its number in the standard's ABI."""
    made = handle_of(cls, impl)
    handles.predefine(number, impl)
    CONSTANTS[name] = made
    return made


def predefine_null(cls: type[H], number: int) -> H:
    """Create the null handle of a class."""
    impl = cls._null
    return predefine(cls, impl.name, impl, number)


@lru_cache(maxsize=1)
def _names(count: int) -> dict[int, str]:
    """Return the names of the constants, which are permanent, by address.

    `count` is their current number.
    """
    return {id(constant): name for name, constant in reversed(CONSTANTS.items())}


def _family(cls: type[Handle]) -> type[Handle]:
    """Return the class that set `_null`."""
    return next(base for base in reversed(cls.__mro__) if "_null" in vars(base))


class UserFunctions:
    """The Python functions that one process has registered as one kind of callback.

    Their number is limited as in mpi4py.
    """

    __slots__ = ("functions", "kind")

    LIMIT = 32

    def __init__(self, kind: str) -> None:
        self.kind = kind  # of callback, for the error message
        self.functions: set[Any] = set()

    @classmethod
    def of(cls, kind: str) -> UserFunctions:
        """Return the functions of the running process."""
        return of_process(f"user-defined {kind}s", lambda: cls(kind))

    def register(self, item: object) -> object:
        """Register a function; raise RuntimeError if there are too many."""
        if len(self.functions) >= self.LIMIT:
            raise RuntimeError(f"cannot create too many user-defined {self.kind}s")
        self.functions.add(item)
        return item

    def unregister(self, item: object) -> None:
        """Unregister a freed function."""
        self.functions.discard(item)


def int_list(values: Sequence[int]) -> list[int]:
    """Return the integers of a sequence, which needs a length and an index.

    As in mpi4py, a set is rejected.
    """
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu":
        listed: list[int] = values.tolist()  # the usual type of counts
        return listed
    if not isinstance(values, (list, tuple, range)):
        values = [values[place] for place in range(len(values))]
    return list(map(operator.index, values))
