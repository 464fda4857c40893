"""Reduce-scatter algorithms: rank i gets block i of the result.

Called as ``algorithm(ch, parts, fold) -> bytes``; `parts` are the p blocks of the rank's vector, with equal sizes on
all ranks, so every algorithm serves Reduce_scatter and Reduce_scatter_block. Times are on a latency-only network for p
ranks that enter together; P = 2**k is the largest power of two <= p and r = p - P.

`nonoverlapping` (over an ordered reduction), `recursive_doubling` and `butterfly` preserve rank order;
`recursive_halving` and `ring` need a commutative fold, which `choose` ensures.
"""

from __future__ import annotations

from collections.abc import Sequence

from xsim_py.mpi.collectives import reduce as reduces
from xsim_py.mpi.collectives import scatter as scatters
from xsim_py.mpi.collectives.bcast import stranded_peers
from xsim_py.mpi.collectives.channel import Channel, Fold, Reduce, Scatter, cut
from xsim_py.mpi.collectives.rounds import doubled, floor_power, real_rank, virtual_rank


def nonoverlapping(
    ch: Channel,
    parts: Sequence[bytes],
    fold: Fold,
    reduce: Reduce = reduces.binomial,
    scatter: Scatter = scatters.linear,
) -> bytes:
    """Reduce to rank 0, then scatter: the sum of their times and messages. Open MPI 1.

    With the default parts that is (k+1) l and 2 (p-1) messages. `choose` passes the reduction and the scatter that it
    would choose for them.
    """
    whole = reduce(ch, b"".join(parts), fold, 0)
    return scatter(ch, None if whole is None else cut(whole, map(len, parts)), 0)


def ring_from(ch: Channel, blocks: Sequence[bytes], fold: Fold, first: int) -> bytes:
    """Pass a block around the ring from `first`, folding in each rank's block: (p-1) l, p-1 messages.

    Returns the complete block ``first + 1`` (mod p).
    """
    rank, size = ch.rank, ch.size
    left, right = (rank - 1) % size, (rank + 1) % size
    block = blocks[first % size]
    for step in range(1, size):
        block = fold(ch.sendrecv(right, block, left), blocks[(first - step) % size])
    return block


def ring(ch: Channel, parts: Sequence[bytes], fold: Fold) -> bytes:
    """Pass each block around the ring to its rank, folding on the way: (p-1) l, p (p-1) messages. Open MPI 3."""
    return ring_from(ch, parts, fold, ch.rank - 1)


def _fold_in(ch: Channel, parts: Sequence[bytes], fold: Fold, extra: int) -> list[bytes]:
    """Fold the first `extra` even ranks' vectors into their right neighbours'.

    Return P groups of blocks. l and `extra` messages. Each of the first `extra` groups holds the blocks of such a pair.
    The result on the even ranks, which drop out, is unused.
    """
    rank = ch.rank
    if rank < 2 * extra:
        whole = b"".join(parts)
        if rank & 1:
            parts = cut(fold(ch.recv(rank - 1), whole), map(len, parts))
        else:
            ch.send(rank + 1, whole)
    return [parts[2 * pair] + parts[2 * pair + 1] for pair in range(extra)] + list(parts[2 * extra :])


def _halve(ch: Channel, groups: Sequence[bytes], fold: Fold, peer: int, upper: bool) -> list[bytes]:
    """Exchange halves of the groups with `peer`; the upper rank keeps the upper half: l."""
    half = len(groups) // 2
    kept, given = (groups[half:], groups[:half]) if upper else (groups[:half], groups[half:])
    theirs = ch.sendrecv(peer, b"".join(given), peer)
    mine = b"".join(kept)
    return cut(fold(theirs, mine) if upper else fold(mine, theirs), map(len, kept))


def recursive_halving(ch: Channel, parts: Sequence[bytes], fold: Fold) -> bytes:
    """Exchange half of the remaining blocks at distances P/2, P/4, ..., 1: k l for p = 2**k. Open MPI 2 (block: 3).

    (k+1) l if 0 < r <= P/2, (k+2) l if r > P/2. Messages: k P + 2 r.
    """
    rank, size = ch.rank, ch.size
    power = floor_power(size)
    extra = size - power
    groups = _fold_in(ch, parts, fold, extra)
    me = virtual_rank(rank, extra, 1)
    if me < 0:
        return ch.recv(rank + 1)
    for mask in reversed(doubled(power)):
        groups = _halve(ch, groups, fold, real_rank(me ^ mask, extra, 1), bool(me & mask))
    if rank >= 2 * extra:
        return groups[0]
    middle = len(parts[rank - 1])
    ch.send(rank - 1, groups[0][:middle])
    return groups[0][middle:]


def _mirror(number: int, bits: int) -> int:
    """Reverse the `bits` lowest bits of `number`."""
    return sum(1 << (bits - 1 - bit) for bit in range(bits) if number >> bit & 1)


def butterfly(ch: Channel, parts: Sequence[bytes], fold: Fold) -> bytes:
    """Exchange halves at distances 1, 2, ..., P/2, in rank order, then swap with the mirrored rank.

    (k+1) l for p = 2**k > 2 (k l for p <= 2), (k+1) l if r = 1, (k+2) l if r > 1. Open MPI 4; Traeff, EuroPVM/MPI
    2005. Messages: k P + 2 r + P - 2**ceil(k/2), as that many k-bit numbers are their own mirror image.
    """
    rank, size = ch.rank, ch.size
    power = floor_power(size)
    extra = size - power
    bits = power.bit_length() - 1
    groups = _fold_in(ch, parts, fold, extra)
    me = rank >> 1 if rank < 2 * extra else rank - extra
    owner = _mirror(me, bits)  # the owner of this rank's final group, which holds this rank's
    peer = real_rank(owner, extra, 1)
    if rank < 2 * extra and not rank & 1:
        return ch.recv(peer)
    for mask in doubled(power):
        groups = _halve(ch, groups, fold, real_rank(me ^ mask, extra, 1), bool(me & mask))
    block = groups[0]
    if owner < extra:
        middle = len(parts[2 * owner])
        ch.send(2 * owner, block[:middle])
        block = block[middle:]
    return block if owner == me else ch.sendrecv(peer, block, peer)


def recursive_doubling(ch: Channel, parts: Sequence[bytes], fold: Fold) -> bytes:
    """Exchange the blocks outside the rank's own subtree with rank xor 1, 2, 4, ...: k l for p = 2**k.

    Open MPI's Reduce_scatter_block 2. For other p, where received blocks are forwarded to ranks without a partner
    (`stranded_peers`), from ceil(log2 p) l (p = 3 * 2**j) to 2 k l (p = 2**k + 1). Messages: one per rank and round in
    which the sibling subtree is not empty (k p for p = 2**k).
    """
    rank, size = ch.rank, ch.size
    parts = list(parts)
    for mask in doubled(size):
        peer = rank ^ mask
        mine, other = rank & -mask, peer & -mask  # first ranks of the two subtrees
        theirs = None
        if peer < size:
            theirs = ch.sendrecv(peer, b"".join(parts[:mine] + parts[mine + mask :]), peer)
        for sends, stranded in stranded_peers(rank, mask, size):
            if not sends:
                theirs = ch.recv(stranded)
            elif theirs is not None:
                ch.send(stranded, theirs)
        if theirs is not None:
            kept = parts[:other] + parts[other + mask :]
            own = b"".join(kept)
            folded = cut(fold(own, theirs) if mine < other else fold(theirs, own), map(len, kept))
            parts = folded[:other] + parts[other : other + mask] + folded[other:]
    return parts[rank]
