"""The shapes of fat trees and cascades, from the keys of a description."""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xsim_py.config.topologies import TopologySpec

Shape = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Children, parents, and cables between each such pair, level by level from below."""

_LONGEST: Final = 200
_MOST: Final = 2**24

FORMS: Final = (("shape",), ("children", "parents"), ("arity", "levels"), ("radix", "levels"), ("nodes_per_leaf",))
"""The groups of keys that define a tree, of which one is used."""


def parse_shape(text: str) -> Shape:
    """Return the tree of a text ``3; 4,4,4; 1,4,4; 1,1,1``, whose last list may be omitted.

    Raise ValueError if the text is invalid, with the reason.
    """
    lists = [re.fullmatch(r"\s*\d{1,9}\s*(?:,\s*\d{1,9}\s*)*", part) for part in text.split(";")]
    if len(lists) not in (3, 4) or not all(lists):
        raise ValueError(
            f"expected levels; children; parents; cables, got {text!r}; write e.g. '3; 4,4,4; 1,4,4; 1,1,1'"
        )
    numbers = [tuple(map(int, found[0].split(","))) for found in lists if found]
    (levels, *more), children, parents = numbers[:3]
    parallel = numbers[3] if len(numbers) == 4 else (1,) * len(children)
    if more or not len(children) == len(parents) == len(parallel) == levels:
        raise ValueError(f"expected {levels} numbers per list, one per level, in {text!r}")
    if not all((*children, *parents, *parallel)):
        raise ValueError(f"0 is out of range in {text!r}: each number is at least 1")
    return children, parents, parallel


def parse_cascade(text: str) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], int]:
    """Return groups, chassis and blades, each with the width of links, and the nodes per blade.

    The text is that of SimGrid's dragonfly, ``groups,blue;chassis,black;blades,green;nodes``. Raise ValueError with the
    reason if it is invalid, or there are fewer blades than groups.
    """
    found = re.fullmatch(r"\s*(\d+)\s*,\s*(\d+)\s*;\s*(\d+)\s*,\s*(\d+)\s*;\s*(\d+)\s*,\s*(\d+)\s*;\s*(\d+)\s*", text)
    numbers = [int(part) for part in found.groups()] if found and len(text) < _LONGEST else []
    if not numbers or 0 in numbers:
        raise ValueError(
            f"expected groups,links; chassis,links; blades,links; nodes, got {text!r}; write e.g. '4,1;2,1;4,1;2'"
        )
    groups, blue, chassis, black, blades, green, hosts = numbers
    if groups > blades:
        raise ValueError(
            f"{text!r}: {groups} groups are out of range: blade j links to group j, so {blades} blades allow at most"
            f" {blades}"
        )
    if groups * chassis * blades * hosts > _MOST:
        raise ValueError(f"{text!r} is out of range (at most {_MOST:,} nodes)")
    return (groups, blue), (chassis, black), (blades, green), hosts


def tree_shape(topology: TopologySpec, nodes: int) -> Shape:
    """Return the tree that a validated description defines.

    If its size is open, it has room for `nodes`.
    """
    if topology.shape is not None:
        return parse_shape(topology.shape)
    if topology.children is not None and topology.parents is not None:
        return topology.children, topology.parents, topology.parallel or (1,) * len(topology.children)
    if topology.arity is not None:
        arity = topology.arity
        levels = topology.levels or next(n for n in itertools.count(1) if arity**n >= nodes)
        return _tapered((arity,) * levels, (1,) + (arity,) * (levels - 1), topology)
    if topology.radix is not None:
        half = topology.radix // 2
        levels = topology.levels or next(n for n in itertools.count(2) if 2 * half**n >= nodes)
        return _tapered((half,) * (levels - 1) + (2 * half,), (1,) + (half,) * (levels - 1), topology)
    below = topology.nodes_per_leaf
    assert below is not None  # validation of the description ensures this
    leaves = topology.leaves or -(-nodes // below)
    if topology.spines is not None:
        return (below, leaves), (1, topology.spines), (1, 1)
    return _tapered((below, leaves), (1, below), topology)


def _tapered(children: Sequence[int], parents: Sequence[int], topology: TopologySpec) -> Shape:
    """Return a tree whose top level has `taper` times fewer switches."""
    taper = topology.taper or 1
    top = max(1, math.ceil(parents[-1] / taper)) if len(parents) > 1 else parents[-1]
    return tuple(children), (*parents[:-1], top), (1,) * len(children)
