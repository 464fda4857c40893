"""The trees along which rooted collectives send data.

The shape of a tree is observable: when a rank fails, exactly the ranks below it (broadcast) or above it (reduction) see
an error. So the shapes are those of Open MPI (``ompi/mca/coll/base/coll_base_topo.c``), child order included.

A function ``*_rounds`` describes a tree with root 0. `batched.trees` makes arrays of it. The function without this
ending returns ``(parent, children)`` of one rank, with parent -1 at the root, in the tree shifted to `root`. The
in-order binary tree, whose root is always the last rank, is not shifted. On a latency-only network a tree of height h
takes h latencies, because sending to many children takes a parent no time there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from xsim_py.mpi.collectives.rounds import doubled

Tree: TypeAlias = "tuple[int, tuple[int, ...]]"

# A program repeats the same collectives; an entry is about 250 bytes, so the bound is some 16 MB per shape.
_remember = lru_cache(maxsize=1 << 16)
_remember_rounds = lru_cache(maxsize=64)


class TreeRounds(NamedTuple):
    """A tree with root 0."""

    rounds: tuple[tuple[range, int], ...]
    """From the leaves to the root: ranks with a child in the round, and its distance; a child is a higher rank."""
    step: int
    """1 if each rank has its children in the order of the rounds, -1 if in the opposite order."""


def _seen_from(rank: int, size: int, root: int, tree: TreeRounds) -> Tree:
    """Return the parent and children of one rank."""
    me = (rank - root) % size
    parent, children = -1, []
    for parents, distance in tree.rounds:
        if me in parents:
            children.append((rank + distance) % size)
        elif me - distance in parents:
            parent = (rank - distance) % size
            break
    return parent, tuple(children[:: tree.step])


@_remember_rounds
def binomial_rounds(size: int) -> TreeRounds:
    """Describe the binomial tree in which the parent of v is v with its highest bit cleared.

    Height floor(log2 size). Open MPI's ``bmtree``. The nearest child comes first, which also has the largest subtree.
    """
    return TreeRounds(tuple((range(min(step, size - step)), step) for step in reversed(doubled(size))), -1)


@_remember_rounds
def in_order_binomial_rounds(size: int) -> TreeRounds:
    """Describe the binomial tree in which the parent of v is v with its lowest bit cleared.

    Height floor(log2 size). Open MPI's ``in_order_bmtree``. The subtree of v is the run of ranks v, v+1, ..., so blocks
    remain contiguous and operands in order; the nearest child comes first, with the smallest subtree.
    """
    return TreeRounds(tuple((range(0, size - step, 2 * step), step) for step in doubled(size)), 1)


@_remember_rounds
def binary_rounds(size: int) -> TreeRounds:
    """Describe the binary tree by levels, odd ranks on the left and even ones on the right.

    Height floor(log2 size). Open MPI's ``build_tree`` with fan-out 2: 0 -> 1 2, 1 -> 3 5, 2 -> 4 6, 3 -> 7 11, ...
    """
    rounds = [
        (range(width - 1, min(2 * width - 1, size - distance)), distance)
        for width in reversed(doubled(size))  # the number of ranks on a level
        for distance in (2 * width, width)
        if width + distance <= size
    ]
    return TreeRounds(tuple(rounds), -1)


@_remember_rounds
def knomial_rounds(size: int) -> TreeRounds:
    """Describe the 4-nomial tree: the parent of v has its lowest non-zero base-4 digit cleared.

    Open MPI's ``kmtree`` with its default radix for broadcast. Height: the largest number of non-zero digits of any v
    < size. The farthest child comes first.
    """
    rounds = [
        (range(0, size - digit * step, 4 * step), digit * step)
        for step in doubled(size)[::2]
        for digit in (3, 2, 1)
        if digit * step < size
    ]
    return TreeRounds(tuple(rounds), -1)


@_remember
def binomial(rank: int, size: int, root: int) -> Tree:
    """Return the parent and children of a rank; see `binomial_rounds`."""
    return _seen_from(rank, size, root, binomial_rounds(size))


@_remember
def in_order_binomial(rank: int, size: int, root: int) -> Tree:
    """Return the parent and children of a rank; see `in_order_binomial_rounds`."""
    return _seen_from(rank, size, root, in_order_binomial_rounds(size))


@_remember
def binary(rank: int, size: int, root: int) -> Tree:
    """Return the parent and children of a rank; see `binary_rounds`."""
    return _seen_from(rank, size, root, binary_rounds(size))


@_remember
def knomial(rank: int, size: int, root: int) -> Tree:
    """Return the parent and children of a rank; see `knomial_rounds`."""
    return _seen_from(rank, size, root, knomial_rounds(size))


@_remember
def chain(rank: int, size: int, root: int) -> Tree:
    """Return the chain root -> root+1 -> ... of height size-1. Open MPI's ``pipeline``, or ``chain`` with fan-out 1."""
    before, after = (rank - 1) % size, (rank + 1) % size
    return (-1 if rank == root else before), (() if after == root else (after,))


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
