"""Trees of the survivors, after Hursey and Graham, with three repair schemes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from xsim_py.mpi.ftco.trees import tree

from .engine import Process, ReceiveCommand, SendCommand, StepEngine, WorkCommand

_KEY: Final = "tree_of_the_living"


@dataclass(frozen=True)
class RepairedTree:
    """A tree of the survivors, by node; the root has no parent.

    Children are in the order of sends. `above` and `below` are the numbers of old nodes that a node visits to find its
    parent, and its children; 0 without rerouting.
    """

    parent: dict[int, int]
    children: dict[int, list[int]]
    above: dict[int, int]
    below: dict[int, int]


def repair_tree(name: str, engine: StepEngine) -> RepairedTree:
    """Repair the tree.

    ``rebalancing`` builds a tree of the survivors. Otherwise the children of a failed node become those of the nearest
    survivor above it; those of a failed root, of the lowest survivor. ``lookup_avoiding`` has stored them. Under
    ``rerouting`` a node finds them in each operation, in one step per visited node.
    """
    configuration = engine.configuration
    survivors = [node for node in range(engine.size) if engine.plan.dead_step[node] > 0]
    if name == "rebalancing":
        radix = min(configuration.k, max(2, len(survivors)))
        shape = tree(len(survivors), configuration.tree, radix=radix, roots="single")
        parent = {survivors[index]: survivors[shape.parent(index)] for index in range(1, len(survivors))}
        return _with_children(parent, survivors, {}, {})
    shape = tree(engine.size, configuration.tree, radix=configuration.k, roots="single")
    alive, root = set(survivors), survivors[0]
    parent, above = {}, {}
    below = dict.fromkeys(survivors, 0)
    for node in range(engine.size):
        visited, upper = 1, shape.parent(node)
        while upper >= 0 and upper not in alive:
            visited, upper = visited + 1, shape.parent(upper)
        if node != root:
            owner = upper if upper >= 0 else root
            below[owner] += 1
            if node in alive:
                parent[node], above[node] = owner, visited
    without = name == "lookup_avoiding"
    return _with_children(parent, survivors, {} if without else above, {} if without else below)


def _with_children(
    parent: dict[int, int], survivors: list[int], above: dict[int, int], below: dict[int, int]
) -> RepairedTree:
    children: dict[int, list[int]] = {node: [] for node in survivors}
    for node, upper in parent.items():
        children[upper].append(node)
    return RepairedTree(parent, children, above, below)


def survivor_tree(name: str, me: int, engine: StepEngine) -> Process:
    """Run one node of a tree Reduce, Bcast, or Reduce followed by Bcast."""
    if _KEY not in engine.shared:
        engine.shared[_KEY] = repair_tree(name, engine)
    repaired: RepairedTree = engine.shared[_KEY]
    operation, have = engine.configuration.operation, 1 << me
    parent, children = repaired.parent.get(me), repaired.children.get(me, [])
    above, below = repaired.above.get(me, 0), repaired.below.get(me, 0)
    if operation != "bcast":
        if below:
            yield WorkCommand(below)
        for _ in children:
            value = (yield ReceiveCommand()).payload
            assert have & value == 0, "a contribution would count twice"
            have |= value
        if parent is not None:
            if above:
                yield WorkCommand(above)
            yield SendCommand(parent, have)
    if operation != "reduce":
        if parent is not None:
            if above:
                yield WorkCommand(above)
            have = (yield ReceiveCommand()).payload
        if children and below:
            yield WorkCommand(below)
        for child in children:
            yield SendCommand(child, have)
    engine.finish(me, have)
