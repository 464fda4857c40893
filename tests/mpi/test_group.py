"""Groups against plain lists, which are slow and obviously right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.mpi import constants as c
from xsim_py.mpi.errors import Exception as MpiError
from xsim_py.mpi.group import (
    Members,
    compare,
    difference,
    exclude,
    exclude_ranges,
    include,
    include_ranges,
    intersection,
    translate,
    union,
)

rank_lists = st.lists(st.integers(0, 12), unique=True, max_size=10)


def listed(members: Members) -> list[int]:
    return list(members.ranks)


@given(rank_lists, rank_lists)
def test_set_operations_are_those_of_ordered_sets(one, other):
    a, b = Members(one), Members(other)
    assert listed(union(a, b)) == one + [rank for rank in other if rank not in one]
    assert listed(intersection(a, b)) == [rank for rank in one if rank in other]
    assert listed(difference(a, b)) == [rank for rank in one if rank not in other]


@given(rank_lists, st.data())
def test_members_are_taken_and_left_by_their_places(ranks, data):
    places = data.draw(st.lists(st.sampled_from(range(len(ranks))), unique=True) if ranks else st.just([]))
    members = Members(ranks)
    assert listed(include(members, tuple(places))) == [ranks[place] for place in places]
    assert listed(exclude(members, tuple(places))) == [r for place, r in enumerate(ranks) if place not in places]


@given(rank_lists, rank_lists)
def test_a_rank_is_translated_through_the_process_it_means(one, other):
    expected = [other.index(rank) if rank in other else c.UNDEFINED for rank in one]
    assert translate(Members(one), range(len(one)), Members(other)) == expected


@given(rank_lists, rank_lists)
def test_comparison(one, other):
    expected = c.IDENT if one == other else c.SIMILAR if sorted(one) == sorted(other) else c.UNEQUAL
    assert compare(Members(one), Members(other)) == expected


@given(st.integers(0, 12), st.integers(0, 12), st.integers(-5, 5).filter(bool))
def test_a_range_goes_from_its_first_towards_its_last(first, last, stride):
    members = Members(range(100, 113))
    if (last - first) * stride < 0:
        with pytest.raises(MpiError):
            include_ranges(members, ((first, last, stride),))
        return
    places = [place for place in range(13) if (place - first) % abs(stride) == 0 and between(first, place, last)]
    taken = include_ranges(members, ((first, last, stride),))
    assert listed(taken) == [100 + place for place in sorted(places, reverse=stride < 0)]
    left = exclude_ranges(members, ((first, last, stride),))
    assert sorted(listed(taken) + listed(left)) == list(members.ranks)


def between(first: int, place: int, last: int) -> bool:
    return min(first, last) <= place <= max(first, last)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda m: include(m, (4,)), c.ERR_RANK),
        (lambda m: include(m, (-1,)), c.ERR_RANK),
        (lambda m: include(m, (0, 1, 0)), c.ERR_RANK),
        (lambda m: exclude(m, (0, 4)), c.ERR_RANK),
        (lambda m: exclude(m, (1, 1)), c.ERR_RANK),
        (lambda m: include_ranges(m, ((0, 3, 0),)), c.ERR_ARG),
        (lambda m: include_ranges(m, ((0, 4, 1),)), c.ERR_ARG),
        (lambda m: include_ranges(m, ((0, 10**12, 1),)), c.ERR_ARG),
        (lambda m: include_ranges(m, ((-1, 2, 1),)), c.ERR_ARG),
        (lambda m: exclude_ranges(m, ((0, 1, 1), (1, 2, 1))), c.ERR_ARG),
        (lambda m: translate(m, [4], m), c.ERR_RANK),
        (lambda m: translate(m, [-1], m), c.ERR_RANK),
    ],
)
def test_what_is_not_a_rank_is_an_error(call, error):
    with pytest.raises(MpiError) as caught:
        call(Members(range(4)))
    assert caught.value.Get_error_class() == error


def test_proc_null_translates_to_itself():
    assert translate(Members([3]), [c.PROC_NULL, 0], Members([1, 3])) == [c.PROC_NULL, 1]


def test_a_group_of_a_million_is_as_small_as_one_of_four():
    members = Members(range(1_000_000))
    assert isinstance(members.ranks, range)
    assert members.index(999_999) == 999_999
    assert members.index(1_000_000) == c.UNDEFINED
    assert include(members, range(0, 1_000_000, 2)).ranks == range(0, 1_000_000, 2)


def test_equally_spaced_ranks_are_a_range_however_they_were_given():
    assert Members([7, 5, 3]).ranks == range(7, 1, -2)
    assert isinstance(Members((7, 5, 3)).ranks, range)
    assert isinstance(Members([4]).ranks, range)
    assert Members([1, 2, 4]).ranks == (1, 2, 4)


def test_all_who_ask_for_the_same_members_get_the_same_object():
    world = Members(range(1000))
    assert Members(range(1000)) is world
    assert Members(list(range(1000))) is world
    assert exclude(world, (5,)) is exclude(Members(range(1000)), (5,))
