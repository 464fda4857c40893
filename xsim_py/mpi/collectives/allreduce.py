"""Allreduce algorithms: each rank gets the result.

Called as ``algorithm(ch, data, fold) -> bytes``. Times are on a latency-only network for p ranks that enter together; P
= 2**k is the largest power of two <= p and r = p - P.

`linear`, `nonoverlapping` (over an ordered reduction) and `recursive_doubling` preserve rank order; the others need a
commutative fold, which `choose` ensures.
"""

from __future__ import annotations

from xsim_py.mpi.collectives import bcast as bcasts
from xsim_py.mpi.collectives import reduce as reduces
from xsim_py.mpi.collectives.channel import Bcast, Channel, Fold, Reduce, block_sizes, cut
from xsim_py.mpi.collectives.reduce_scatter import ring_from
from xsim_py.mpi.collectives.rounds import (
    doubled,
    floor_power,
    fold_in,
    halve,
    pass_around,
    real_rank,
    virtual_rank,
)

RING_SEGMENT_BYTES = 1 << 20


def nonoverlapping(
    ch: Channel, data: bytes, fold: Fold, reduce: Reduce = reduces.binomial, bcast: Bcast = bcasts.binomial
) -> bytes:
    """Reduce to rank 0, then broadcast: the sum of their times and messages. Open MPI 2.

    With binomial trees that is 2 k l and 2 (p-1) messages. `choose` passes the reduction and the broadcast that it
    would choose for them.
    """
    return bcast(ch, reduce(ch, data, fold, 0), 0, len(data))


def linear(ch: Channel, data: bytes, fold: Fold) -> bytes:
    """Linear reduction to rank 0 and linear broadcast: 2 l (p > 1), 2 (p-1) messages. Open MPI 1."""
    return nonoverlapping(ch, data, fold, reduces.linear, bcasts.linear)


def recursive_doubling(ch: Channel, data: bytes, fold: Fold) -> bytes:
    """Exchange everything with rank xor 1, 2, 4, ...: k l for p = 2**k. Open MPI 3.

    The even ranks below 2r first send their data to the right neighbour and get the result last, so that the others
    remain in rank order: (k+1) l if 0 < r <= P/2, (k+2) l if r > P/2. Messages: k P + 2r.
    """
    rank, size = ch.rank, ch.size
    power = floor_power(size)
    extra = size - power
    me = rank - extra
    if rank < 2 * extra:
        if not rank & 1:
            ch.send(rank + 1, data)
            return ch.recv(rank + 1)
        data = fold(ch.recv(rank - 1), data)
        me = rank >> 1
    sendrecv = ch.sendrecv  # hot path: one call and one fold per round, without allocation
    for mask in doubled(power):
        peer = me ^ mask
        peer = peer + extra if peer >= extra else 2 * peer + 1
        theirs = sendrecv(peer, data, peer)
        data = fold(theirs, data) if me & mask else fold(data, theirs)
    if rank < 2 * extra:
        ch.send(rank - 1, data)
    return data


def _ring(ch: Channel, data: bytes, fold: Fold, phases: int) -> bytes:
    """Run a ring reduce-scatter in `phases` passes over parts of each block, then a ring allgather."""
    rank, size = ch.rank, ch.size
    unit = fold.unit_bytes
    blocks = cut(data, block_sizes(len(data), unit_bytes=unit, blocks=size))
    parts = [cut(block, block_sizes(len(block), unit_bytes=unit, blocks=phases)) for block in blocks]
    done = [ring_from(ch, [part[phase] for part in parts], fold, rank) for phase in range(phases)]
    *others, last = pass_around(ch, b"".join(done))  # each rank has completed the block of the next one
    return b"".join([last, *others])


def ring(ch: Channel, data: bytes, fold: Fold) -> bytes:
    """Ring reduce-scatter and ring allgather: 2 (p-1) l, 2 p (p-1) messages. Open MPI 4.

    Patarasuk and Yuan, JPDC 69 (2009). Vectors of fewer than p elements use `recursive_doubling`.
    """
    if len(data) // fold.unit_bytes < ch.size:
        return recursive_doubling(ch, data, fold)
    return _ring(ch, data, fold, 1)


def segmented_ring(ch: Channel, data: bytes, fold: Fold, segment_bytes: int = RING_SEGMENT_BYTES) -> bytes:
    """Ring with s passes of one segment per block in its first half: (s+1) (p-1) l. Open MPI 5.

    s = ceil(largest block / segment); messages: (s+1) p (p-1). At most p segments of data use `ring`.
    """
    unit, size = fold.unit_bytes, ch.size
    segment = max(segment_bytes // unit, 1)
    count = len(data) // unit
    if count <= size * segment:
        return ring(ch, data, fold)
    largest_block = -(-count // size)
    return _ring(ch, data, fold, -(-largest_block // segment))


def rabenseifner(ch: Channel, data: bytes, fold: Fold) -> bytes:
    """Recursive halving, then recursive doubling: 2 k l, or (2k + 3) l if r > 0. Open MPI 6.

    Messages: 2 k P + 4 r. Vectors of fewer than P elements use `linear`.
    """
    rank, size = ch.rank, ch.size
    power = floor_power(size)
    extra = size - power
    if len(data) // fold.unit_bytes < power:
        return linear(ch, data, fold)
    data = fold_in(ch, data, fold, extra)
    me = virtual_rank(rank, extra)
    if me < 0:
        return ch.recv(rank - 1)
    data = halve(ch, data, fold, me=me, power=power, extra=extra)
    for mask in reversed(doubled(power)):
        peer = real_rank(me ^ mask, extra)
        theirs = ch.sendrecv(peer, data, peer)
        data = theirs + data if me & mask else data + theirs
    if rank < 2 * extra:
        ch.send(rank + 1, data)
    return data
