"""What the C library does with memory that many ranks allocate and free."""

from __future__ import annotations

import ctypes

__all__ = ["give_back_large_blocks"]

_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 128 << 10


def give_back_large_blocks() -> None:
    """Have the GNU C library return each large block to the system when it is freed, for the rest of this process.

    When the first block of some size is freed it keeps all further ones of up to that size in its heap. In a program
    with one process that saves page faults. But when thousands of ranks have each allocated a buffer before the first
    of them frees its own, each gets memory that nobody has used before, and all of it stays: 6 GB where 1 GB does, and
    twice the time for a page (mallopt(3), M_MMAP_THRESHOLD).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
