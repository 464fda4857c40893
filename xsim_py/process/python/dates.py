"""`datetime` in a rank: ``now`` and ``today`` follow the rank's clock.

The class `datetime.datetime` is compiled and cannot be changed, so another class replaces it in the module while a run
lasts (as the test tool freezegun does). That class has no instances: constructing a date makes a real one.

Compiled modules, such as those of pandas, subclass the compiled class and crash with any other base. So while such a
module is imported it finds the real classes, and Python modules that it imports find the stand-ins again.
"""

from __future__ import annotations

import copyreg
import datetime
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import Any, Self, TypeAlias

from xsim_py.process.ranks.patches import Patches, Table, with_real

_RealDate: TypeAlias = datetime.date
_RealDateTime: TypeAlias = datetime.datetime


class _Meta(type):
    """A metaclass that counts real dates as instances and real classes as subclasses."""

    _real: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._real) if cls in _STAND_INS else super().__instancecheck__(instance)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls._real) if cls in _STAND_INS else super().__subclasscheck__(other)


class _Date(_RealDate, metaclass=_Meta):
    _real = _RealDate

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _RealDate(*args, **kwargs) if cls is _Date else super().__new__(cls, *args, **kwargs)

    @classmethod
    def today(cls) -> Self:
        return cls.fromtimestamp(time.time())


class _DateTime(_RealDateTime, metaclass=_Meta):
    _real = _RealDateTime

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _RealDateTime(*args, **kwargs) if cls is _DateTime else super().__new__(cls, *args, **kwargs)

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> _DateTime:
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def today(cls) -> Self:
        return cls.fromtimestamp(time.time())

    @classmethod
    def utcnow(cls) -> _DateTime:
        return cls.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)


def _reduced(date: Any) -> tuple[Any, ...]:
    """Return what `pickle` writes for a date: the class name, which refers to the virtual class during a run."""
    # Not the class of the date itself: pickle would find a different one by its name and refuse.
    _, arguments = date.__reduce_ex__(4)
    return _DateTime if isinstance(date, _RealDateTime) else _Date, arguments


_STAND_INS = (_Date, _DateTime)
_real_of = attrgetter("_real")

for _stand_in in _STAND_INS:
    for _name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(_stand_in, _name, getattr(_real_of(_stand_in), _name))


_compiled: list[object] = []
"""Not empty while a compiled module is initialised and no Python module is being imported by it."""


@contextmanager
def virtual() -> Iterator[None]:
    """Install the stand-ins for Python code, also while a compiled module imports it."""
    outer = _compiled.copy()
    if outer:
        _compiled.clear()
        _put(real=False)
    try:
        yield
    finally:
        if outer:
            _compiled[:] = outer
            _put(real=True)


def _put(*, real: bool) -> None:
    for stand_in in _STAND_INS:
        setattr(datetime, stand_in.__name__, _real_of(stand_in) if real else stand_in)


def _with_real(begin: Callable[..., Any], *args: object) -> object:
    _compiled.append(begin)
    _put(real=True)
    try:
        return begin(*args)
    finally:
        _compiled.pop()
        if not _compiled:
            _put(real=False)


_begin = with_real(_with_real)
PATCHED: Table = (
    ("datetime", "virtual: current date and time of the rank", {"date": _Date, "datetime": _DateTime}),
    (
        "_imp",
        "watched: compiled modules import the real `datetime` classes",
        {"create_dynamic": _begin, "exec_dynamic": _begin},
    ),
)


def install(patches: Patches) -> None:
    """Replace the classes for the duration of a run."""
    patches.install(PATCHED)
    for stand_in in _STAND_INS:
        copyreg.pickle(_real_of(stand_in), _reduced)
        patches.at_end(partial(copyreg.dispatch_table.pop, _real_of(stand_in)))
