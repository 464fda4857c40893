"""The environment of a rank: ``os.environ``, the C environment, and what child processes inherit.

Python keeps a dictionary, and C an array of strings, ``environ``. A rank that changes a variable gets private copies of
both. We allocate the array and set its address: the C library would free its own array when another rank changes
its environment.
"""

from __future__ import annotations

import _posixsubprocess
import ctypes
import os
import sys
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from xsim_py.process.ranks import current, private_state
from xsim_py.process.ranks.patches import Patches, Table, Wrapper, in_ranks, watched

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

changed_variables: set[str] = set()
"""The names of the variables that ranks have changed."""

_strings: dict[bytes, bytes] = {}
"""C code may keep the address of a string that it has received, so these are never freed."""

_python: tuple[Any, ...] = (os.environ, os.environb)
_libc = ctypes.CDLL(None)
_place: Any  # the location of C's array pointer
if sys.platform == "darwin":
    _get_environ = _libc._NSGetEnviron
    _get_environ.restype = ctypes.POINTER(ctypes.c_void_p)
    _place = _get_environ().contents
else:
    _place = ctypes.c_void_p.in_dll(_libc, "environ")


_data_of = attrgetter("_data")


class _Environment:
    """The environment of one rank."""

    __slots__ = ("array", "inherited", "seen")

    def __init__(self, seen: dict[bytes, bytes], array: Any) -> None:
        self.seen = seen  # the contents of ``os.environ``
        self.inherited = dict(seen)  # those of C's environment; they differ only if a program calls `os.putenv` itself
        self.array = array  # `inherited` in C's format

    def renew(self) -> None:
        """Rebuild the array."""
        texts = [name + b"=" + value for name, value in self.inherited.items()]
        kept = [_strings.setdefault(text, text) for text in texts]
        self.array = (ctypes.c_char_p * (len(kept) + 1))(*kept, None)


_now: _Environment | None = None
"""The installed environment; None until the first change of a run."""

_left: list[_Environment] = []
"""Environments kept forever, because C continues to use their arrays after the run."""


def _set(environment: _Environment) -> None:
    global _now
    _now = environment
    for each in _python:
        each._data = environment.seen
    _place.value = ctypes.addressof(environment.array)


_SETTING = private_state.Setting(lambda: _now, _set)


def _of_all() -> _Environment:
    """Return the unchanged environment, with a copy of C's array, because the C library may free the original."""
    count = 0
    real: Any = ctypes.cast(_place.value or 0, ctypes.POINTER(ctypes.c_void_p))
    while real and real[count]:
        count += 1
    return _Environment(_data_of(_python[0]), (ctypes.c_void_p * (count + 1))(*real[:count] if count else (), None))


def _of_rank() -> _Environment:
    """Return the environment of the running rank, which is about to change it."""
    if _now is None:
        _left.append(_of_all())
        _set(_left[-1])
    assert _now is not None
    if private_state.touch(current.rank(), "environment", _SETTING):
        _set(_Environment(dict(_now.seen), _now.array))
    return _now


def _encoded(text: str | bytes) -> bytes:
    raw: bytes = os.fsencode(text)
    if b"\0" in raw:
        raise ValueError("embedded null byte")
    return raw


def _putenv(name: str | bytes, value: str | bytes, /) -> None:
    raw, text = _encoded(name), _encoded(value)
    if b"=" in raw:
        raise ValueError("illegal environment variable name")
    changed_variables.add(os.fsdecode(raw))
    environment = _of_rank()
    environment.inherited[raw] = text
    environment.renew()
    _set(environment)


def _unsetenv(name: str | bytes, /) -> None:
    raw = _encoded(name)
    changed_variables.add(os.fsdecode(raw))
    environment = _of_rank()
    if environment.inherited.pop(raw, None) is not None:
        environment.renew()
        _set(environment)


def _renew(_: Rank) -> None:
    """Put the launcher's variables into C's environment too, before a child process is created."""
    if not isinstance(_data_of(_python[0]), dict):
        environment = _of_rank()
        environment.renew()
        _set(environment)


def _begin() -> None:
    global _now
    _now = None
    changed_variables.clear()


_CHILD = "watched: a real child with the rank's environment"
PATCHED: Table = (
    ("os", "private", {"putenv": in_ranks(_putenv), "unsetenv": in_ranks(_unsetenv)}),
    ("os", _CHILD, dict.fromkeys(("fork", "forkpty", "posix_spawn", "posix_spawnp", "system"), watched(_renew))),
    ("_posixsubprocess", _CHILD, {"fork_exec": watched(_renew)}),
    ("subprocess", _CHILD, {"_fork_exec": Wrapper(lambda _: _posixsubprocess.fork_exec)}),  # if it is already imported
)


def install(patches: Patches) -> None:
    """Watch for changes for the duration of a run; `os.environ` calls these functions before it changes."""
    _begin()
    patches.install(PATCHED)
    patches.at_end(_begin)
