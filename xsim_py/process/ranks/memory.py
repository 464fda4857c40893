"""Settings of the C library and Python's collector for many ranks that allocate and free memory at once."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 128 << 10


def release_large_blocks() -> None:
    """Make the GNU C library return large blocks to the system when freed, for the rest of this process.

    When the first block of a given size is freed, the library keeps all later blocks up to that size in its heap. In a
    program with one process that saves page faults. But if thousands of ranks each allocate a buffer before the first
    of them frees its own, each gets fresh memory, and all of it stays: 6 GB instead of 1 GB, and twice the time per
    page (mallopt(3), M_MMAP_THRESHOLD).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


@contextmanager
def patient_collector(ranks: int) -> Iterator[None]:
    """Make Python's garbage collector run less often during a run.

    Messages in flight are short-lived objects without cycles. With its usual thresholds the collector scans all of them
    repeatedly: half of the time of an allreduce on 16,384 ranks. With few ranks, fewer messages are in flight, and
    scanning few objects is faster per object, as they fit into the processor's cache.
    """
    thresholds = gc.get_threshold()
    # Objects from before the run, such as numpy's and the simulator's modules, need not be scanned each time.
    gc.freeze()
    # Measured: mpi4py's tests of dtlib on 4 ranks take a tenth less at 4,000 than at 50,000; large runs need high
    # thresholds.
    few = min(256 * ranks, 50_000)
    gc.set_threshold(max(4_000, few, 64 * ranks), 20, 100)  # a rank keeps some tens of objects while it waits
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if gc.isenabled():
            gc.collect()  # only the objects of this run: `unfreeze` makes all old, and old garbage stays
        gc.unfreeze()
