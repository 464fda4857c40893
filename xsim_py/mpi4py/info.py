"""`MPI.Info`."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from xsim_py.mpi import constants as c
from xsim_py.mpi.errors import fail
from xsim_py.mpi4py.handle import Handle, Null, predefine, predefine_null
from xsim_py.mpi4py.plain_arguments import plain_text

__all__ = ["INFO_ENV", "INFO_NULL", "Info", "items_of"]


class _ReadOnly(dict[str, str]):
    """The object of INFO_ENV, empty as in MPICH."""


class Info(Handle):
    """Info object: a mapping of strings, in the order in which keys were first set."""

    __slots__ = ()

    _null = Null("INFO_NULL")
    _error = c.ERR_INFO
    _impl: dict[str, str] | Null

    def __new__(cls, info: Info | None = None) -> Self:
        return cls._copy(info)

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self._name() is not None or not self or isinstance(self._impl, _ReadOnly):
            return super().__reduce__()
        return (_rebuild, (type(self), self.items()))

    @property
    def _items(self) -> dict[str, str]:
        items: dict[str, str] = self._live()
        return items

    @property
    def _writable(self) -> dict[str, str]:
        items = self._items
        if isinstance(items, _ReadOnly):
            fail(c.ERR_INFO, "INFO_ENV cannot be changed")
        return items

    def free(self) -> None:
        self._set_null()

    @classmethod
    def Create(cls, items: Info | Mapping[str, str] | Iterable[tuple[str, str]] | None = None) -> Self:
        self = cls._make({})
        if items is not None:
            self.update(items)
        return self

    @classmethod
    def Create_env(cls, args: Sequence[str] | None = None) -> Self:
        self = cls._make({})
        if args:
            command, *rest = args
            self.Set("command", command)
            if rest:
                self.Set("argv", " ".join(rest))
        return self

    def Free(self) -> None:
        _ = self._writable
        self._set_null()

    def Dup(self) -> Self:
        return self._make(dict(self._items))

    def Get(self, key: str) -> str | None:
        items = self._items
        return items.get(_key(key))

    def Set(self, key: str, value: str) -> None:
        items = self._writable
        items[_key(key)] = _text(value, c.MAX_INFO_VAL, c.ERR_INFO_VALUE)

    def Delete(self, key: str) -> None:
        items = self._writable
        if items.pop(_key(key), None) is None:
            fail(c.ERR_INFO_NOKEY, f"{key!r}")

    def Get_nkeys(self) -> int:
        return len(self._items)

    def Get_nthkey(self, n: int) -> str:
        keys = list(self._items)
        n = operator.index(n)
        if not 0 <= n < len(keys):
            fail(c.ERR_ARG, f"key number {n} of {len(keys)}")
        return keys[n]

    # The mapping interface, which treats null as an empty immutable mapping.

    def __len__(self) -> int:
        return self.Get_nkeys() if self else 0

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, value: str, /) -> bool:
        return bool(self) and self.Get(value) is not None

    def __getitem__(self, item: str, /) -> str:
        value = self.Get(item) if self else None
        if value is None:
            raise KeyError(item)
        return value

    def __setitem__(self, item: str, value: str, /) -> None:
        if not self:
            raise KeyError(item)
        self.Set(item, value)

    def __delitem__(self, item: str, /) -> None:
        if item not in self:
            raise KeyError(item)
        self.Delete(item)

    def get(self, key: str, default: str | None = None) -> str | None:
        value = self.Get(key) if self else None
        return default if value is None else value

    def keys(self) -> list[str]:
        return list(self._items) if self else []

    def values(self) -> list[str]:
        return list(self._items.values()) if self else []

    def items(self) -> list[tuple[str, str]]:
        return list(self._items.items()) if self else []

    def update(self, items: Info | Mapping[str, str] | Iterable[tuple[str, str]] = (), **kwds: str) -> None:
        if not self:
            raise KeyError
        pairs = [(key, items[key]) for key in items] if isinstance(items, Info | Mapping) else items
        for key, value in [*pairs, *kwds.items()]:
            self.Set(key, value)

    def pop(self, key: str, *default: str) -> str:
        if len(default) > 1:
            raise ValueError("pop takes one default")
        value = self.Get(key) if self else None
        if value is not None:
            self.Delete(key)
            return value
        if default:
            return default[0]
        raise KeyError(key)

    def popitem(self) -> tuple[str, str]:
        if not self or not self._items:
            raise KeyError
        return self._writable.popitem()

    def copy(self) -> Self:
        return self.Dup() if self else self._make(self._null)

    def clear(self) -> None:
        if self:
            self._writable.clear()


def items_of(info: Info) -> dict[str, str]:
    """Return the keys and values of hints, which may be null."""
    return dict(info.items()) if info else {}


def _text(text: str, limit_bytes: int, code: int) -> str:
    """Check a key or value against a C string of `limit_bytes`, including the final zero."""
    text = plain_text(text)
    if "\0" in text:
        raise ValueError("embedded null byte")
    if len(text.encode()) >= limit_bytes:
        fail(code, f"longer than {limit_bytes - 1} bytes")
    return text


def _key(key: str) -> str:
    key = _text(key, c.MAX_INFO_KEY, c.ERR_INFO_KEY)
    if not key:
        fail(c.ERR_INFO_KEY, "an empty key")
    return key


def _rebuild(cls: type[Info], items: list[tuple[str, str]]) -> Info:
    return cls.Create(items)


INFO_NULL = predefine_null(Info, 0x130)
INFO_ENV = predefine(Info, "INFO_ENV", _ReadOnly(), 0x131)
