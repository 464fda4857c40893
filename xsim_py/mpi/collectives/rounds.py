"""The rounds of collective algorithms: distances and partners, and exchanges that several algorithms share.

An algorithm plays its rounds for one rank, with messages; `batched.formulas` plays them for all ranks at once. The
functions without a channel describe rounds for both: `neighbor_peer` and `neighbor_pair` take a rank or an array.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from xsim_py.mpi.collectives.channel import Channel, Fold


def floor_power(number: int) -> int:
    """Return the largest power of two <= number (number >= 1)."""
    return 1 << (number.bit_length() - 1)


@lru_cache(maxsize=1024)
def doubled(size: int) -> tuple[int, ...]:
    """Return the distances 1, 2, 4, ... below `size`: ceil(log2 size) rounds."""
    return tuple(1 << turn for turn in range((size - 1).bit_length()))


def real_rank(virtual: int, extra: int, kept: int = 0) -> int:
    """Return the rank of a virtual rank if one rank of each of the first `extra` pairs has dropped out.

    `kept` is the one that has not: 0 the even, 1 the odd one.
    """
    return 2 * virtual + kept if virtual < extra else virtual + extra


def virtual_rank(rank: int, extra: int, kept: int = 0) -> int:
    """Return the virtual rank of `rank`, or -1 if it drops out; see `real_rank`."""
    if rank >= 2 * extra:
        return rank - extra
    return rank >> 1 if rank & 1 == kept else -1


def neighbor_peer(rank: Any, turn: int, size: int) -> Any:
    """Return the neighbour with which `rank` exchanges in a round: the right and the left one in turn."""
    return (rank + 1 - 2 * ((rank ^ turn) & 1)) % size


def neighbor_pair(rank: Any, turn: int, size: int) -> Any:
    """Return the first block of the pair sent in a round: each time it is one pair further away.

    It was received in the previous round. In round 1 it is the own pair; in round 0 a rank sends its own block only.
    """
    return ((rank & -2) + (4 * ((rank ^ turn) & 1) - 2) * (turn // 2)) % size


def pass_around(ch: Channel, block: bytes) -> list[bytes]:
    """Pass the blocks of all ranks to the right p-1 times and return them by rank: (p-1) l, p (p-1) messages."""
    rank, size = ch.rank, ch.size
    left, right = (rank - 1) % size, (rank + 1) % size
    blocks = [block] * size
    for step in range(1, size):
        block = ch.sendrecv(right, block, left)
        blocks[rank - step] = block  # a negative index is the ring's wrap-around
    return blocks


def fold_in(ch: Channel, data: bytes, fold: Fold, extra: int) -> bytes:
    """Combine each pair (2i, 2i+1) with i < `extra` in its even rank: 2 l, 3 messages per pair.

    Both work on one half. The return value of the odd rank, which drops out, is unused.
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

    This is the first half of Rabenseifner's reductions: Thakur, Rabenseifner and Gropp, Optimization of collective
    communication operations in MPICH, IJHPCA 19 (2005). The exchange pattern, also for other than a power of two, is
    that of Open MPI's ``redscat_allgather``. After the exchange with virtual rank ``me ^ mask`` a rank keeps the lower
    half if its bit `mask` is 0.
    """
    unit = fold.unit_bytes
    for mask in doubled(power):
        peer = real_rank(me ^ mask, extra)
        middle = len(data) // unit // 2 * unit
        if me & mask:
            data = fold(ch.sendrecv(peer, data[:middle], peer), data[middle:])
        else:
            data = fold(data[:middle], ch.sendrecv(peer, data[middle:], peer))
    return data
