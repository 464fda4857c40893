"""The tree of matchings has each way that MPI allows, once: counts in closed form, and against brute force."""

from __future__ import annotations

import io
from functools import partial
from math import factorial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from tests.explore.brute_force import ANY, Program, enumerate_matchings, perform
from xsim_py import simulate
from xsim_py.explore.search import MatchingTree
from xsim_py.schedules import FREE, MatchSchedule


def explored(program: Program, **options: Any) -> tuple[set[tuple[tuple[int, ...], ...]], MatchingTree, int]:
    """Return all matchings that the tree finds, the tree, and how many runs it took."""
    tree, found, runs = MatchingTree(), set(), 0
    while (branch := tree.next()) is not None:
        schedule = MatchSchedule.of(branch.pairs(), watch=True)
        result = simulate(
            perform, ranks=len(program), args=[program], schedule=schedule, stdout=io.StringIO(), stderr=io.StringIO(),
            **options,
        )  # fmt: skip
        runs += 1
        impossible = tree.impossible
        tree.add(branch, result.choices)
        if tree.impossible == impossible:
            made: list[list[int]] = [[] for _ in program]
            for choice in result.choices:
                if choice.taken != FREE or choice.kind == "receive":  # a probe that waits has chosen nothing
                    made[choice.rank].append(-2 if choice.taken == FREE else choice.taken)
            found.add(tuple(map(tuple, made)))
    return found, tree, runs


def to_one(senders: int, each: int) -> Program:
    """Return a program in which some ranks send to rank 0, each so many messages."""
    receives = (("recv", ANY, ANY),) * (senders * each)
    return (receives, *((("send", 0, 0),) * each for _ in range(senders)))


@pytest.mark.parametrize(
    ("senders", "each"), [(1, 1), (1, 4), (2, 1), (3, 1), (4, 1), (2, 2), (2, 3)] + [(3, 2)] * CAMPAIGN
)
def test_counts_are_those_of_the_closed_form_and_no_run_is_in_vain(senders: int, each: int) -> None:
    _, tree, runs = explored(to_one(senders, each))
    assert tree.count == runs == factorial(senders * each) // factorial(each) ** senders
    assert tree.impossible == 0


def test_receivers_that_do_not_depend_on_each_other_multiply() -> None:
    both = (("recv", ANY, 0),) * 2
    sends = (("send", 0, 0), ("send", 1, 0))
    _, tree, runs = explored((both, both, sends, sends))
    assert tree.count == runs == 4


def test_a_message_that_is_sent_because_of_the_first_is_no_alternative_to_it() -> None:
    receives = (("recv", ANY, ANY), ("send", 2, 0), ("recv", ANY, ANY))
    program = (receives, (("send", 0, 0),), (("recv", 0, 0), ("send", 0, 0)))
    assert explored(program)[1].count == 1


def test_a_receive_that_is_posted_but_not_waited_for_can_still_get_another_message() -> None:
    late = (("irecv", ANY, ANY), ("send", 2, 0), ("wait",), ("recv", ANY, ANY))
    program = (late, (("send", 0, 0),), (("recv", 0, 0), ("send", 0, 0)))
    assert explored(program)[0] == enumerate_matchings(program) == {((1, 2), (), ()), ((2, 1), (), ())}


def calls(ranks: int) -> st.SearchStrategy[tuple[Any, ...]]:
    """Return calls of any kind; `wait` without a request is taken out afterwards."""
    other, tag = st.integers(0, ranks - 1), st.integers(0, 1)
    source, some_tag = st.just(ANY) | other, st.just(ANY) | tag
    return st.one_of(
        st.tuples(st.sampled_from(["send", "send", "send", "ssend"]), other, tag),
        st.tuples(st.sampled_from(["recv", "recv", "irecv", "probe"]), source, some_tag),
        st.tuples(st.sampled_from(["wait", "waitany"])),
    )


def sensible(rank: int, lists: list[tuple[Any, ...]]) -> tuple[tuple[Any, ...], ...]:
    """Return the calls that a rank can make: no wait without a request, no message to itself."""
    left, kept = 0, []
    for call in lists:
        left += (call[0] == "irecv") - call[0].startswith("wait")
        if left < 0:
            left = 0
        elif not (call[0].endswith("send") and call[1] == rank):
            kept.append(call)
    return tuple(kept)


def lists_of_calls(ranks: int) -> st.SearchStrategy[Program]:
    """Return a list of calls for each of so many ranks."""
    each = [st.lists(calls(ranks), max_size=5).map(partial(sensible, rank)) for rank in range(ranks)]
    return st.tuples(*each)


PROGRAMS = st.integers(2, 3).flatmap(lists_of_calls)


@settings(max_examples=40 if CAMPAIGN else 15, deadline=None)
@given(PROGRAMS)
def test_the_tree_finds_what_brute_force_finds(program: Program) -> None:
    every = enumerate_matchings(program)
    found, tree, _ = explored(program)
    assert found == every
    assert tree.impossible == 0
