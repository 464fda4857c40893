"""Schedules of trees, built for all ranks at once.

Each of these has its twin in `mpi.collectives`; tests compare the two, message by message and byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi.collectives import allreduce, barrier, bcast, reduce, trees
from xsim_py.mpi.op import fold_rows

from .hashing import checks
from .schedule import Draft, Listed, Numbers

Shape: TypeAlias = "Callable[[int, int, int], trees.Tree]"

_UP: dict[Any, Shape] = {reduce.binary: trees.binary, reduce.binomial: trees.in_order_binomial}
DOWN: dict[Any, Shape] = {bcast.binary_tree: trees.binary, bcast.binomial: trees.binomial, bcast.knomial: trees.knomial}


def tree(algorithm: Callable[..., Any], size: int, size_bytes: int) -> Listed | None:
    """Return the schedule of an algorithm, or None if it is unknown.

    `size_bytes` is for a reduction.
    """
    if algorithm is barrier.tree:
        return _barrier(size)
    if getattr(algorithm, "func", None) is not allreduce.nonoverlapping:
        return None
    parts = algorithm.keywords  # type: ignore[attr-defined]
    up, down = _UP.get(parts["reduce"]), DOWN.get(parts["bcast"])
    return None if up is None or down is None else _up_and_down(up, down, size, size_bytes)


@lru_cache(maxsize=8)
def _barrier(size: int) -> Listed:
    shape = ArrayTree(trees.in_order_binomial, size)
    draft = Draft(size)
    _up(draft, shape, np.zeros(size, np.int64))
    send_down(draft, shape.reversed(), 0)
    return draft.listed(Folds(0, [], np.zeros(1, np.int64)))


@lru_cache(maxsize=8)
def _up_and_down(up: Shape, down: Shape, size: int, size_bytes: int) -> Listed:
    shape = ArrayTree(up, size)
    draft = Draft(size)
    _up(draft, shape, np.arange(size))
    send_down(draft, ArrayTree(down, size), 0)
    return draft.listed(_folded_up(shape, size_bytes))


def _bits(numbers: Numbers) -> Numbers:
    """Return the number of bits of each number: the exponent of a float, exactly up to 2**53."""
    found: Numbers = np.frexp(numbers.astype(float))[1].astype(np.int64)
    return found


def _of_binary(ranks: Numbers) -> tuple[Numbers, Numbers]:
    width = 1 << (_bits(ranks + 1) - 1)
    half = width >> 1
    return np.where(ranks - half < width - 1, ranks - half, ranks - width), ranks


def _of_binomial(ranks: Numbers) -> tuple[Numbers, Numbers]:
    return ranks - (1 << (_bits(ranks) - 1)), ranks


def _of_in_order_binomial(ranks: Numbers) -> tuple[Numbers, Numbers]:
    parents: Numbers = ranks & (ranks - 1)
    return parents, ranks


def _of_knomial(ranks: Numbers) -> tuple[Numbers, Numbers]:
    step = 1 << (_bits(ranks & -ranks) - 1 & -2)  # of the lowest non-zero digit
    return ranks - (ranks & 3 * step), -step


_PARENTS: dict[Any, Callable[[Numbers], tuple[Numbers, Numbers]]] = {
    trees.binary: _of_binary,
    trees.binomial: _of_binomial,
    trees.in_order_binomial: _of_in_order_binomial,
    trees.knomial: _of_knomial,
}
"""The parents of ranks other than 0, and sort keys of their children: `collectives.trees` for all ranks."""


class ArrayTree:
    """A tree over all ranks, as arrays, with root 0."""

    def __init__(self, shape: Shape, size: int) -> None:
        ranks = np.arange(1, size)
        parents, places = _PARENTS[shape](ranks)
        self.size = size
        self.parent = np.concatenate(([-1], parents))  # of each rank; -1 at the root
        self.widths = np.bincount(parents, minlength=size)  # the number of children of each rank
        self.children = ranks[np.lexsort((ranks, places, parents))]  # those of rank 0, of rank 1, and so on
        self.starts = np.cumsum(self.widths) - self.widths
        self.depth = np.zeros(size, np.int64)  # the distance of each rank to the root
        above = self.parent
        while (above >= 0).any():
            self.depth += above >= 0
            above = np.where(above >= 0, self.parent[above], -1)
        self.height = np.zeros(size, np.int64)  # the distance of each rank to the furthest rank below
        for depth in range(int(self.depth.max()), 0, -1):
            ranks = np.flatnonzero(self.depth == depth)
            np.maximum.at(self.height, self.parent[ranks], self.height[ranks] + 1)

    def below(self, ranks: Numbers) -> Numbers:
        """Return the children of some ranks, rank by rank."""
        widths = self.widths[ranks]
        turn = np.arange(widths.sum()) - np.repeat(np.cumsum(widths) - widths, widths)
        found: Numbers = self.children[np.repeat(self.starts[ranks], widths) + turn]
        return found

    def reversed(self) -> ArrayTree:
        """Return the tree with the children of each rank in the opposite order."""
        other = copy(self)
        turn = np.arange(len(self.children)) - np.repeat(self.starts, self.widths)
        other.children = self.children[np.repeat(self.starts + self.widths - 1, self.widths) - turn]
        return other


def _up(draft: Draft, tree: ArrayTree, payloads: Numbers) -> None:
    """Let each rank receive from its children, and then send to its parent."""
    sent = np.zeros(tree.size, np.int64)
    for height in range(int(tree.height.max()) + 1):
        ranks = np.flatnonzero(tree.height == height)
        if height:
            draft.receive(ranks, tree.widths[ranks], sent[tree.below(ranks)])
        ranks = ranks[tree.parent[ranks] >= 0]
        if len(ranks):
            sent[ranks] = draft.send(ranks, np.ones(len(ranks), np.int64), tree.parent[ranks], payloads[ranks])


def send_down(draft: Draft, tree: ArrayTree, payload: int) -> None:
    """Let each rank receive from its parent, and then send to its children."""
    coming = np.zeros(tree.size, np.int64)
    for depth in range(int(tree.depth.max()) + 1):
        ranks = np.flatnonzero(tree.depth == depth)
        if depth:
            draft.receive(ranks, np.ones(len(ranks), np.int64), coming[ranks])
        ranks = ranks[tree.widths[ranks] > 0]
        if len(ranks):
            children = tree.below(ranks)
            coming[children] = draft.send(ranks, tree.widths[ranks], children, np.full(len(children), payload))


class Folds:
    """The plan of a reduction of equally large items: the ranks' contributions, and folds of these.

    Each item has `size_bytes`. A step consists of mutually independent folds: the numbers of their two operands. Each
    fold has the next number. `sent` has the item of each payload; the first of them is the result of all ranks.
    """

    def __init__(self, size_bytes: int, steps: list[tuple[Numbers, Numbers]], sent: Numbers) -> None:
        self._steps = steps
        self._sent = sent
        self.lengths = np.full(len(sent), size_bytes)
        self.total_bytes = (2 * len(sent) - 1) * size_bytes

    def make(self, contributions: Sequence[bytes], fold: Any) -> NDArray[np.uint8]:
        """Return all items, one per row; `fold` is the reduction operation, if there is one."""
        contribution = np.frombuffer(b"".join(contributions), np.uint8)
        things = np.empty((2 * len(contributions) - 1, self.lengths[0]), np.uint8)
        known = len(contributions)
        things[:known] = contribution.reshape(known, -1)
        for left, right in self._steps:
            things[known : known + len(left)] = fold_rows(fold, things[left], things[right])
            known += len(left)
        return things

    def checks(self, things: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """Return the checksum of each payload."""
        return checks(things[self._sent])

    def results(self, things: NDArray[np.uint8]) -> list[Any]:
        """Return the result of each rank; None for a barrier."""
        return [self.payload(things, 0) if self._steps else None] * (len(things) // 2 + 1)

    def payload(self, things: NDArray[np.uint8], number: int) -> bytes:
        """Return the bytes of one payload."""
        data: bytes = things[self._sent[number]].tobytes()
        return data


def _folded_up(tree: ArrayTree, size_bytes: int) -> Folds:
    """Return the plan in which each rank folds its children's results after its own data, in order.

    Payload i is the result of rank i. All items have one size: the contributions are items 0 to size - 1, and the folds
    follow them.
    """
    size = tree.size
    thing = np.arange(size)  # the item of each rank: folds are numbered from `size`, in order of discovery
    depth = np.zeros(size, np.int64)
    found: list[tuple[Numbers, Numbers, Numbers]] = []
    count = 0
    for height in range(1, int(tree.height.max()) + 1):
        ranks = np.flatnonzero(tree.height == height)
        for turn in range(int(tree.widths[ranks].max())):
            ranks = ranks[tree.widths[ranks] > turn]
            children = tree.children[tree.starts[ranks] + turn]
            depth[ranks] = np.maximum(depth[ranks], depth[children]) + 1
            found.append((thing[ranks], thing[children], depth[ranks]))
            thing[ranks] = size + count + np.arange(len(ranks))
            count += len(ranks)
    left, right, depths = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(depths, kind="stable")
    final = np.concatenate((np.arange(size), size + np.argsort(order)))  # the numbers in order of depth
    left, right, depths = final[left[order]], final[right[order]], depths[order]
    steps = []
    for deep in range(1, int(depths[-1]) + 1):
        start, end = np.searchsorted(depths, [deep, deep + 1]).tolist()
        steps.append((left[start:end], right[start:end]))
    return Folds(size_bytes, steps, final[thing])
