"""`threading.local` in a rank: each thread of each rank has its own attributes.

Like Python's own it supports subclasses with an ``__init__``, which is called once in each thread that accesses the
object. A thread's attributes are deleted when it ends, or with the object. Outside of ranks each operating system
thread has its own attributes, in a real `threading.local`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from xsim_py.process.ranks import current

_RealLocal = threading.local


class _Key:
    """The key of one object among the attributes of a thread."""

    __slots__ = ("__weakref__", "args", "kwargs", "outside")

    def __init__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.outside: object = None


Tables = WeakKeyDictionary[_Key, dict[str, Any]]

_tables: Callable[[], Tables]
"""Returns the attributes of the rank's running thread; set by `threads`, which knows the thread."""


def keep(tables: Callable[[], Tables]) -> None:
    """Set the function that returns the attributes of the rank's running thread."""
    global _tables
    _tables = tables


def _attributes(local: Local) -> dict[str, Any]:
    """Return the attributes of an object in the running thread, created on first access."""
    # The class's ``__getattribute__`` calls this function.
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
    """An object whose attributes are those of the accessing thread."""

    __slots__ = ("_Local__key", "__weakref__")

    def __new__(cls, /, *args: object, **kwargs: object) -> Local:
        """Create an object; arguments are passed to the ``__init__`` of a subclass."""
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

    def __getattribute__(self, name: str) -> object:
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

    def __setattr__(self, name: str, value: object) -> None:
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
