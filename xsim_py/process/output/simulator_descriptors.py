"""Standard output and standard error on descriptors of the simulator's own.

A program may close or redirect descriptors 1 and 2, for example to silence a C library. They belong to the process,
which contains all ranks; output of the ranks and the simulator must not be affected.
"""

from __future__ import annotations

import fcntl
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Final, TextIO, cast

from xsim_py.atomic_files import moved

_STANDARD: Final = (1, 2)

_FAR_UP: Final = (700, 200, max(_STANDARD) + 1)
"""Above the descriptors that a daemon closes, if the limit allows it; the limit is usually 1024."""


def high_number(number: int) -> int:
    """Duplicate a descriptor to a high number, which programs hardly ever use; return that number.

    Raises an `OSError` if the descriptor is not open, or too many are.
    """
    *high, lowest = _FAR_UP
    for least in high:
        with suppress(OSError):  # the limit is lower
            return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, least)
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, lowest)


class SeparateStream(io.TextIOWrapper):
    """A stream that writes to the original target of another stream; `stands_for` is that stream's descriptor."""

    def __init__(self, stream: TextIOWrapper, *, closes: bool) -> None:
        self.stands_for: int = stream.fileno()
        own = high_number(self.stands_for)
        file = open(own, "wb", closefd=closes)  # noqa: SIM115 - closed with this object
        at_once = stream.line_buffering or stream.write_through  # the latter with `python -u`
        super().__init__(file, stream.encoding, stream.errors, line_buffering=at_once)
        self._was = moved.get(self.stands_for)
        moved[self.stands_for] = own

    def close(self) -> None:
        """Flush, and close the descriptor."""
        if not self.closed:
            if self._was is None:
                moved.pop(self.stands_for, None)
            else:
                moved[self.stands_for] = self._was
        super().close()


def apart(stream: TextIO, *, closes: bool = False) -> TextIO:
    """Return the same stream on a separate descriptor, if it is one of those that programs redirect.

    A wrapper around such a stream, which processes the written text, is returned unchanged.
    """
    if type(stream) is not io.TextIOWrapper and stream not in (sys.__stdout__, sys.__stderr__):
        return stream
    try:
        if stream.fileno() not in _STANDARD:
            return stream
        stream.flush()
        return cast("TextIO", SeparateStream(stream, closes=closes))
    except (AttributeError, OSError, ValueError):  # it has no descriptor, or no usable one
        return stream


@contextmanager
def separate_streams(*streams: TextIO) -> Iterator[tuple[TextIO, ...]]:
    """Temporarily replace streams by ones on the simulator's descriptors; equal streams stay equal."""
    distinct = {id(stream): stream for stream in streams}
    own = {name: apart(stream, closes=True) for name, stream in distinct.items()}
    try:
        yield tuple(own[id(stream)] for stream in streams)
    finally:
        for name, each in own.items():
            if each is not distinct[name]:
                with suppress(OSError):  # the writer has seen the error
                    each.close()
