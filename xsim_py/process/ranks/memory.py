"""The C library and Python's collector are told to suit many ranks, which allocate and free memory at once."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def patient_collector(ranks: int) -> Iterator[None]:
    """Let Python's garbage collector look less often while a run lasts.

    Messages under way are objects that live for a while and then go, without cycles. The collector's usual thresholds
    make it look through all of them again and again: half of the time of an allreduce on 16,384 ranks. On few ranks
    less is under way, and few objects are looked through in less time each, as they lie in the processor's cache.
    """
    thresholds = gc.get_threshold()
    # What is there before the run, as numpy's and the simulator's modules, need not be looked through each time.
    gc.freeze()
    # Measured: mpi4py's tests of dtlib on 4 ranks take a tenth less at 4,000 than at 50,000; large runs need high
    # thresholds.
    few = min(256 * ranks, 50_000)
    gc.set_threshold(max(4_000, few, 64 * ranks), 20, 100)  # a rank keeps some tens of objects while it waits
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
