"""Gather algorithms: the root gets every rank's block, in rank order.

Called as ``algorithm(ch, data, root) -> list[bytes]`` (None except at the root). Times are on a latency-only network
for p ranks that enter together; k = floor(log2 p). `linear` and `linear_sync` accept blocks of any sizes (Gatherv);
`binomial` needs equal ones.
"""

from __future__ import annotations

from xsim_py.mpi.collectives import trees
from xsim_py.mpi.collectives.channel import Channel, cut, receive_all


def linear(ch: Channel, data: bytes, root: int) -> list[bytes] | None:
    """Receive at the root from all ranks, in rank order: l (p > 1), p-1 messages. Open MPI 1."""
    if ch.rank != root:
        ch.send(root, data)
        return None
    return [data if rank == root else ch.recv(rank) for rank in range(ch.size)]


def binomial(ch: Channel, data: bytes, root: int) -> list[bytes] | None:
    """Combine growing runs of blocks up the in-order binomial tree: k l, p-1 messages. Open MPI 2."""
    size = ch.size
    parent, children = trees.in_order_binomial(ch.rank, size, root)
    run = b"".join([data, *receive_all(ch, children)])
    if parent >= 0:
        ch.send(parent, run)
        return None
    blocks = cut(run, [len(data)] * size)
    return blocks[size - root :] + blocks[: size - root]


def linear_sync(ch: Channel, data: bytes, root: int) -> list[bytes] | None:
    """Request the block of one rank after the other: 2 (p-1) l, 2 (p-1) messages. Open MPI 3.

    Open MPI splits the block into two messages, the second of which is always empty under its own rules; it is omitted
    here.
    """
    if ch.rank != root:
        ch.recv(root)
        ch.send(root, data)
        return None
    return [data if rank == root else ch.sendrecv(rank, b"", rank) for rank in range(ch.size)]
