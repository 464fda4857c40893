"""Reduction algorithms: one rank gets the result.

Called as ``algorithm(ch, data, fold, root) -> bytes`` (None except at the root). Times are on a latency-only network
for p ranks that enter together; k = floor(log2 p). A tree sends p-1 messages and takes its height.

Only `linear` and `in_order_binary` keep the operands in rank order for every root, so only they support a
non-commutative fold; `choose` ensures this.
"""

from __future__ import annotations

from xsim_py.mpi.collectives import trees
from xsim_py.mpi.collectives.channel import Bytes, Channel, Fold, receive_all
from xsim_py.mpi.collectives.rounds import doubled, floor_power, fold_in, halve, real_rank, virtual_rank


def _up(ch: Channel, data: bytes, fold: Fold, tree: trees.Tree) -> Bytes:
    """Fold the children's results after the rank's own value and send the result to the parent."""
    parent, children = tree
    for theirs in receive_all(ch, children):
        data = fold(data, theirs)
    if parent < 0:
        return data
    ch.send(parent, data)
    return None


def linear(ch: Channel, data: bytes, fold: Fold, root: int) -> Bytes:
    """Fold all ranks' data at the root, last rank first: l (p > 1), p-1 messages, rank order. Open MPI 1."""
    if ch.rank != root:
        ch.send(root, data)
        return None
    result: Bytes = None
    for rank in range(ch.size - 1, -1, -1):
        theirs = data if rank == root else ch.recv(rank)
        result = theirs if result is None else fold(theirs, result)
    return result


def chain(ch: Channel, data: bytes, fold: Fold, root: int) -> Bytes:
    """Reduce along a chain to the root: (p-1) l, p-1 messages. Open MPI 2 and 3 (one chain, one segment)."""
    return _up(ch, data, fold, trees.chain(ch.rank, ch.size, root))


def binary(ch: Channel, data: bytes, fold: Fold, root: int) -> Bytes:
    """Reduce up the binary tree: k l, p-1 messages. Open MPI 4.

    Open MPI uses this for few bytes on 4 to 31 ranks: if rank 7 of 8 has failed, exactly 0, 1 and 3 raise an error.
    """
    return _up(ch, data, fold, trees.binary(ch.rank, ch.size, root))


def binomial(ch: Channel, data: bytes, fold: Fold, root: int) -> Bytes:
    """Reduce up the in-order binomial tree, parent = lowest bit cleared: k l, p-1 messages. Open MPI 5."""
    return _up(ch, data, fold, trees.in_order_binomial(ch.rank, ch.size, root))


def in_order_binary(ch: Channel, data: bytes, fold: Fold, root: int) -> Bytes:
    """Reduce up an in-order binary tree to the last rank, which sends to the root. Open MPI 6.

    k l, in rank order; (k+1) l and one more message than p-1 if the root is not the last rank.
    """
    rank, last = ch.rank, ch.size - 1
    parent, children = trees.in_order_binary(rank, ch.size)
    for theirs in receive_all(ch, children):
        data = fold(theirs, data)
    if parent >= 0:
        ch.send(parent, data)
        return ch.recv(last) if rank == root else None
    if rank == root:
        return data
    ch.send(root, data)
    return None


def rabenseifner(ch: Channel, data: bytes, fold: Fold, root: int) -> Bytes:
    """Reduce-scatter by recursive halving, then gather up a binomial tree: 2 k l for p = 2**k. Open MPI 7.

    Messages: k p + p - 1 for p = 2**k. Otherwise, with P = 2**k and r = p - P, it takes (2k + max(0, 2 - d)) l, where d
    is the smallest number of bits in which the root's virtual rank differs from one below r (virtual rank 0 replaces a
    root that dropped out), and sends 3r + k P + P - 1 messages, one more if the root dropped out. Vectors of fewer than
    P elements, and p = 1, use `linear`.
    """
    rank, size = ch.rank, ch.size
    power = floor_power(size)
    extra = size - power
    if power < 2 or len(data) // fold.unit_bytes < power:
        return linear(ch, data, fold, root)
    data = fold_in(ch, data, fold, extra)
    me, top = virtual_rank(rank, extra), virtual_rank(root, extra)
    if me >= 0:
        data = halve(ch, data, fold, me=me, power=power, extra=extra)
    stand_in = top < 0
    if stand_in:  # the root dropped out: it takes over virtual rank 0 and its data
        top = 0
        if rank == root:
            me, data = 0, ch.recv(0)
        elif me == 0:
            ch.send(root, data)
            return None
    if me < 0:
        return None
    for mask in reversed(doubled(power)):
        other = me ^ mask
        peer = root if other == 0 and stand_in else real_rank(other, extra)
        if (me ^ top) & mask:
            ch.send(peer, data)
            return None
        theirs = ch.recv(peer)
        data = theirs + data if me & mask else data + theirs
    return data
