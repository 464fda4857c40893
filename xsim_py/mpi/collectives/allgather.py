"""Allgather algorithms: each rank gets the blocks of all.

Called as ``algorithm(ch, data, sizes) -> sequence of bytes``; `sizes` are the block sizes in bytes of all ranks, known
to all, so every algorithm also serves Allgatherv. Times are on a latency-only network for p ranks that enter together.
"""

from __future__ import annotations

from collections.abc import Sequence

from xsim_py.mpi.collectives import bcast as bcasts
from xsim_py.mpi.collectives import gather as gathers
from xsim_py.mpi.collectives.channel import Bcast, Channel, Gather, blocks_of
from xsim_py.mpi.collectives.rounds import doubled, neighbor_pair, neighbor_peer, pass_around


def linear(
    ch: Channel, data: bytes, sizes: Sequence[int], gather: Gather = gathers.linear, bcast: Bcast = bcasts.linear
) -> Sequence[bytes]:
    """Gather to rank 0, then broadcast: 2 l (p > 1), 2 (p-1) messages if both are linear. Open MPI 1.

    `choose` passes the gather and the broadcast that it would choose for them.
    """
    blocks = gather(ch, data, 0)
    whole = None if blocks is None else b"".join(blocks)
    return blocks_of(bcast(ch, whole, 0, sum(sizes)), sizes)


def ring(ch: Channel, data: bytes, sizes: Sequence[int]) -> Sequence[bytes]:
    """Pass blocks to the right p-1 times: (p-1) l, p (p-1) messages. Open MPI 4 (v: 3).

    On two ranks it is a single exchange, Open MPI's 6 (v: 5), "two_proc".
    """
    return pass_around(ch, data)


def bruck(ch: Channel, data: bytes, sizes: Sequence[int]) -> Sequence[bytes]:
    """Collect the blocks of rank+1, +2, ... by doubling: ceil(log2 p) l, p ceil(log2 p) messages. Open MPI 2.

    Bruck et al., IEEE TPDS 8 (1997).
    """
    rank, size = ch.rank, ch.size
    for distance in doubled(size):
        run = data
        if 2 * distance > size:  # the last blocks have already arrived
            last = rank + size - distance
            run = data[: sum(sizes[rank:last]) + sum(sizes[: max(last - size, 0)])]
        data += ch.sendrecv((rank - distance) % size, run, (rank + distance) % size)
    first = sum(sizes[rank:])  # where the block of rank 0 begins
    return blocks_of(data[first:] + data[:first], sizes)


def recursive_doubling(ch: Channel, data: bytes, sizes: Sequence[int]) -> Sequence[bytes]:
    """Exchange all blocks with rank xor 1, 2, 4, ...: k l, k p messages for p = 2**k. Open MPI 3.

    For other p it runs `bruck`.
    """
    rank, size = ch.rank, ch.size
    if size & (size - 1):
        return bruck(ch, data, sizes)
    for mask in doubled(size):
        peer = rank ^ mask
        theirs = ch.sendrecv(peer, data, peer)
        data = theirs + data if rank & mask else data + theirs
    return blocks_of(data, sizes)


def neighbor(ch: Channel, data: bytes, sizes: Sequence[int]) -> Sequence[bytes]:
    """Exchange pairs of blocks with both neighbours in turn: p/2 l, p**2 / 2 messages.

    Open MPI 5 (v: 4). Chen, Zhang, Zhang and Yuan, Performance evaluation of allgather algorithms on terascale Linux
    cluster with fast Ethernet, HPC-Asia 2005. For odd p it runs `ring`.
    """
    rank, size = ch.rank, ch.size
    if size & 1:
        return ring(ch, data, sizes)
    blocks = [b""] * size
    blocks[rank] = data
    peers = peer, _ = neighbor_peer(rank, 0, size), neighbor_peer(rank, 1, size)
    blocks[peer] = ch.sendrecv(peer, data, peer)
    data = blocks[rank & -2] + blocks[rank | 1]
    for turn in range(1, size // 2):
        peer = peers[turn & 1]
        data = ch.sendrecv(peer, data, peer)
        pair = neighbor_pair(rank, turn + 1, size)
        blocks[pair], blocks[pair + 1] = data[: sizes[pair]], data[sizes[pair] :]
    return blocks
