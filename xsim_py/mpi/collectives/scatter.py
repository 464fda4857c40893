"""Scatter algorithms: each rank gets its block from the root.

Called as ``algorithm(ch, parts, root) -> bytes``; `parts` is None except at the root. Times are on a latency-only
network for p ranks that enter together; k = floor(log2 p). The linear ones accept blocks of any sizes (Scatterv);
`binomial` needs equal ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from xsim_py.mpi.collectives import trees
from xsim_py.mpi.collectives.channel import Channel


def linear(ch: Channel, parts: Sequence[bytes] | None, root: int) -> bytes:
    """Send from the root to one rank after the other: l (p > 1), p-1 messages. Open MPI 1."""
    if ch.rank != root:
        return ch.recv(root)
    assert parts is not None
    for rank in range(ch.size):
        if rank != root:
            ch.send(rank, parts[rank])
    return parts[root]


def linear_nb(ch: Channel, parts: Sequence[bytes] | None, root: int) -> bytes:
    """Start all sends of the root at once: l (p > 1), p-1 messages. Open MPI 3."""
    if ch.rank != root:
        return ch.recv(root)
    assert parts is not None
    ch.wait([ch.isend(rank, parts[rank]) for rank in range(ch.size) if rank != root])
    return parts[root]


def binomial(ch: Channel, parts: Sequence[bytes] | None, root: int) -> bytes:
    """Send runs of blocks down the in-order binomial tree, the longest first: k l, p-1 messages. Open MPI 2."""
    size = ch.size
    me = (ch.rank - root) % size
    parent, children = trees.in_order_binomial(ch.rank, size, root)
    if parent < 0:
        assert parts is not None
        run = b"".join([*parts[root:], *parts[:root]])
        blocks = size
    else:
        run = ch.recv(parent)
        blocks = min(me & -me, size - me)
    block_bytes = len(run) // blocks
    end = len(run)
    sends = []
    for child in reversed(children):
        start = ((child - root) % size - me) * block_bytes
        sends.append(ch.isend(child, run[start:end]))
        end = start
    ch.wait(sends)
    return run[:block_bytes]
