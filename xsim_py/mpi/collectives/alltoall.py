"""Alltoall algorithms: rank i's part j becomes rank j's result i.

Called as ``algorithm(ch, parts, sizes=None) -> list[bytes]``. `sizes`, if given, are the sizes in bytes that the caller
expects from each rank (known for Alltoallv and Alltoallw); then `linear` sends no empty messages, as in Open MPI. Parts
may differ in size except for `bruck`. Times are on a latency-only network for p ranks that enter together.
"""

from __future__ import annotations

from collections.abc import Sequence

from xsim_py.mpi.collectives.channel import Channel, cut
from xsim_py.mpi.collectives.rounds import doubled

BATCH_RANKS = 32


def _exchange(
    ch: Channel, parts: Sequence[bytes], sizes: Sequence[int] | None, steps: range, blocks: list[bytes]
) -> None:
    """Receive from rank+step and send to rank-step for all `steps` concurrently, into `blocks`."""
    rank, size = ch.rank, ch.size
    sources = [(rank + step) % size for step in steps]
    dests = [(rank - step) % size for step in steps]
    if sizes is not None:
        sources = [source for source in sources if sizes[source]]
        dests = [dest for dest in dests if parts[dest]]
    handles = [ch.irecv(source) for source in sources]
    handles += [ch.isend(dest, parts[dest]) for dest in dests]
    for source, block in zip(sources, ch.wait(handles), strict=False):
        assert block is not None
        blocks[source] = block


def linear(ch: Channel, parts: Sequence[bytes], sizes: Sequence[int] | None = None) -> list[bytes]:
    """Post all receives and sends at once and wait: l (p > 1), p (p-1) messages. Open MPI 1.

    Open MPI's ``linear_sync`` (4) is the same algorithm as called by its rules, without a limit on outstanding
    requests.
    """
    blocks = [b""] * ch.size
    blocks[ch.rank] = parts[ch.rank]
    _exchange(ch, parts, sizes, range(1, ch.size), blocks)
    return blocks


def linear_sync(
    ch: Channel, parts: Sequence[bytes], sizes: Sequence[int] | None = None, batch_ranks: int = BATCH_RANKS
) -> list[bytes]:
    """Exchange with `batch_ranks` ranks at a time: ceil((p-1) / batch) l, p (p-1) messages.

    This is MPICH's ``scattered`` alltoall, which bounds the number of outstanding requests.
    """
    size = ch.size
    blocks = [b""] * size
    blocks[ch.rank] = parts[ch.rank]
    for first in range(1, size, batch_ranks):
        _exchange(ch, parts, sizes, range(first, min(first + batch_ranks, size)), blocks)
    return blocks


def pairwise(ch: Channel, parts: Sequence[bytes], sizes: Sequence[int] | None = None) -> list[bytes]:
    """In step i send to rank+i and receive from rank-i: (p-1) l, p (p-1) messages. Open MPI 2.

    On two ranks it is a single exchange, Open MPI's 5, "two_proc".
    """
    rank, size = ch.rank, ch.size
    blocks = [parts[rank]] * size
    for step in range(1, size):
        dest, source = (rank + step) % size, (rank - step) % size
        blocks[source] = ch.sendrecv(dest, parts[dest], source)
    return blocks


def bruck(ch: Channel, parts: Sequence[bytes], sizes: Sequence[int] | None = None) -> list[bytes]:
    """Forward all blocks whose distance has bit i set by 2**i ranks: ceil(log2 p) l.

    p ceil(log2 p) messages. Open MPI 3, ``modified_bruck``; Bruck et al., IEEE TPDS 8 (1997). Equal parts only.
    """
    rank, size = ch.rank, ch.size
    blocks = [*parts[rank:], *parts[:rank]]  # by remaining distance
    block_bytes = len(parts[rank])
    for distance in doubled(size):
        moved = [index for index in range(size) if index & distance]
        theirs = ch.sendrecv(
            (rank + distance) % size, b"".join([blocks[index] for index in moved]), (rank - distance) % size
        )
        for index, block in zip(moved, cut(theirs, [block_bytes] * len(moved)), strict=True):
            blocks[index] = block
    return [blocks[(rank - source) % size] for source in range(size)]
