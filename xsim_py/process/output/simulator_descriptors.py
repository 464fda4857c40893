"""Standard output and standard error by descriptors of the simulator's own.

A program may close or redirect descriptors 1 and 2, as one does that quiets a C library. They are those of the process,
in which all ranks are; what the ranks print and what the simulator says goes past them.
"""

from __future__ import annotations

import fcntl
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TextIO, cast

from xsim_py.atomic_files import moved

_STANDARD: Final = (1, 2)

_FAR_UP: Final = (700, 200, max(_STANDARD) + 1)
"""Above what a program closes that wants to be a daemon, if the limit allows that; it is 1024 most often."""


def far_up(number: int) -> int:
    """Duplicate a descriptor to a high number, which a program hardly ever comes across; return that number.

    Raises
    ------
    OSError
        It is not open, or there are too many.
    """
    *high, lowest = _FAR_UP
    for least in high:
        with suppress(OSError):  # the limit is lower
            return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, least)
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, lowest)


class Apart(io.TextIOWrapper):
    """A stream that writes to what another one wrote to when it was made; `stands_for` is the descriptor of that."""

    def __init__(self, stream: Any, *, closes: bool) -> None:
        self.stands_for: int = stream.fileno()
        own = far_up(self.stands_for)
        file = open(own, "wb", closefd=closes)  # noqa: SIM115 - closed with this object
        at_once = stream.line_buffering or stream.write_through  # the latter with `python -u`
        super().__init__(file, stream.encoding, stream.errors, line_buffering=at_once)
        self._was = moved.get(self.stands_for)
        moved[self.stands_for] = own

    def close(self) -> None:
        """Write what is left, and let go of the descriptor."""
        if not self.closed:
            if self._was is None:
                moved.pop(self.stands_for, None)
            else:
                moved[self.stands_for] = self._was
        super().close()


def apart(stream: TextIO, *, closes: bool = False) -> TextIO:
    """Return the same stream on a descriptor of its own, if it is one of those that programs redirect.

    What stands before such a stream, and does something else with what is written, stays as it is.
    """
    if type(stream) is not io.TextIOWrapper and stream not in (sys.__stdout__, sys.__stderr__):
        return stream
    try:
        if stream.fileno() not in _STANDARD:
            return stream
        stream.flush()
        return cast("TextIO", Apart(stream, closes=closes))
    except (AttributeError, OSError, ValueError):  # it has none, or none that can be used
        return stream


@contextmanager
def kept_apart(*streams: TextIO) -> Iterator[tuple[TextIO, ...]]:
    """Replace some streams for a while by ones on the simulator's own descriptors; one that comes twice stays one."""
    distinct = {id(stream): stream for stream in streams}
    own = {name: apart(stream, closes=True) for name, stream in distinct.items()}
    try:
        yield tuple(own[id(stream)] for stream in streams)
    finally:
        for name, each in own.items():
            if each is not distinct[name]:
                with suppress(OSError):  # whoever wrote to it knows that
                    each.close()
