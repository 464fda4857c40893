"""Prefix reductions: rank i gets the fold of ranks 0..i (scan) or 0..i-1 (exscan, None on rank 0).

Called as ``algorithm(ch, data, fold)``. All preserve rank order. Times are on a latency-only network for p ranks that
enter together.
"""

from __future__ import annotations

from xsim_py.mpi.collectives.channel import Bytes, Channel, Fold
from xsim_py.mpi.collectives.rounds import doubled


def exscan_linear(ch: Channel, data: bytes, fold: Fold) -> Bytes:
    """Pass partial results from rank to rank: (p-1) l, p-1 messages. Open MPI's basic module."""
    rank = ch.rank
    before = ch.recv(rank - 1) if rank else None
    if rank + 1 < ch.size:
        ch.send(rank + 1, data if before is None else fold(before, data))
    return before


def scan_linear(ch: Channel, data: bytes, fold: Fold) -> bytes:
    """Pass partial results from rank to rank: (p-1) l, p-1 messages. Open MPI's basic module."""
    rank = ch.rank
    if rank:
        data = fold(ch.recv(rank - 1), data)
    if rank + 1 < ch.size:
        ch.send(rank + 1, data)
    return data


def _doubling(ch: Channel, data: bytes, fold: Fold, result: Bytes) -> Bytes:
    """Exchange subtree sums (`data`) with rank xor 1, 2, 4, ...; prepend lower ones to `result`."""
    rank, size = ch.rank, ch.size
    for mask in doubled(size):
        peer = rank ^ mask
        if peer < size:
            theirs = ch.sendrecv(peer, data, peer)
            if rank & mask:
                result = theirs if result is None else fold(theirs, result)
                data = fold(theirs, data)
            else:
                data = fold(data, theirs)
    return result


def exscan_recursive_doubling(ch: Channel, data: bytes, fold: Fold) -> Bytes:
    """Use recursive doubling: ceil(log2 p) l. Open MPI's ``exscan_intra_recursivedoubling``.

    Messages: one per rank and round in which the partner exists (p log2 p for a power of two).
    """
    return _doubling(ch, data, fold, None)


def scan_recursive_doubling(ch: Channel, data: bytes, fold: Fold) -> bytes:
    """Use recursive doubling: ceil(log2 p) l, messages as for exscan. Open MPI's ``scan_intra_recursivedoubling``."""
    result = _doubling(ch, data, fold, data)
    assert result is not None
    return result
