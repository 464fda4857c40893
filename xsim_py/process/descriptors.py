"""Standard output and standard error by descriptors of the simulator's own.

A program may close or redirect descriptors 1 and 2, as one does that quiets a C library. They are those of the process,
in which all ranks are; what the ranks print and what the simulator says goes past them.
"""

from __future__ import annotations

import fcntl
import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

__all__ = ["Apart", "apart", "kept_apart"]

_STANDARD = (1, 2)


class Apart(io.TextIOWrapper):
    """A stream that writes to what another one wrote to when it was made; `stands_for` is the descriptor of that."""

    def __init__(self, stream: Any, *, closes: bool) -> None:
        self.stands_for: int = stream.fileno()
        own = fcntl.fcntl(self.stands_for, fcntl.F_DUPFD_CLOEXEC, max(_STANDARD) + 1)
        file = open(own, "wb", closefd=closes)  # noqa: SIM115 - closed with this object
        super().__init__(file, stream.encoding, stream.errors, line_buffering=stream.line_buffering)


def apart(stream: TextIO, *, closes: bool = False) -> TextIO:
    """The same stream by a descriptor of its own, if it has one of those that programs redirect."""
    try:
        if stream.fileno() not in _STANDARD:
            return stream
        stream.flush()
        return cast("TextIO", Apart(stream, closes=closes))
    except (AttributeError, OSError, ValueError):  # it has none, or none that can be used
        return stream


@contextmanager
def kept_apart(*streams: TextIO) -> Iterator[tuple[TextIO, ...]]:
    """The same for some streams, and for a while."""
    own = tuple(apart(stream, closes=True) for stream in streams)
    try:
        yield own
    finally:
        for each, stream in zip(own, streams, strict=True):
            if each is not stream:
                with suppress(OSError):  # whoever wrote to it knows that
                    each.close()
