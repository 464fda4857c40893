"""Lines of the program: where a message was sent, and in which MPI call a rank waits.

A send notes where in the program it was made, for who is told later that nobody received the message, or that it was
too long for the receiver. To note it has to cost little, for each message pays it, and few are ever asked: a code
object and an offset into it, which is a line once somebody wants to know. Code objects stay in their process; what goes
to another shard is plain.
"""

from __future__ import annotations

import os
import sys
from types import CodeType
from typing import Any

from xsim_py.code_origin import PACKAGE, program_frame, shown
from xsim_py.mpi import errors
from xsim_py.mpi.constants import ERR_TRUNCATE

Place = tuple[CodeType, int] | tuple[str, int]
"""A code object and the offset of an instruction, or what has crossed to another shard: a file and a line."""

ORDINAL = 1 << 31
"""Tags are smaller. Those of the messages of partitioned operations also say which of several operations it is."""

_MOST_KEPT = 4096


def here() -> Place:
    """Return where the program stands that has called us."""
    frame = program_frame(sys._getframe(1))
    # Not the line: to find it takes a walk through a table, and few places are ever asked for theirs.
    return frame.f_code, frame.f_lasti


_FACE = os.path.join(PACKAGE, "mpi4py") + os.sep
_HANDLES = ("File", "Grequest", "Message", "Prequest", "Request", "Session", "Win")


def call_of(greenlet: Any) -> str:
    """Return the MPI call in which a parked fiber waits, as the program has written it, or nothing."""
    frame = greenlet.gr_frame if greenlet is not None else None
    found = ""
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        code = frame.f_code
        if code.co_filename.startswith(_FACE) and "<" not in code.co_qualname:  # not what is around all calls
            found = code.co_qualname
        frame = frame.f_back
    if frame is None or not found:
        return ""
    owner, _, name = found.rpartition(".")
    return f"{owner if owner in _HANDLES else 'Comm' if owner else 'MPI'}.{name}"


_lines: dict[tuple[int, int], tuple[CodeType, tuple[str, int]]] = {}


def line_of(place: Place) -> tuple[str, int]:
    """Return the file and line of a place; the line is 0 where the compiler has left none."""
    code, at = place
    if isinstance(code, str):
        return code, at
    key = id(code), at
    known = _lines.get(key)
    if known is None:
        if len(_lines) >= _MOST_KEPT:
            _lines.clear()
        line = next((line for start, end, line in code.co_lines() if start <= at < end), None)
        known = _lines[key] = (code, (code.co_filename, line or 0))  # the code too, so that its address stays its own
    return known[1]


def place_of(message: Any) -> Place | None:
    """Return where a message of the program was sent, which keeps no tuple: that would be work for the collector."""
    note: Any = message.note
    if type(note) is CodeType:
        return note, message.ticket
    return note if type(note) is tuple else None


def portable(message: Any) -> Any:
    """Return what a message says of itself, as it may leave this process: the same tuple for all messages of a line."""
    note = message.note
    if type(note) is CodeType:
        return line_of((note, message.ticket))
    if type(note) is tuple and note and type(note[0]) is CodeType:  # a control message may be any tuple
        return line_of(note)
    return note


def sent_at(message: Any, start: str | None = None) -> str:
    """Return ``sent at file:line`` for a message that says so; `start` is the folder from which to name files.

    Without one a file has no folder: a program may print what it is told, and that is the same wherever it lies.
    """
    place = place_of(message)
    if place is None:
        return ""
    file, line = line_of(place)
    if file.startswith(PACKAGE) or not line:
        return ""
    return f"sent at {os.path.basename(file) if start is None else shown(file, start)}:{line}"


def tag_of_program(tag: int) -> int:
    """Return what a program has given as the tag of a message."""
    return tag % ORDINAL if tag > 0 else tag


def blame_sender(error: errors.Exception, message: Any) -> None:
    """Say of a message that was longer than the buffer it came into who has sent it, and where."""
    if error.Get_error_class() == ERR_TRUNCATE:
        where = sent_at(message)
        error._add_detail(f"from rank {message.source}, tag {tag_of_program(message.tag)}{where and ', '}{where}")
