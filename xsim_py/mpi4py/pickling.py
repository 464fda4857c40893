"""The class `Pickle`, which converts objects to messages for the lower-case calls.

`MPI.pickle` is one object for all ranks, but a program may set other functions, which must not affect other processes:
its settings are kept per process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pickle import HIGHEST_PROTOCOL
from pickle import dumps as _dumps
from pickle import loads as _loads
from typing import Any

from xsim_py.mpi import constants as c
from xsim_py.mpi.errors import fail
from xsim_py.mpi.per_process import of_process
from xsim_py.mpi4py.memory import buffer, flat_view
from xsim_py.mpi4py.options import Options, current_options, on_unusual_options

__all__ = [
    "Pickle",
    "dump",
    "dump_each",
    "is_default",
    "load",
    "load_each",
    "loader",
    "pickle",
    "reset_changes",
]


class _Settings:
    """The settings of a `Pickle`."""

    __slots__ = ("dumps", "loads", "protocol", "threshold")

    def __init__(self, options: Options | None = None) -> None:
        options = options or current_options()
        self.dumps: Callable[..., bytes] = _dumps
        self.loads: Callable[..., Any] = _loads
        self.protocol: int | None = options.pickle_protocol
        self.threshold = options.pickle_threshold


def _or_default(protocol: int | None, settings: _Settings) -> int | None:
    """Return a protocol, or the default if the program gives none."""
    return current_options().pickle_protocol if protocol is None and settings.dumps is _dumps else protocol


class Pickle:
    """Pickle/unpickle Python objects."""

    __module__ = "mpi4py.MPI"
    __slots__ = ("_own",)
    _own: _Settings

    def __new__(cls, *args: object, **kwargs: object) -> Pickle:
        self = super().__new__(cls)
        self._own = _Settings()
        return self

    def __init__(
        self,
        dumps: Callable[..., bytes] | None = None,
        loads: Callable[..., Any] | None = None,
        protocol: int | None = None,
        threshold: int | None = None,
    ) -> None:
        settings = self._change()
        settings.dumps = _dumps if dumps is None else dumps
        settings.loads = _loads if loads is None else loads
        settings.protocol = _or_default(protocol, settings)
        settings.threshold = current_options().pickle_threshold if threshold is None else threshold

    def _settings(self) -> _Settings:
        if self is pickle and _changed:
            return of_process("pickle", _Settings)
        return self._own

    def _change(self) -> _Settings:
        global _changed
        if self is not pickle:
            return self._own
        _changed = True
        return of_process("pickle", _Settings)

    def dumps(self, obj: object) -> bytes:
        settings = self._settings()
        return settings.dumps(obj) if settings.protocol is None else settings.dumps(obj, settings.protocol)

    def loads(self, data: object) -> Any:
        return self._settings().loads(data)

    def dumps_oob(self, obj: object) -> tuple[bytes, list[buffer]]:
        settings = self._settings()
        protocol = current_options().pickle_protocol if settings.protocol is None else settings.protocol
        buffers: list[buffer] = []

        def keep_in_band(exporter: object) -> bool:
            view = flat_view(exporter, writable=False)
            if len(view) < settings.threshold:
                return True
            buffers.append(buffer(view))
            return False

        return settings.dumps(obj, max(protocol, 5), buffer_callback=keep_in_band), buffers

    def loads_oob(self, data: object, buffers: Iterable[Any]) -> Any:
        return self._settings().loads(data, buffers=buffers)

    @property
    def PROTOCOL(self) -> int | None:
        return self._settings().protocol

    @PROTOCOL.setter
    def PROTOCOL(self, protocol: int | None) -> None:
        settings = self._change()
        settings.protocol = _or_default(protocol, settings)

    @property
    def THRESHOLD(self) -> int:
        return self._settings().threshold

    @THRESHOLD.setter
    def THRESHOLD(self, threshold: int | None) -> None:
        self._change().threshold = current_options().pickle_threshold if threshold is None else threshold


_changed = False  # whether any process has changed `pickle`: until then the shared settings are used
pickle: Pickle = None  # type: ignore[assignment]  # so that the first instance knows that it is not yet this
pickle = Pickle()


def _begin(options: Options) -> None:
    """Initialise the current process's `pickle` from its environment."""
    global _changed
    if (options.pickle_protocol, options.pickle_threshold) != (HIGHEST_PROTOCOL, Options().pickle_threshold):
        _changed = True
        of_process("pickle", lambda: _Settings(options))


on_unusual_options(_begin)


def reset_changes() -> None:
    """Reset to an unchanged `pickle` at the beginning of a run."""
    global _changed
    _changed = False


def is_default() -> bool:
    """Return True if no process of this run has changed `pickle`."""
    return not _changed


def dump(obj: object) -> bytes:
    """Return the message that contains an object."""
    return pickle.dumps(obj) if _changed else _dumps(obj, HIGHEST_PROTOCOL)


def dump_each(objects: Sequence[Any]) -> list[bytes]:
    """Return the messages that contain some objects."""
    return [pickle.dumps(obj) for obj in objects] if _changed else [_dumps(obj, HIGHEST_PROTOCOL) for obj in objects]


def load(data: bytes) -> Any:
    """Return the object in a message; None for an empty message."""
    if not data:
        return None
    return pickle.loads(buffer(data)) if _changed else _loads(data)


def load_each(messages: Sequence[bytes]) -> list[Any]:
    """Return the objects in some messages."""
    return [load(data) for data in messages] if _changed or b"" in messages else list(map(_loads, messages))


def loader(buf: object, default_bytes: int | None) -> Callable[[Any], Any]:
    """Return a function that unpickles messages up to the size of `buf`.

    As in mpi4py, that is a buffer or a number.
    """
    limit = default_bytes if buf is None else buf if isinstance(buf, int) else len(flat_view(buf, writable=True))
    return load if limit is None else partial(_load_within, limit)


def _load_within(room_bytes: int, data: bytes) -> object:
    if len(data) > room_bytes:
        fail(c.ERR_TRUNCATE, f"{len(data)} bytes arrived, the receive buffer takes {room_bytes}")
    return load(data)
