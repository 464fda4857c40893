"""Source locations in the program: of message sends, and of MPI calls in which ranks wait.

A send records its source location, for reports that the message was never received, or was too long for the receiver.
Recording must be cheap, because each message pays for it and few locations are ever used: a code object and an offset
into it, which becomes a line on demand. Code objects stay in their process; other shards get plain values.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import PACKAGE, program_frame, shown
from xsim_py.mpi import errors
from xsim_py.mpi.constants import ERR_TRUNCATE

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber

Place = tuple[CodeType, int] | tuple[str, int]
"""A code object and the offset of an instruction or, after crossing to another shard, a file and a line."""

ORDINAL = 1 << 31
"""Tags are smaller. Tags of partitioned messages also encode which of several operations they belong to."""

_MOST_KEPT = 4096


def frame_here() -> FrameType:
    """Return the frame of the program's current call."""
    return program_frame(sys._getframe())


def here() -> Place:
    """Return the source location of the program's current call."""
    frame = frame_here()
    # Not the line: finding it takes a walk through a table, and few locations are ever used.
    return frame.f_code, frame.f_lasti


_FACE = os.path.join(PACKAGE, "mpi4py") + os.sep
_HANDLES = ("File", "Grequest", "Message", "Prequest", "Request", "Session", "Win")


def call_of(fiber: Fiber) -> str:
    """Return the MPI call in which a parked fiber waits, as the program wrote it, or an empty string."""
    frame: FrameType | None = fiber.greenlet.gr_frame if fiber.greenlet is not None else None
    found = ""
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        code = frame.f_code
        if code.co_filename.startswith(_FACE) and "<" not in code.co_qualname:  # not the wrappers around all calls
            found = code.co_qualname
        frame = frame.f_back
    if frame is None or not found:
        return ""
    owner, _, name = found.rpartition(".")
    if name.startswith("_") and fiber.call is not None:  # a function of a layer, which replaces the call
        return str(fiber.call.title)
    return f"{owner if owner in _HANDLES else 'Comm' if owner else 'MPI'}.{name}"


_lines: dict[tuple[int, int], tuple[CodeType, tuple[str, int]]] = {}


def line_of(place: Place) -> tuple[str, int]:
    """Return the file and line of a location; the line is 0 if the compiler has recorded none."""
    code, at = place
    if isinstance(code, str):
        return code, at
    key = id(code), at
    known = _lines.get(key)
    if known is None:
        if len(_lines) >= _MOST_KEPT:
            _lines.clear()
        line = next((line for start, end, line in code.co_lines() if start <= at < end), None)
        known = _lines[key] = (code, (code.co_filename, line or 0))  # the code too, so that its address is not reused
    return known[1]


def place_of(message: Any) -> Place | None:
    """Return the send location of a program's message.

    It is not stored as a tuple, to spare the collector.
    """
    note: Any = message.note
    if type(note) is CodeType:
        return note, message.ticket
    return note if type(note) is tuple else None


def portable(message: Any) -> object:
    """Return the note of a message in a form for other processes: one tuple per source line."""
    note = message.note
    if type(note) is CodeType:
        return line_of((note, message.ticket))
    if type(note) is tuple and note and type(note[0]) is CodeType:  # a control message may be any tuple
        return line_of(note)
    return note


def sent_at(message: object, start: str | None = None) -> str:
    """Return ``sent at file:line`` for a message with a known location.

    File names are relative to `start`. Without `start` files have no directory: a program may print this, and the text
    must not depend on where it is.
    """
    place = place_of(message)
    if place is None:
        return ""
    file, line = line_of(place)
    if file.startswith(PACKAGE) or not line:
        return ""
    return f"sent at {os.path.basename(file) if start is None else shown(file, start)}:{line}"


def tag_of_program(tag: int) -> int:
    """Return the tag of a message as the program sees it."""
    return tag % ORDINAL if tag > 0 else tag


def blame_sender(error: errors.Exception, message: Any) -> None:
    """Add the sender of a truncated message, and the location of its send, to an error."""
    if error.Get_error_class() == ERR_TRUNCATE:
        where = sent_at(message)
        errors.add_detail(
            error, f"from rank {message.source}, tag {tag_of_program(message.tag)}{where and ', '}{where}"
        )
