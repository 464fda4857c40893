"""Schedules of trees, built for all ranks at once.

Each of these has its twin in `mpi.collectives`; tests compare the two, message by message and byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi.collectives import allreduce, barrier, bcast, reduce, trees
from xsim_py.mpi.op import ArrayFold, fold_rows

from .hashing import checks
from .schedule import Draft, Listed, Numbers, Plan, turns

Shape: TypeAlias = "Callable[[int], trees.TreeRounds]"

_UP: dict[Any, Shape] = {reduce.binary: trees.binary_rounds, reduce.binomial: trees.in_order_binomial_rounds}
DOWN: dict[Any, Shape] = {
    bcast.binary_tree: trees.binary_rounds,
    bcast.binomial: trees.binomial_rounds,
    bcast.knomial: trees.knomial_rounds,
}


def tree(algorithm: Callable[..., Any], size: int, size_bytes: int) -> Folds | None:
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
def _barrier(size: int) -> Folds:
    draft = Draft(size)
    _up(draft, array_tree(trees.in_order_binomial_rounds, size), np.zeros(size, np.int64))
    send_down(draft, array_tree(trees.in_order_binomial_rounds, size, -1), 0)
    return Folds(draft.plan(), 0, [], np.zeros(1, np.int64))


@lru_cache(maxsize=8)
def _up_and_down(up: Shape, down: Shape, size: int, size_bytes: int) -> Folds:
    draft = Draft(size)
    _up(draft, array_tree(up, size), np.arange(size))
    send_down(draft, array_tree(down, size), 0)
    return Folds(draft.plan(), size_bytes, *_folded_up(array_tree(up, size)))


class ArrayTree:
    """A tree over all ranks, as arrays, with root 0.

    `step` is -1 for the children of each rank in the opposite order.
    """

    def __init__(self, shape: Shape, size: int, step: int = 1) -> None:
        self.size = size
        self.parent = np.full(size, -1)  # of each rank; -1 at the root
        self.children = np.empty(size - 1, np.int64)  # those of rank 0, of rank 1, and so on
        self.widths = np.zeros(size, np.int64)  # the number of children of each rank
        self.depth = np.zeros(size, np.int64)  # the distance of each rank to the root
        self.height = np.zeros(size, np.int64)  # the distance of each rank to the furthest rank below
        ranks = np.arange(size)
        rounds, order = shape(size)
        ends = [_ends(*each) for each in rounds]  # views of the parents and the children of each round
        for above, below in ends:
            self.parent[below] = ranks[above]
            self.widths[above] += 1
            self.height[above] = np.maximum(self.height[above], self.height[below] + 1)
        for above, below in reversed(ends):
            self.depth[below] = self.depth[above] + 1
        self.starts = np.cumsum(self.widths) - self.widths
        place = self.starts.copy()
        for above, below in ends[:: order * step]:
            self.children[place[above]] = ranks[below]
            place[above] += 1

    def below(self, ranks: Numbers) -> Numbers:
        """Return the children of some ranks, rank by rank."""
        widths = self.widths[ranks]
        found: Numbers = self.children[np.repeat(self.starts[ranks], widths) + turns(widths)]
        return found


def _ends(parents: range, distance: int) -> tuple[slice, slice]:
    """Return the places of the parents and of the children of a round."""
    start, stop, step = parents.start, parents.stop, parents.step
    return slice(start, stop, step), slice(start + distance, stop + distance, step)


array_tree = lru_cache(maxsize=2)(ArrayTree)


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


class Folds(Listed[NDArray[np.uint8]]):
    """A reduction of equally large items: the ranks' contributions, and folds of these.

    Each item has `size_bytes`. A step consists of mutually independent folds: the numbers of their two operands. Each
    fold has the next number. `sent` has the item of each payload; the first of them is the result of all ranks.
    """

    def __init__(self, plan: Plan, size_bytes: int, steps: list[tuple[Numbers, Numbers]], sent: Numbers) -> None:
        super().__init__(plan, np.full(len(sent), size_bytes))
        self._size_bytes = size_bytes
        self._steps = steps
        self._sent = sent
        self.total_bytes = (2 * len(sent) - 1) * size_bytes

    def memory(self, contributions: Sequence[bytes], fold: object) -> NDArray[np.uint8]:
        """Return all items, one per row."""
        contribution = np.frombuffer(b"".join(contributions), np.uint8)
        things = np.empty((2 * self.size - 1, self._size_bytes), np.uint8)
        known = self.size
        things[:known] = contribution.reshape(known, -1)
        for left, right in self._steps:
            assert isinstance(fold, ArrayFold)
            things[known : known + len(left)] = fold_rows(fold, things[left], things[right])
            known += len(left)
        return things

    def checks(self, things: NDArray[np.uint8], turn: int) -> NDArray[np.uint32]:
        """Return the checksum of each message."""
        found: NDArray[np.uint32] = checks(things[self._sent])[self._payloads]
        return found

    def results(self, things: NDArray[np.uint8]) -> list[Any]:
        """Return the result of each rank; None for a barrier."""
        return [self.numbered(things, 0) if self._steps else None] * self.size

    def numbered(self, things: NDArray[np.uint8], number: int) -> bytes:
        """Return a payload."""
        data: bytes = things[self._sent[number]].tobytes()
        return data


def _folded_up(tree: ArrayTree) -> tuple[list[tuple[Numbers, Numbers]], Numbers]:
    """Return the steps in which each rank folds its children's results after its own data, in order.

    Also return the item that is the result of each rank. The contributions are items 0 to size - 1.
    """
    item, turn = np.arange(tree.size), np.zeros(tree.size, np.int64)
    steps: list[tuple[Numbers, Numbers]] = []
    count = tree.size
    while turn[0] < tree.widths[0]:
        ranks = np.flatnonzero(turn < tree.widths)
        children = tree.children[tree.starts[ranks] + turn[ranks]]
        ready = turn[children] == tree.widths[children]
        ranks, children = ranks[ready], children[ready]
        steps.append((item[ranks], item[children]))
        item[ranks] = np.arange(count, count + len(ranks))
        turn[ranks] += 1
        count += len(ranks)
    return steps, item
