"""Broadcast algorithms: the root's bytes reach every rank.

Called as ``algorithm(ch, data, root, size_bytes) -> bytes``; `data` is None except at the root, `size_bytes` is known
to all. Times are on a latency-only network for p ranks that enter together; k = floor(log2 p). A broadcast along a tree
sends p-1 messages and takes the tree's height, which is k (not ceil(log2 p)) for the binary and binomial trees, since
there a parent serves all its children at once. If a sender pays an overhead `o` per message, the binomial tree reaches
rank v after bits(v) o + ones(v) l, hence k (o + l) for p = 2**k.
"""

from __future__ import annotations

from xsim_py.mpi.collectives import trees
from xsim_py.mpi.collectives.channel import Bytes, Channel, send_all
from xsim_py.mpi.collectives.rounds import doubled, pass_around

PIPELINE_SEGMENT_BYTES = 1 << 16


def _down(ch: Channel, data: Bytes, tree: trees.Tree) -> bytes:
    """Receive the data from the parent and send them to the children."""
    parent, children = tree
    if parent >= 0:
        data = ch.recv(parent)
    assert data is not None
    send_all(ch, children, data)
    return data


def linear(ch: Channel, data: Bytes, root: int, size_bytes: int) -> bytes:
    """Send from the root to all ranks: l (p > 1), p-1 messages. Open MPI 1."""
    if ch.rank != root:
        return ch.recv(root)
    assert data is not None
    send_all(ch, [rank for rank in range(ch.size) if rank != root], data)
    return data


def chain(ch: Channel, data: Bytes, root: int, size_bytes: int) -> bytes:
    """Pass the whole message from rank to rank: (p-1) l, p-1 messages. Open MPI 2 (one chain)."""
    return _down(ch, data, trees.chain(ch.rank, ch.size, root))


def pipeline(
    ch: Channel, data: Bytes, root: int, size_bytes: int, segment_bytes: int = PIPELINE_SEGMENT_BYTES
) -> bytes:
    """Pass s segments along the chain, pipelined: (p-1) l, s (p-1) messages. Open MPI 3.

    s = max(1, ceil(size_bytes / segment_bytes)). With bandwidth it takes (p-1+s-1) steps of one segment each.
    """
    parent, children = trees.chain(ch.rank, ch.size, root)
    starts = range(0, max(size_bytes, 1), segment_bytes)
    if parent < 0:
        assert data is not None
        for start in starts:
            send_all(ch, children, data[start : start + segment_bytes])
        return data
    segments = []
    coming = ch.irecv(parent)
    for start in starts:
        segment = ch.wait([coming])[0]
        if start != starts[-1]:
            coming = ch.irecv(parent)
        assert segment is not None
        send_all(ch, children, segment)
        segments.append(segment)
    return b"".join(segments)


def binary_tree(ch: Channel, data: Bytes, root: int, size_bytes: int) -> bytes:
    """Down a binary tree: k l, p-1 messages. Open MPI 5."""
    return _down(ch, data, trees.binary(ch.rank, ch.size, root))


def binomial(ch: Channel, data: Bytes, root: int, size_bytes: int) -> bytes:
    """Down a binomial tree, parent = highest bit cleared: k l, p-1 messages. Open MPI 6."""
    return _down(ch, data, trees.binomial(ch.rank, ch.size, root))


def knomial(ch: Channel, data: Bytes, root: int, size_bytes: int) -> bytes:
    """Down a 4-nomial tree, p-1 messages. Open MPI 7 with its radix 4.

    Time: m l, where m is the largest number of non-zero base-4 digits of any v < p, i.e. the largest m with
    (4**m - 1) / 3 < p.
    """
    return _down(ch, data, trees.knomial(ch.rank, ch.size, root))


def split_binary_tree(ch: Channel, data: Bytes, root: int, size_bytes: int) -> bytes:
    """Send one half down each side of a binary tree, then exchange in pairs. Open MPI 4.

    (k+1) l, k l if p = 2**k > 1. The pair of an odd (virtual) rank is the next one. With even p the last rank has no
    pair and gets its second half from the root. Messages: 2 (p-1). Fewer than 2 bytes cannot be split and use `chain`.
    """
    rank, size = ch.rank, ch.size
    if size_bytes < 2:
        return chain(ch, data, root, size_bytes)
    middle = (size_bytes + 1) // 2
    parent, children = trees.binary(rank, size, root)
    last = (root - 1) % size if size % 2 == 0 else -1  # the rank without a pair
    if parent < 0:
        assert data is not None
        for child, half in zip(children, (data[:middle], data[middle:]), strict=False):
            ch.send(child, half)
        if last >= 0:
            ch.send(last, data[middle:])
        return data
    mine = ch.recv(parent)
    for child in children:
        ch.send(child, mine)
    if rank == last:
        return mine + ch.recv(root)
    left = (rank - root) % size % 2 == 1
    pair = (rank + (1 if left else -1)) % size
    other = ch.sendrecv(pair, mine, pair)
    return mine + other if left else other + mine


def _scatter_runs(ch: Channel, data: Bytes, root: int, size_bytes: int, block_bytes: int) -> bytes:
    """Scatter blocks of `block_bytes` down the in-order binomial tree.

    Return the caller's own block. The last blocks may be short or empty; an empty run of blocks is not sent.
    """
    size = ch.size
    parent, children = trees.in_order_binomial(ch.rank, size, root)
    me = (ch.rank - root) % size
    start = me * block_bytes
    if parent >= 0:
        data = ch.recv(parent) if start < size_bytes else b""
    assert data is not None
    for child in reversed(children):  # the farthest child and longest run first
        offset = ((child - root) % size) * block_bytes - start
        if offset < len(data):
            ch.send(child, data[offset:])
            data = data[:offset]
    return data


def stranded_peers(me: int, mask: int, size: int) -> list[tuple[bool, int]]:
    """Return the extra messages of an exchange with a subtree of `mask` ranks truncated by `size`.

    In recursive doubling over ``size`` ranks that is not a power of two, some ranks of the lower subtree have no
    partner; those with a partner forward its data to them by recursive halving (Open MPI, MPICH). The messages
    are those of rank `me`, in order: (True, peer) = send to peer, (False, peer) = receive from peer.
    """
    mine, theirs = me & -mask, (me ^ mask) & -mask
    if theirs + mask <= size:
        return []
    served = size - mine - mask  # ranks of this subtree that had a partner
    steps = []
    half = mask >> 1
    while half:
        peer, first = me ^ half, me & -(half << 1)
        if peer > me and me < first + served <= peer:
            steps.append((True, peer))
        elif peer < me and peer < first + served <= me:
            steps.append((False, peer))
        half >>= 1
    return steps


def scatter_allgather(ch: Channel, data: Bytes, root: int, size_bytes: int) -> bytes:
    """Scatter down a binomial tree, then allgather by recursive doubling: 2 k l for p = 2**k. Open MPI 8.

    van de Geijn; Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005). For other p, where blocks are forwarded to ranks
    without a partner (`stranded_peers`), from (k + ceil(log2 p)) l (p = 3 * 2**j) to 3 k l (p = 2**k + 1). Messages:
    p-1, and one per rank and round in which the sibling subtree is not empty (k p for p = 2**k). Fewer than p bytes use
    `linear`.
    """
    size = ch.size
    if size_bytes < size or size == 1:
        return linear(ch, data, root, size_bytes)
    block_bytes = -(-size_bytes // size)
    me = (ch.rank - root) % size
    mine = _scatter_runs(ch, data, root, size_bytes, block_bytes)
    for mask in doubled(size):
        peer = me ^ mask
        theirs = b""
        if peer < size:
            real = (peer + root) % size
            theirs = ch.sendrecv(real, mine, real)
        for sends, stranded in stranded_peers(me, mask, size):
            real = (stranded + root) % size
            if sends:
                ch.send(real, theirs)
            else:
                theirs = ch.recv(real)
        mine = mine + theirs if not me & mask else theirs + mine
    return mine


def scatter_allgather_ring(ch: Channel, data: Bytes, root: int, size_bytes: int) -> bytes:
    """Scatter down a binomial tree, then allgather around the ring: (k + p-1) l. Open MPI 9.

    Messages: p-1 + p (p-1) if no block is empty. Fewer than p bytes use `linear`.
    """
    size = ch.size
    if size_bytes < size or size == 1:
        return linear(ch, data, root, size_bytes)
    blocks = pass_around(ch, _scatter_runs(ch, data, root, size_bytes, -(-size_bytes // size)))
    return b"".join([*blocks[root:], *blocks[:root]])
