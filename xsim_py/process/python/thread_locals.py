"""`threading.local` in a rank: each thread of each rank finds its own attributes.

As Python's own it can be given a class with an ``__init__``, which is called once in each thread that comes to it. A
thread's attributes go when it ends, and when the object goes. Outside of ranks each thread of the operating system has
attributes of its own, in a real `threading.local`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from xsim_py.process.ranks import current

_RealLocal = threading.local


class _Key:
    """A key that stands for one object among the attributes of a thread."""

    __slots__ = ("__weakref__", "args", "kwargs", "outside")

    def __init__(self, args: Any, kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs
        self.outside: Any = None


Tables = WeakKeyDictionary[_Key, dict[str, Any]]

_tables: Callable[[], Tables]
"""Where the running thread of a rank keeps its attributes; set by `threads`, which knows what that is."""


def keep(tables: Callable[[], Tables]) -> None:
    """Say where the running thread of a rank keeps its attributes."""
    global _tables
    _tables = tables


def _attributes(local: Local) -> dict[str, Any]:
    """Return the attributes that an object has in the running thread; they are made at the first question."""
    # The class has a ``__getattribute__`` that comes here.
    key: _Key = object.__getattribute__(local, "_Local__key")
    if current.here() is None:
        if key.outside is None:
            key.outside = _RealLocal()
        found: dict[str, Any] = vars(key.outside)
        if "" not in found:
            found[""] = {}
            _begin(local, key)
        own: dict[str, Any] = found[""]
        return own
    tables = _tables()
    known = tables.get(key)
    if known is None:
        known = tables[key] = {}
        _begin(local, key)
    return known


def _begin(local: Local, key: _Key) -> None:
    cls = type(local)
    if cls.__init__ is not object.__init__:
        cls.__init__(local, *key.args, **key.kwargs)


class Local:
    """An object whose attributes are those of the thread that asks."""

    __slots__ = ("_Local__key", "__weakref__")

    def __new__(cls, /, *args: Any, **kwargs: Any) -> Local:
        """Make one; what it is given is for the ``__init__`` of a class made from this one."""
        if (args or kwargs) and cls.__init__ is object.__init__:
            raise TypeError("Initialization arguments are not supported")
        made = super().__new__(cls)
        key = _Key(args, kwargs)
        object.__setattr__(made, "_Local__key", key)
        if current.here() is None:
            key.outside = _RealLocal()
            vars(key.outside)[""] = {}
        else:
            _tables()[key] = {}
        return made

    def __getattribute__(self, name: str) -> Any:
        attributes = _attributes(self)
        if name == "__dict__":
            return attributes
        cls = type(self)
        for base in cls.__mro__:
            if name in base.__dict__:
                found = base.__dict__[name]
                if hasattr(type(found), "__set__") or name not in attributes:
                    return object.__getattribute__(self, name)
                break
        if name in attributes:
            return attributes[name]
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__dict__":
            raise AttributeError(f"{type(self).__name__!r} object attribute '__dict__' is read-only")
        attributes = _attributes(self)
        if hasattr(type(getattr(type(self), name, None)), "__set__"):
            object.__setattr__(self, name, value)
        else:
            attributes[name] = value

    def __delattr__(self, name: str) -> None:
        if name == "__dict__":
            raise AttributeError(f"{type(self).__name__!r} object attribute '__dict__' is read-only")
        attributes = _attributes(self)
        if name in attributes:
            del attributes[name]
        else:
            object.__delattr__(self, name)
