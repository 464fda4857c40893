"""The base of all classes of MPI handles: null, equality, copies, numbers, pickling.

An instance is only a name for an object of the floor below (`_impl`), as in a real MPI: several instances may name the
same object, and freeing one of them turns that one to null.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from xsim_py.mpi import handles
from xsim_py.mpi.errors import fail
from xsim_py.mpi.per_process import of_process

__all__ = ["Handle", "Null", "UserFunctions", "int_list"]


_blank = object.__new__


class Null:
    """The object that a null handle names; each class of handles has its own."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Handle:
    """Base of the handle classes.

    A class of handles sets `_null` (its `Null`) and `_error` (the class of error that a call on null raises); its
    subclasses inherit both.
    """

    __slots__ = ("__weakref__", "_impl")

    _null: ClassVar[Null]
    _error: ClassVar[int]
    _constants: ClassVar[dict[str, Handle]] = {}

    _is_ours: ClassVar[bool]  # whether it is one of our own, whose `__new__` does nothing else

    _impl: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Name our own classes as a real MPI does, in tracebacks and for pickle."""
        super().__init_subclass__(**kwargs)
        cls._is_ours = cls.__module__.startswith("xsim_py.")
        if cls._is_ours:
            cls.__module__ = "mpi4py.MPI"

    @classmethod
    def _copy(cls, other: Handle | None) -> Self:
        """Another name for what `other` names; the body of every ``__new__``."""
        self = object.__new__(cls)
        if other is None:
            self._impl = cls._null
        elif isinstance(other, Handle) and other._null is cls._null:
            self._impl = other._impl
        else:
            expected = f"mpi4py.MPI.{_family(cls).__name__}"
            raise TypeError(f"argument has incorrect type (expected {expected}, got {type(other).__name__})")
        return self

    @classmethod
    def _make(cls, impl: Any) -> Self:
        """Name an object; `cls` may be the user's subclass, whose ``__new__`` is called as mpi4py does."""
        self = _blank(cls) if cls._is_ours else cls.__new__(cls)
        self._impl = impl
        return self

    @classmethod
    def _constant(cls, name: str, impl: Any, number: int) -> Self:
        """Make the predefined handle `name`, with its number in the standard's ABI."""
        self = cls._make(impl)
        handles.predefine(number, impl)
        Handle._constants[name] = self
        return self

    def _live(self) -> Any:
        """The object, which must not be null."""
        if self._impl is self._null:
            self._refuse()
        return self._impl

    def _refuse(self) -> NoReturn:
        fail(self._error, f"{type(self).__name__} is null")

    def _name(self) -> str | None:
        return _names(len(self._constants)).get(id(self))

    def _forget(self) -> None:
        """Turn to null; the predefined handles stay what they are."""
        if self._name() is None:
            self._impl = self._null

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Handle):
            return NotImplemented
        return self._impl is other._impl

    def __ne__(self, other: object, /) -> bool:
        if not isinstance(other, Handle):
            return NotImplemented
        return self._impl is not other._impl

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return self._impl is not self._null

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = self._name()
        if name is not None:
            return name
        if self._impl is self._null:
            return (type(self), ())
        for constant in self._constants.values():
            if constant._impl is self._impl and isinstance(self, _family(type(constant))):
                return (type(self), (constant,))
        raise ValueError(f"cannot serialize 'mpi4py.MPI.{type(self).__name__}' instance")

    @classmethod
    def fromhandle(cls, handle: int) -> Any:
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
    def fromint(cls, arg: int, /) -> Any:
        return cls.fromhandle(arg)

    def py2f(self) -> int:
        return self.handle

    @classmethod
    def f2py(cls, arg: int) -> Any:
        return cls.fromhandle(arg)


@lru_cache(maxsize=1)
def _names(count: int) -> dict[int, str]:
    """The names of the constants, which stay for ever, by their addresses; `count` is how many there are by now."""
    return {id(constant): name for name, constant in reversed(Handle._constants.items())}


def _family(cls: type[Handle]) -> type[Handle]:
    """The class that set `_null`."""
    return next(base for base in reversed(cls.__mro__) if "_null" in vars(base))


class UserFunctions:
    """The Python functions that one process has given to MPI as one kind of callback: so many, as in mpi4py.

    Parameters
    ----------
    kind : str
        Of which kind they are, for the error.
    """

    __slots__ = ("held", "kind")

    LIMIT = 32

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.held: set[Any] = set()

    @classmethod
    def of(cls, kind: str) -> UserFunctions:
        """Return the functions of the running process."""
        return of_process(f"user-defined {kind}s", lambda: cls(kind))

    def hold(self, item: Any) -> Any:
        """Take one more; RuntimeError where there are too many."""
        if len(self.held) >= self.LIMIT:
            raise RuntimeError(f"cannot create too many user-defined {self.kind}s")
        self.held.add(item)
        return item

    def drop(self, item: Any) -> None:
        """One has been freed."""
        self.held.discard(item)


def int_list(values: Sequence[int]) -> list[int]:
    """The integers of a sequence (it needs a length and an index, as for mpi4py: a set will not do)."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu":
        listed: list[int] = values.tolist()  # counts are most often like this
        return listed
    if not isinstance(values, (list, tuple, range)):
        values = [values[place] for place in range(len(values))]
    return list(map(operator.index, values))
