import re

import pytest

from xsim_py.mpi.ftco.trees import tree
from xsim_py.study.recovery.victims import CODES, Victim, victims_of

BINARY = tree(64, kind="kary", radix=2)


def ranks_of(code: str, shape=BINARY, ranks: int = 64) -> list[int]:
    return [victim.rank for victim in victims_of(code, shape, ranks)]


def test_the_failures_of_the_paper_are_highest_below_the_root_of_its_binary_tree():
    assert {code: ranks_of(code) for code in CODES} == {
        "none": [],
        "1": [1],
        "2p": [1, 2],
        "2s": [1, 3],
        "3m": [1, 2, 3],
    }


@pytest.mark.parametrize(
    "shape", [tree(n, kind=kind, radix=k) for n in (5, 16, 100) for k in (2, 3) for kind in ("kary", "knomial")]
)
def test_serial_ones_are_parent_and_child_and_parallel_ones_in_different_subtrees(shape):
    first, second = ranks_of("2p", shape, shape.size)
    assert not shape.is_below(first, second)
    assert not shape.is_below(second, first)
    parent, child = ranks_of("2s", shape, shape.size)
    assert shape.parent(child) == parent
    (other,) = set(ranks_of("3m", shape, shape.size)) - {parent, child}
    assert shape.parent(other) == 0
    assert not any(0 in ranks_of(code, shape, shape.size) for code in CODES)


def test_nodes_and_laws_may_fail_too():
    assert victims_of("node=1@half", BINARY, 64) == (Victim(1, half=True, level="node"),)
    found = victims_of("node=2@1ms+5@before+exponential:node,mtbf=1s", BINARY, 64)
    assert [str(victim) for victim in found] == ["node 2 at 1 ms", "exponential:node,mtbf=1s", "5"]


def test_ranks_of_ones_own_have_times_or_die_before_the_call():
    assert victims_of("5@1.2ms", BINARY, 64) == (Victim(5, 1_200_000_000),)
    assert victims_of("7@before + 5@3us", BINARY, 64) == (Victim(5, 3_000_000), Victim(7, before=True))
    assert [str(victim) for victim in victims_of("7@before+5@3us", BINARY, 64)] == ["5 at 3 us", "7"]


@pytest.mark.parametrize(
    ("code", "ranks", "said"),
    [
        (
            "4x",
            64,
            "unknown failure '4x'; write none, 1, 2p, 2s, 3m, RANK@TIME such as 5@1.2ms, RANK@before, RANK@half",
        ),
        ("64@before", 64, "rank 64 is out of range (0 to 63)"),
        ("1@2furlongs", 64, "furlongs"),
        ("1@-2s", 64, "negative"),
        ("1@before+1@2s", 64, "names a rank twice"),
        ("0@before+1@before", 2, "names all 2 ranks"),
        ("2s", 3, "no two levels"),
        ("3m", 2, "no two levels"),
        ("2p", 2, "the root of the tree has too few children"),
        ("1", 1, "the root of the tree has too few children"),
    ],
)
def test_what_cannot_be_is_said(code: str, ranks: int, said: str):
    with pytest.raises(ValueError, match=re.escape(said)):
        victims_of(code, tree(ranks, kind="kary", radix=2), ranks)
