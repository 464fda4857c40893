"""Trees of the survivors, after Hursey and Graham, with three repair schemes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from xsim_py.mpi.ftco.trees import tree

from .engine import Process, SendWish, StepEngine, TakeWish, WorkWish

_KEY: Final = "tree_of_the_living"


@dataclass(frozen=True)
class MendedTree:
    """A tree of the survivors.

    Attributes
    ----------
    parent : dict of int to int
        By node; the root has none.
    children : dict of int to list of int
        By node, in the order of sends.
    above, below : dict of int to int
        Number of old nodes that a node visits to find its parent, and its children; 0 without rerouting.
    """

    parent: dict[int, int]
    children: dict[int, list[int]]
    above: dict[int, int]
    below: dict[int, int]


def mend(name: str, engine: StepEngine) -> MendedTree:
    """Repair the tree.

    ``rebalancing`` builds a tree of the survivors. Otherwise the children of a failed node become those of the nearest
    survivor above it; those of a failed root, of the lowest survivor. ``lookup_avoiding`` has stored them. Under
    ``rerouting`` a node finds them in each operation, in one step per visited node.
    """
    made = engine.configuration
    living = [node for node in range(engine.size) if engine.plan.dead_step[node] > 0]
    if name == "rebalancing":
        radix = min(made.k, max(2, len(living)))
        shape = tree(len(living), made.tree, radix=radix, roots="single")
        parent = {living[place]: living[shape.parent(place)] for place in range(1, len(living))}
        return _with_children(parent, living, {}, {})
    shape = tree(engine.size, made.tree, radix=made.k, roots="single")
    alive, root = set(living), living[0]
    parent, above = {}, {}
    below = dict.fromkeys(living, 0)
    for node in range(engine.size):
        looked, upper = 1, shape.parent(node)
        while upper >= 0 and upper not in alive:
            looked, upper = looked + 1, shape.parent(upper)
        if node != root:
            owner = upper if upper >= 0 else root
            below[owner] += 1
            if node in alive:
                parent[node], above[node] = owner, looked
    without = name == "lookup_avoiding"
    return _with_children(parent, living, {} if without else above, {} if without else below)


def _with_children(
    parent: dict[int, int], living: list[int], above: dict[int, int], below: dict[int, int]
) -> MendedTree:
    children: dict[int, list[int]] = {node: [] for node in living}
    for node, upper in parent.items():
        children[upper].append(node)
    return MendedTree(parent, children, above, below)


def tree_of_the_living(name: str, me: int, engine: StepEngine) -> Process:
    """Run one node of a tree Reduce, Bcast, or Reduce followed by Bcast."""
    if _KEY not in engine.shared:
        engine.shared[_KEY] = mend(name, engine)
    mended: MendedTree = engine.shared[_KEY]
    operation, have = engine.configuration.operation, 1 << me
    parent, children = mended.parent.get(me), mended.children.get(me, [])
    above, below = mended.above.get(me, 0), mended.below.get(me, 0)
    if operation != "bcast":
        if below:
            yield WorkWish(below)
        for _ in children:
            value = (yield TakeWish()).payload
            assert have & value == 0, "a contribution would count twice"
            have |= value
        if parent is not None:
            if above:
                yield WorkWish(above)
            yield SendWish(parent, have)
    if operation != "reduce":
        if parent is not None:
            if above:
                yield WorkWish(above)
            have = (yield TakeWish()).payload
        if children and below:
            yield WorkWish(below)
        for child in children:
            yield SendWish(child, have)
    engine.finish(me, have)
