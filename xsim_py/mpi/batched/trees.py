"""The most frequent algorithms as arrays from the start: what `record` and `compiled` find out, in a tenth of the time.

Every one of these has its twin in `mpi.collectives`; tests compare the two, message by message and byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi.collectives import allreduce, barrier, bcast, reduce, trees
from xsim_py.mpi.collectives.channel import floor_power

from .content import Combine, Join, Recipe
from .timing import Step, Timetable

__all__ = ["DOWN", "Draft", "Plan", "Tree", "built", "hand_down"]

Numbers = NDArray[np.int64]
Plan = tuple[Timetable, Recipe, Numbers]
"""A timetable, how to make the bytes, and the payload of each message by its number in the recipe."""

_UP = {reduce.binary: trees.binary, reduce.binomial: trees.in_order_binomial}
DOWN = {bcast.binary_tree: trees.binary, bcast.binomial: trees.binomial, bcast.knomial: trees.knomial}


@lru_cache(maxsize=8)
def built(algorithm: Callable[..., Any], size: int, key: Any) -> Plan | None:
    """The plan of an algorithm, where it is one of those that are known here."""
    if algorithm is barrier.tree:
        tree = Tree(trees.in_order_binomial, size)
        draft = Draft(size)
        _up(draft, tree, np.zeros(size, np.int64))
        hand_down(draft, tree.reversed(), 0)
        return draft.plan(_empty(size))
    if algorithm is allreduce.recursive_doubling:
        return _doubling(size, key)
    parts = getattr(algorithm, "keywords", {})
    if getattr(algorithm, "func", None) is allreduce.nonoverlapping:
        up, down = _UP.get(parts["reduce"]), DOWN.get(parts["bcast"])
        if up is not None and down is not None:
            tree = Tree(up, size)
            draft = Draft(size)
            _up(draft, tree, np.arange(size))
            hand_down(draft, Tree(down, size), 0)
            return draft.plan(_folded_up(tree, key))
    return None


class Draft:
    """A timetable in the making."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.steps: list[Step] = []
        self._source: list[Numbers] = []
        self._dest: list[Numbers] = []
        self._payload: list[Numbers] = []
        self._order: list[Numbers] = []
        self._count = 0
        self._sent = np.zeros(size, np.int64)

    def send(self, ranks: Numbers, widths: Numbers, dests: Numbers, payloads: Numbers) -> Numbers:
        """Let ranks send so many messages each; the numbers of the messages."""
        numbers = np.arange(self._count, self._count + len(dests))
        self._count += len(dests)
        step = Step(True, ranks, widths, numbers)
        self.steps.append(step)
        self._source.append(np.repeat(ranks, widths))
        self._dest.append(dests)
        self._payload.append(payloads)
        self._order.append(self._sent[self._source[-1]] + step.turn + 1)
        self._sent[ranks] += widths
        return numbers

    def receive(self, ranks: Numbers, widths: Numbers, messages: Numbers) -> None:
        """Let ranks wait for so many messages each."""
        self.steps.append(Step(False, ranks, widths, messages))

    def plan(self, recipe: Any) -> Plan:
        """All of it."""
        source, dest, payloads, order = map(np.concatenate, (self._source, self._dest, self._payload, self._order))
        sizes = recipe.lengths[payloads]
        return Timetable(self.size, source, dest, sizes, self.steps, order), recipe, payloads


def _bits(numbers: Numbers) -> Numbers:
    """How many bits each number has: the exponent of a float, exactly up to 2**53."""
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
    step = 1 << (_bits(ranks & -ranks) - 1 & -2)  # of the lowest digit that is not 0
    return ranks - (ranks & 3 * step), -step


_PARENTS: dict[Any, Callable[[Numbers], tuple[Numbers, Numbers]]] = {
    trees.binary: _of_binary,
    trees.binomial: _of_binomial,
    trees.in_order_binomial: _of_in_order_binomial,
    trees.knomial: _of_knomial,
}
"""The parents of ranks other than 0, and in which order the children of one come: `collectives.trees` for all ranks."""


class Tree:
    """The shape of a tree for all ranks, with root 0.

    Attributes
    ----------
    parent, widths : (ranks,) array
        The parent of each rank, -1 at the root, and how many children it has.
    children : array
        Those of rank 0, of rank 1, and so on.
    depth, height : (ranks,) array
        How far the root is, and the furthest rank below.
    """

    def __init__(self, shape: Callable[[int, int, int], trees.Tree], size: int) -> None:
        ranks = np.arange(1, size)
        parents, places = _PARENTS[shape](ranks)
        self.size = size
        self.parent = np.concatenate(([-1], parents))
        self.widths = np.bincount(parents, minlength=size)
        self.children = ranks[np.lexsort((ranks, places, parents))]
        self.starts = np.cumsum(self.widths) - self.widths
        self.depth = np.zeros(size, np.int64)
        above = self.parent
        while (above >= 0).any():
            self.depth += above >= 0
            above = np.where(above >= 0, self.parent[above], -1)
        self.height = np.zeros(size, np.int64)
        for depth in range(int(self.depth.max()), 0, -1):
            ranks = np.flatnonzero(self.depth == depth)
            np.maximum.at(self.height, self.parent[ranks], self.height[ranks] + 1)

    def below(self, ranks: Numbers) -> Numbers:
        """The children of some ranks, of one after the other."""
        widths = self.widths[ranks]
        turn = np.arange(widths.sum()) - np.repeat(np.cumsum(widths) - widths, widths)
        found: Numbers = self.children[np.repeat(self.starts[ranks], widths) + turn]
        return found

    def reversed(self) -> Tree:
        """With the children of each rank in the opposite order."""
        tree: Tree = object.__new__(Tree)
        vars(tree).update(vars(self))
        turn = np.arange(len(self.children)) - np.repeat(self.starts, self.widths)
        tree.children = self.children[np.repeat(self.starts + self.widths - 1, self.widths) - turn]
        return tree


def _up(draft: Draft, tree: Tree, payloads: Numbers) -> None:
    """Everybody hears from its children, and then tells its parent."""
    sent = np.zeros(tree.size, np.int64)
    for height in range(int(tree.height.max()) + 1):
        ranks = np.flatnonzero(tree.height == height)
        if height:
            draft.receive(ranks, tree.widths[ranks], sent[tree.below(ranks)])
        ranks = ranks[tree.parent[ranks] >= 0]
        if len(ranks):
            sent[ranks] = draft.send(ranks, np.ones(len(ranks), np.int64), tree.parent[ranks], payloads[ranks])


def hand_down(draft: Draft, tree: Tree, payload: int) -> None:
    """Everybody hears from its parent, and then tells its children."""
    coming = np.zeros(tree.size, np.int64)
    for depth in range(int(tree.depth.max()) + 1):
        ranks = np.flatnonzero(tree.depth == depth)
        if depth:
            draft.receive(ranks, np.ones(len(ranks), np.int64), coming[ranks])
        ranks = ranks[tree.widths[ranks] > 0]
        if len(ranks):
            children = tree.below(ranks)
            coming[children] = draft.send(ranks, tree.widths[ranks], children, np.full(len(children), payload))


def _empty(size: int) -> Recipe:
    """Of messages without content."""
    return Recipe(0, [], np.zeros(1, np.int64), np.zeros(1, np.int64), [None] * size)


def _folded_up(tree: Tree, size_bytes: int) -> Recipe:
    """Everybody folds its children's results after its own data, one after the other; payload i is what rank i has.

    All things are of one size: the contributions are the things 0 to size - 1, and the folds come after them.
    """
    size = tree.size
    thing = np.arange(size)  # what each rank has: the number of a fold counts from `size`, as they are found here
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
    steps: list[Join | Combine] = []
    for deep in range(1, int(depths[-1]) + 1):
        start, end = np.searchsorted(depths, [deep, deep + 1]).tolist()
        lefts, rights = left[start:end] * size_bytes, right[start:end] * size_bytes
        steps.append(Combine(lefts, rights, size_bytes, (size + start) * size_bytes))
    places = final[thing] * size_bytes
    result = (int(places[0]), size_bytes)
    return Recipe((2 * size - 1) * size_bytes, steps, places, np.full(size, size_bytes), [result] * size)


def _doubling(size: int, size_bytes: int) -> Plan:
    """Recursive doubling on any number of ranks: the first even ones hand their data to their neighbours.

    The contributions are the things 0 to size - 1. After them come what those neighbours fold, and then what groups of
    2, 4 ... of the ranks that are left fold, who have the same things in each round.
    """
    power = floor_power(size)
    extra = size - power
    draft = Draft(size)
    one = np.ones(max(extra, power), np.int64)
    even = 2 * np.arange(extra)
    virtual = np.arange(power)
    real = np.where(virtual < extra, 2 * virtual + 1, virtual + extra)
    thing = np.where(virtual < extra, size + virtual, virtual + extra)  # of each group of 1
    count = size
    steps: list[Join | Combine] = []

    def folds(left: Numbers, right: Numbers) -> Numbers:
        nonlocal count
        steps.append(Combine(left * size_bytes, right * size_bytes, size_bytes, count * size_bytes))
        count += len(left)
        return np.arange(count - len(left), count)

    if extra:
        draft.receive(even + 1, one[:extra], draft.send(even, one[:extra], even + 1, even))
        folds(even, even + 1)
    for turn in range(power.bit_length() - 1):
        peers = virtual ^ (1 << turn)
        sent = draft.send(real, one[:power], real[peers], thing[virtual >> turn])
        draft.receive(real, one[:power], sent[peers])
        thing = folds(thing[::2], thing[1::2])
    if extra:
        draft.receive(even, one[:extra], draft.send(even + 1, one[:extra], even, np.repeat(thing, extra)))
    places = np.arange(count) * size_bytes
    result = (int(places[thing[0]]), size_bytes)
    return draft.plan(Recipe(count * size_bytes, steps, places, np.full(count, size_bytes), [result] * size))
