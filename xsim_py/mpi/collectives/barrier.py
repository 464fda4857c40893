"""Barrier algorithms: no rank leaves before the last one has entered.

Times are on a latency-only network (every message takes exactly `l`, nothing else costs) for p ranks that enter
together; k = floor(log2 p).
"""

from __future__ import annotations

from xsim_py.mpi.collectives import trees
from xsim_py.mpi.collectives.channel import Channel, receive_all, send_all
from xsim_py.mpi.collectives.rounds import doubled, floor_power


def linear(ch: Channel) -> None:
    """Rank 0 receives from all ranks, then replies to all: 2 l (p > 1), 2 (p-1) messages. Open MPI 1."""
    if ch.rank:
        ch.send(0, b"")
        ch.recv(0)
    else:
        others = range(1, ch.size)
        receive_all(ch, others)
        send_all(ch, others, b"")


def double_ring(ch: Channel) -> None:
    """Pass a token around the ring twice: 2 p l (p > 1), 2 p messages. Open MPI 2."""
    rank, size = ch.rank, ch.size
    if size == 1:
        return
    left, right = (rank - 1) % size, (rank + 1) % size
    for _ in range(2):
        if rank:
            ch.recv(left)
        ch.send(right, b"")
        if not rank:
            ch.recv(left)


def recursive_doubling(ch: Channel) -> None:
    """Exchange with rank xor 1, 2, 4, ...: k l for p = 2**k. Open MPI 3.

    The r = p - 2**k ranks beyond the power of two first notify a partner, which releases them last: (k+1) l if 0 < r <=
    2**k / 2, (k+2) l if r is larger. Messages: k 2**k + 2 r.
    """
    rank, size = ch.rank, ch.size
    power = floor_power(size)
    if rank >= power:
        ch.sendrecv(rank - power, b"", rank - power)
        return
    if rank + power < size:
        ch.recv(rank + power)
    for mask in doubled(power):
        peer = rank ^ mask
        ch.sendrecv(peer, b"", peer)
    if rank + power < size:
        ch.send(rank + power, b"")


def bruck(ch: Channel) -> None:
    """Dissemination: notify rank+2**i, receive from rank-2**i: ceil(log2 p) l. Open MPI 4.

    p ceil(log2 p) messages. Hensgen, Finkel and Manber, Two algorithms for barrier synchronization, IJPP 17 (1988);
    Bruck et al. 1997.
    """
    rank, size = ch.rank, ch.size
    for distance in doubled(size):
        ch.sendrecv((rank + distance) % size, b"", (rank - distance) % size)


def tree(ch: Channel) -> None:
    """Go up and down the in-order binomial tree of rank 0: 2 k l, 2 (p-1) messages. Open MPI 6."""
    parent, children = trees.in_order_binomial(ch.rank, ch.size, 0)
    receive_all(ch, children)
    if parent >= 0:
        ch.send(parent, b"")
        ch.recv(parent)
    send_all(ch, children[::-1], b"")
