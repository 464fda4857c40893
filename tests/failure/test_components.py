"""A failure of a component is one of all ranks in it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.failure.models import errors, model, times_s
from xsim_py.config import ComponentSpec
from xsim_py.failure.components import Components, levels

TREE = [{"name": "socket", "cores": 2}, {"name": "blade", "nodes": 2}, {"name": "cabinet", "nodes": 4}]
SPECS = [
    ComponentSpec(name="socket", cores=2),
    ComponentSpec(name="blade", nodes=2),
    ComponentSpec(name="cabinet", nodes=4),
]


def components(node_of: Sequence[int], cores_per_node: int | None = None) -> Components:
    return Components(levels(SPECS), node_of=node_of, cores_per_node=cores_per_node)


def test_levels_stand_in_the_order_of_their_size() -> None:
    assert list(levels(SPECS)) == ["machine", "cabinet", "blade", "node", "socket", "rank"]


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("machine", [0] * 12),
        ("cabinet", [0] * 12),
        ("blade", [0] * 8 + [1] * 4),
        ("node", [0] * 4 + [1] * 4 + [2] * 4),
        ("socket", [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]),
        ("rank", list(range(12))),
    ],
)
def test_each_rank_is_in_one_component_of_every_level(name: str, numbers: list[int]) -> None:
    found = components([rank // 4 for rank in range(12)])
    assert list(found.of_ranks(name)) == numbers
    assert found.count(name) == max(numbers) + 1
    assert [rank for number in range(found.count(name)) for rank in found.members(name, number)] == list(range(12))


def test_the_cores_of_a_node_are_taken_in_the_order_of_ranks() -> None:
    dealt_out = components([rank % 2 for rank in range(8)], 4)
    assert list(dealt_out.of_ranks("socket")) == [0, 2, 0, 2, 1, 3, 1, 3]
    half_full = components([rank // 4 for rank in range(5)], 6)
    assert list(half_full.of_ranks("socket")) == [0, 0, 1, 1, 3]
    assert (list(half_full.members("socket", 2)), list(half_full.members("socket", 3))) == ([], [4])


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(-1, 40))
def test_the_tree_is_one(node_of: list[int], number: int) -> None:
    """Whatever the placement: a component's ranks are those of its parts, and nobody is in two."""
    found = components(node_of)
    names = list(levels(SPECS))
    for outer, inner in pairwise(names):
        above = found.of_ranks(outer)
        for part in range(found.count(inner)):
            assert len({above[rank] for rank in found.members(inner, part)}) <= 1
    for name in names:
        assert list(found.members(name, number)) == [
            rank for rank, component in enumerate(found.of_ranks(name)) if component == number
        ]


def test_a_component_takes_all_of_its_ranks_with_it() -> None:
    told = model("cabinet=1@3s", "blade=1@2s", "socket=0@1s", failures={"components": TREE}, ranks=32, per_node=4)
    assert times_s(told) == {0: 1, 1: 1} | dict.fromkeys(range(8, 16), 2) | dict.fromkeys(range(16, 32), 3)


@pytest.mark.parametrize("per", ["machine", "cabinet", "blade", "node", "socket", "rank"])
def test_a_drawn_failure_takes_all_of_the_component_and_nobody_else(per: str) -> None:
    told = model(failures={"components": TREE, "draws": [{"per": per, "mtbf": "1h"}]}, ranks=40, per_node=4)
    groups = Components(levels(SPECS), node_of=[rank // 4 for rank in range(40)], cores_per_node=4)
    times = times_s(told)
    for number in range(groups.count(per)):
        assert len({times[rank] for rank in groups.members(per, number)}) == 1
    assert len(set(times.values())) == groups.count(per)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"name": "node", "nodes": 2}], "[0]: the name node is reserved; choose another"),
        ([{"name": "core", "cores": 1}], "[0]: the name core is reserved; write rank, which means one"),
        ([{"name": "a b", "nodes": 2}], "[0]: expected a name of letters, digits, - and _, got 'a b'"),
        ([{"name": "2x", "nodes": 2}], "[0]: expected a name that starts with a letter, got '2x'"),
        ([{"name": "a", "nodes": 2}, {"name": "a", "nodes": 4}], "[1]: duplicate component a; rename one"),
        ([{"name": "a"}], "[0]: expected either nodes or cores, the number that form a a"),
        ([{"name": "a", "nodes": 2, "cores": 2}], "[0]: expected either nodes or cores"),
        (
            [{"name": "cabinet", "nodes": 10}, {"name": "blade", "nodes": 4}],
            "[0]: 10 nodes make a cabinet and 4 a blade; a cabinet is made of whole blades",
        ),
        (
            [{"name": "tile", "cores": 2}, {"name": "socket", "cores": 7}],
            "[1]: 7 cores make a socket and 2 a tile; a socket is made of whole tiles",
        ),
    ],
)
def test_what_is_no_tree_is_refused(entries: list[dict[str, Any]], message: str) -> None:
    found = errors(failures={"components": entries})
    assert len(found) == 1
    assert f"failures.components{message}" in found[0]
