"""The trees along which rooted collectives send data.

The shape of a tree is observable: when a rank fails, exactly the ranks below it (broadcast) or above it (reduction) see
an error. So the shapes are those of Open MPI (``ompi/mca/coll/base/coll_base_topo.c``), child order included.

Each function returns ``(parent, children)`` of one rank, with parent -1 at the root. All shapes are built for root 0
and shifted by `root`, except the in-order binary tree, whose root is always the last rank. On a latency-only network a
tree of height h takes h latencies, because sending to many children takes a parent no time there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

from xsim_py.mpi.collectives.rounds import doubled

Tree: TypeAlias = "tuple[int, tuple[int, ...]]"

# A program repeats the same collectives; an entry is about 250 bytes, so the bound is some 16 MB per shape.
_remember = lru_cache(maxsize=1 << 16)


def _turned(parent: int, children: list[int], size: int, root: int) -> Tree:
    """Shift a tree built for root 0 to `root`."""
    if parent >= 0:
        parent = (parent + root) % size
    return parent, tuple((child + root) % size for child in children)


@_remember
def binomial(rank: int, size: int, root: int) -> Tree:
    """Return the binomial tree in which the parent of v is v with its highest bit cleared.

    Height floor(log2 size). Open MPI's ``bmtree``. The nearest child comes first, which also has the largest subtree.
    """
    me = (rank - root) % size
    step = 1 << me.bit_length()
    parent = me - (step >> 1) if me else -1
    children = []
    while me + step < size:
        children.append(me + step)
        step <<= 1
    return _turned(parent, children, size, root)


@_remember
def in_order_binomial(rank: int, size: int, root: int) -> Tree:
    """Return the binomial tree in which the parent of v is v with its lowest bit cleared.

    Height floor(log2 size). Open MPI's ``in_order_bmtree``. The subtree of v is the run of ranks v, v+1, ..., so blocks
    remain contiguous and operands in order; the nearest child comes first, with the smallest subtree.
    """
    me = (rank - root) % size
    limit = me & -me if me else size
    parent = me & (me - 1) if me else -1
    children = []
    step = 1
    while step < limit and me + step < size:
        children.append(me + step)
        step <<= 1
    return _turned(parent, children, size, root)


@_remember
def binary(rank: int, size: int, root: int) -> Tree:
    """Return the binary tree by levels, odd ranks on the left and even ones on the right.

    Height floor(log2 size). Open MPI's ``build_tree`` with fan-out 2: 0 -> 1 2, 1 -> 3 5, 2 -> 4 6, 3 -> 7 11, ...
    """
    me = (rank - root) % size
    width = 1 << ((me + 1).bit_length() - 1)  # ranks on this level
    parent = -1
    if me:
        half = width >> 1
        parent = me - half if me - half < width - 1 else me - width
    children = [child for child in (me + width, me + 2 * width) if child < size]
    return _turned(parent, children, size, root)


@_remember
def knomial(rank: int, size: int, root: int, radix: int = 4) -> Tree:
    """Return the k-nomial tree: the parent of v has its lowest non-zero base-`radix` digit cleared.

    Open MPI's ``kmtree``; radix 4 is its default for broadcast. Height: the largest number of non-zero digits of any v
    < size. The farthest child comes first.
    """
    me = (rank - root) % size
    parent, step = -1, 1
    while step < size:
        below = me % (radix * step)
        if below:
            parent = me - below
            break
        step *= radix
    children = []
    while step > 1:
        step //= radix
        children += [me + digit * step for digit in range(1, radix) if me + digit * step < size]
    return _turned(parent, children, size, root)


@_remember
def chain(rank: int, size: int, root: int) -> Tree:
    """Return the chain root -> root+1 -> ... of height size-1. Open MPI's ``pipeline``, or ``chain`` with fan-out 1."""
    me = (rank - root) % size
    return _turned(me - 1, [me + 1] if me + 1 < size else [], size, root)


@_remember
def in_order_binary(rank: int, size: int) -> Tree:
    """Return the binary tree with root size-1 that keeps the ranks in order.

    Height floor(log2 size). Open MPI's ``in_order_bintree``. The nearest child comes first: the run of ranks just below
    the node, then the lowest run, so folding them in front of the node's own value one after the other preserves rank
    order.
    """
    low, top, parent = 0, size - 1, -1  # the subtree with root `top` is low..top
    while True:
        middle = low + (top - low + 1) // 2
        children = tuple(child for child, first in ((top - 1, middle), (middle - 1, low)) if child >= first)
        if rank == top:
            return parent, children
        parent = top
        low, top = (middle, top - 1) if rank >= middle else (low, middle - 1)


def senders_up(size: int) -> Iterator[tuple[int, int]]:
    """Yield the rounds of a reduction of objects: the distance to the receiver, and the sender.

    As in mpi4py all ranks take part in all rounds, even after they have sent.
    """
    for distance in doubled(size):
        for rank in range(distance, size):
            if rank & distance:
                yield distance, rank
