"""The page that a compiled program shares with the simulator, and its constants, as in ``library/page.h``."""

from __future__ import annotations

import ctypes
import struct
from ctypes import c_char, c_double, c_int32, c_int64, c_uint32, c_uint64

PAGE_BYTES, MOST_ARGUMENTS, PATCH_BYTES, PAYLOAD_BYTES, QUEUE_BYTES = 96 << 10, 20, 28 << 10, 32 << 10, 32 << 10
CALL, RETURNED, ENDING = range(3)
RETURN, CALLBACK, OBTAIN, RELEASE = range(4)
FLUSH = 0xFFFF
QUEUED_CALL = 1 << 17
"""With the number of a function: it is a queued call, whose arguments are in `Child.queued`."""


class Page(ctypes.Structure):
    """``struct xsim_page``."""

    _fields_ = (
        *((name, c_uint32) for name in ("turn", "request", "reply", "function", "depth", "is_timed")),
        *(("site", c_uint64), ("cpu_ns", c_int64), ("returned", c_int64), ("result", c_int64), ("patches", c_uint32)),
        *((name, c_int32) for name in ("sent", "capacity", "received", "source", "tag")),
        *((name, c_uint32) for name in ("is_heard", "queued", "is_ahead", "is_told")),
        *(("now_s", c_double), ("now_ns", c_int64), ("arguments", c_int64 * MOST_ARGUMENTS), ("sizes", c_char * 256)),
        *(("patch", c_char * PATCH_BYTES), ("payload", c_char * PAYLOAD_BYTES), ("queue", c_char * QUEUE_BYTES)),
    )


def offset(field: str) -> int:
    """Return the offset of a field in bytes."""
    found: int = getattr(Page, field).offset
    return found


REQUEST = struct.Struct("=4xI4xII4xQ52xI")
"""Hot path: `request`, `function`, `depth`, `site` and `queued`, read at once."""
QUEUED = struct.Struct("=IIQqq7q")
"""``struct xsim_queued``: the head of a queued call."""
PATCH_HEAD = struct.Struct("=QQ")
"""The address and size of a write in `patch`, before its data."""
ARGUMENTS = [struct.Struct(f"={count}q") for count in range(MOST_ARGUMENTS + 1)]
ARGUMENTS_AT, SIZES_AT, PATCH_AT, PAYLOAD_AT, QUEUE_AT = map(
    offset, ("arguments", "sizes", "patch", "payload", "queue")
)
