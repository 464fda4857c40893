"""Recursive vector halving, the first half of Rabenseifner's reductions.

Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19 (2005); the
exchange pattern, also for p that is not a power of two, is Open MPI's ``redscat_allgather``. With P = 2**k <= p the p -
P = r odd ranks below 2r send their vector to their left neighbour and drop out; the others get virtual ranks 0..P-1, in
order.
"""

from __future__ import annotations

from xsim_py.mpi.collectives.channel import Channel, Fold


def real_rank(virtual: int, extra: int) -> int:
    """Return the rank of virtual rank `virtual` when `extra` odd ranks have dropped out."""
    return virtual * 2 if virtual < extra else virtual + extra


def virtual_rank(rank: int, extra: int) -> int:
    """Return the virtual rank of `rank`, or -1 if it drops out."""
    if rank >= 2 * extra:
        return rank - extra
    return -1 if rank & 1 else rank >> 1


def fold_in(ch: Channel, data: bytes, fold: Fold, extra: int) -> bytes:
    """Combine each pair (2i, 2i+1) with i < `extra` in its even rank: 2 l, 3 messages per pair.

    Both work on one half. The return value of the odd rank is unused.
    """
    rank = ch.rank
    if rank >= 2 * extra:
        return data
    middle = len(data) // fold.unit_bytes // 2 * fold.unit_bytes
    if rank & 1:
        ch.send(rank - 1, fold(ch.sendrecv(rank - 1, data[:middle], rank - 1), data[middle:]))
        return b""
    low = fold(data[:middle], ch.sendrecv(rank + 1, data[middle:], rank + 1))
    return low + ch.recv(rank + 1)


def halve(ch: Channel, data: bytes, fold: Fold, *, me: int, power: int, extra: int) -> bytes:
    """Exchange ever smaller halves at distances 1, 2, 4, ...; return 1/`power` of the result: k l.

    After the exchange with virtual rank ``me ^ mask`` a rank keeps the lower half if its bit `mask` is 0.
    """
    unit = fold.unit_bytes
    mask = 1
    while mask < power:
        peer = real_rank(me ^ mask, extra)
        middle = len(data) // unit // 2 * unit
        if me & mask:
            data = fold(ch.sendrecv(peer, data[:middle], peer), data[middle:])
        else:
            data = fold(data[:middle], ch.sendrecv(peer, data[middle:], peer))
        mask <<= 1
    return data
