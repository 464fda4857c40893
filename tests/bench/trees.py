"""The cost of the arrays of a tree: ``python -m tests.bench.trees``, in ``make bench``.

The trees are those of vectorised collectives. First the parent and the children of each rank are compared with those
that single ranks find. Then the CPU time for all ranks at once is judged by its ratio to the time of single ranks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import chain
from typing import Any

from xsim_py.mpi.batched.trees import ArrayTree
from xsim_py.mpi.collectives import trees

RANKS = 1 << 18
TURNS = 5
AT_MOST = 0.15
SHAPES = ("binomial", "in_order_binomial", "binary", "knomial")


def compare(name: str) -> bool:
    """Print the costs of one tree; return whether they and the tree are as they must be."""
    rounds, single = getattr(trees, f"{name}_rounds"), getattr(trees, name).__wrapped__
    all_s = one_s = float("inf")
    for _ in range(TURNS):
        taken_s, tree = timed(lambda: ArrayTree(rounds, RANKS))
        all_s = min(all_s, taken_s)
        taken_s, seen = timed(lambda: [single(rank, RANKS, 0) for rank in range(RANKS)])
        one_s = min(one_s, taken_s)
        parents, children = zip(*seen, strict=True)
        if (tree.parent.tolist(), tree.children.tolist()) != ([*parents], [*chain(*children)]):
            print(f"trees: {name}: single ranks have other parents or children", file=sys.stderr)
            return False
    ratio = all_s / one_s
    print(f"trees: {name}: {all_s / RANKS * 1e9:.0f} ns per rank, {ratio:.3f} times that of single ranks", flush=True)
    return ratio <= AT_MOST


def timed(make: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU time of a call in seconds, and its result."""
    began_s = time.process_time()
    made = make()
    return time.process_time() - began_s, made


def main() -> int:
    """Compare all trees; the exit status is 1 if one of them costs too much or is wrong."""
    return sum(map(compare, SHAPES)) < len(SHAPES)


if __name__ == "__main__":
    sys.exit(main())
