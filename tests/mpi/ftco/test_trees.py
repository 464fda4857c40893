"""The trees of FTCO: shapes, time limits, and fault-free latencies as in figure 7."""

from __future__ import annotations

import functools
from itertools import product

import pytest

from tests.campaign import CAMPAIGN
from xsim_py.mpi.ftco.trees import Timing, Tree, best_radix, fault_free_latency, tree

EACH_SIZE = pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 30, 64, 100])


def shapes(size: int) -> list[tuple[int, str, int, str]]:
    """All trees of a size: kind, radix, and one root or several."""
    return [
        (size, kind, radix, roots)
        for kind, radix, roots in product(("knomial", "kary"), (2, 3, 5), ("single", "multi"))
        if roots == "single" or radix <= size
    ]


def children_by_hand(size: int, kind: str, radix: int, roots: str) -> list[list[int]]:
    """Round robin, one node at a time."""
    made = radix if roots == "multi" else 1
    children: list[list[int]] = [[] for _ in range(size)]
    parents = range(made)
    while made < size:
        before = made
        for parent in [parent for _ in range(radix - (kind == "knomial")) for parent in parents]:
            if made < size:
                children[parent].append(made)
                made += 1
        parents = range(made) if kind == "knomial" else range(before, made)
    return children


@EACH_SIZE
def test_children_are_made_in_turn(size: int) -> None:
    for shape in shapes(size):
        check_children(*shape)


def check_children(size: int, kind: str, radix: int, roots: str) -> None:
    made = tree(size, kind, radix=radix, roots=roots)
    children = children_by_hand(size, kind, radix, roots)
    assert [made.children(node) for node in range(size)] == children
    for node in range(size):
        for child in children[node]:
            assert made.parent(child) == node
            assert made.fathers(child) == (node,)
            assert made.root_of(child) == made.root_of(node)
        above = []
        top = node
        while (top := made.parent(top)) >= 0:
            above.append(top)
        assert [made.is_below(node, other) for other in range(size)] == [other in above for other in range(size)]
    assert [node for node in range(size) if made.parent(node) < 0] == list(range(made.root_count))


def test_other_roots_begin_with_the_next() -> None:
    assert tree(20, radix=5, roots="multi").fathers(2) == (3, 4, 0, 1)
    assert tree(20, radix=5).fathers(0) == ()


@EACH_SIZE
def test_peers_and_expected_times_follow_their_definitions(size: int) -> None:
    for shape in shapes(size):
        check_times(*shape)


def check_times(size: int, kind: str, radix: int, roots: str) -> None:
    made = Tree(size, kind, radix=radix, roots=roots)
    timing = Timing(made, latency=10, overhead=2)

    def down(node: int, distance: int) -> int:
        return 1 if distance == 0 else sum(down(child, distance - 1) for child in made.children(node))

    def up(node: int, distance: int) -> int:
        fathers = made.fathers(node)
        if distance == 1:
            return len(fathers)
        if len(fathers) > 1:
            return int(node != 0)
        return up(fathers[0], distance - 1) if fathers else 0

    def sub(node: int) -> int:
        children = made.children(node)
        return max(map(sub, children)) + 12 + 2 * len(children) if children else 0

    @functools.cache
    def full(node: int) -> int:
        parent = made.parent(node)
        if parent >= 0:
            return full(parent) + 14 + 2 * made.children(parent).index(node)
        exchange = 12 + 2 * (made.root_count - 1) if made.root_count > 1 else 0
        return max(map(sub, range(made.root_count))) + exchange

    for node in range(size):
        assert timing.eta_sub(node) == sub(node)
        assert timing.eta_full(node) == full(node)
        interval = 4 * made.degree(node)
        for distance in (1, 2, 3, 6):
            peers = down(node, distance) + up(node, distance)
            assert made.peers(node, distance) == peers
            waiting = 0
            while peers and waiting < peers * 2**distance:
                waiting += interval
            assert timing.timeout(node, distance) == (waiting * 2 + 20 if peers else 0)


def test_time_limit_of_a_neighbour() -> None:
    timing = Timing(tree(1024, radix=11, roots="multi"), latency=10, overhead=1)
    assert timing.timeout(1023, 1) == 24  # a leaf: 4 * 1 + 2 * 10
    assert timing.timeout(0, 1) == 4 * timing.tree.degree(0) + 20
    fixed = Timing(timing.tree, latency=10, overhead=1, timeout=7)
    assert {fixed.timeout(node, distance) for node in (0, 5, 1023) for distance in (1, 4)} == {7}


FIGURE_7 = {
    # nodes: k-ary and k-nomial with one root, k-ary and k-nomial with several, reduce = bcast with k-nomial
    1024: (124, 120, 101, 99, 60),
    2048: (138, 132, 116, 114, 66),
    4096: (148, 144, 128, 125, 72),
    8192: (162, 156, 140, 136, 78),
    16384: (176, 168, 152, 148, 84),
    32768: (186, 180, 166, 161, 90),
    65536: (198, 190, 177, 171, 95),
}
RADIX = {4: 4, 8: 8, 16: 16, 32: 8, 64: 11, 128: 12, 256: 14, 512: 9, 1024: 11, 2048: 12, 4096: 9, 8192: 10} | {
    16384: 12,
    32768: 9,
    65536: 9,
    131072: 11,
}


def latency(size: int, kind: str, roots: str, operation: str = "allreduce", radix: int | None = None) -> int:
    radix = radix or best_radix(size, kind, roots, 10, 1, operation)
    return fault_free_latency(tree(size, kind, radix=radix, roots=roots), latency=10, overhead=1, operation=operation)


@pytest.mark.sampled
@pytest.mark.parametrize("size", [size for size in FIGURE_7 if CAMPAIGN or size < 16384])
def test_figure_7(size: int) -> None:
    assert FIGURE_7[size] == (
        latency(size, "kary", "single"),
        latency(size, "knomial", "single"),
        latency(size, "kary", "multi"),
        latency(size, "knomial", "multi"),
        latency(size, "knomial", "single", "reduce"),
    )
    assert latency(size, "knomial", "multi", "reduce") == FIGURE_7[size][4]
    assert latency(size, "knomial", "single", "bcast") == FIGURE_7[size][4]
    assert latency(size, "knomial", "multi", "bcast") == FIGURE_7[size][4]


@pytest.mark.parametrize(
    ("size", "steps"), [(4, 14), (8, 18), (16, 30), (32, 46), (64, 53), (128, 64), (256, 80), (512, 89), (131072, 183)]
)
def test_further_sizes(size: int, steps: int) -> None:
    assert latency(size, "knomial", "multi") == steps


@pytest.mark.sampled
@pytest.mark.parametrize("size", RADIX)
def test_the_best_radix(size: int) -> None:
    assert best_radix(size, "knomial", "multi", 10, 1) == RADIX[size]


def test_the_best_radix_is_the_first_of_the_best() -> None:
    for size, kind, roots, operation in product(
        (2, 5, 17, 40), ("knomial", "kary"), ("single", "multi"), ("allreduce", "reduce", "bcast")
    ):
        needed = [
            fault_free_latency(Tree(size, kind, radix=radix, roots=roots), latency=4, overhead=2, operation=operation)
            for radix in range(2, size + 1)
        ]
        assert best_radix(size, kind, roots, 4, 2, operation) == 2 + needed.index(min(needed))


@pytest.mark.parametrize("radix", [2, 3, 7, 11, 13, 19])
@pytest.mark.parametrize("height", [1, 2, 3])
def test_closed_forms(radix: int, height: int) -> None:
    for lat, over in ((10, 1), (4, 2), (1, 1)):
        single = Tree(radix**height, radix=radix)
        assert fault_free_latency(single, latency=lat, overhead=over) == 2 * height * (lat + radix * over)
        for operation in ("reduce", "bcast"):
            assert fault_free_latency(single, latency=lat, overhead=over, operation=operation) == height * (
                lat + radix * over
            )
        multi = Tree(radix**height, radix=radix, roots="multi")
        exchange = max((radix - 1) * over, lat + over) + (radix - 1) * over
        expected = exchange + 2 * (height - 1) * (lat + radix * over)
        assert fault_free_latency(multi, latency=lat, overhead=over) == expected


@pytest.mark.parametrize(
    "wrong", [{"size": 0, "radix": 2}, {"size": 4, "radix": 1}, {"size": 4, "radix": 5, "roots": "multi"}]
)
def test_trees_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"nodes"):
        Tree(**wrong)
