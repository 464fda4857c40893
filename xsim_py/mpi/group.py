"""Groups: ordered sets of processes, as world ranks (MPI 4.1, chapter 7.3).

Every process of a large run may make the same group of nearly all others (say, all except the one that failed). So the
members are separate from the group object that a program holds: `Members` never change, are a `range` if possible, and
the operations cache their last results, so that equal sets are shared.

Duplicate ranks are an error (ERR_RANK, or ERR_ARG in ranges). The standard calls such a program erroneous; MPICH
accepts it and returns groups that are not sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from xsim_py.mpi import constants as c
from xsim_py.mpi.errors import fail

_REMEMBERED = 32  # results of each operation; one may hold a tuple of a million ranks


class Members:
    """An immutable ordered set of world ranks.

    Equal sets requested in succession share one object.
    """

    __slots__ = ("_index", "ranks")

    _index: dict[int, int] | None
    ranks: range | tuple[int, ...]
    """In the group's order; always a range if they are equally spaced."""

    def __new__(cls, ranks: Sequence[int]) -> Members:
        """Find or make the set of these ranks."""
        return _make_members(ranks if isinstance(ranks, range) else tuple(ranks))

    def index(self, number: int) -> int:
        """Return the rank in the group of a world rank, `UNDEFINED` if it is not a member."""
        if isinstance(self.ranks, range):
            return self.ranks.index(number) if number in self.ranks else c.UNDEFINED
        if self._index is None:
            self._index = {rank: place for place, rank in enumerate(self.ranks)}
        return self._index.get(number, c.UNDEFINED)

    def __contains__(self, number: int) -> bool:
        return self.index(number) != c.UNDEFINED

    def __len__(self) -> int:
        return len(self.ranks)


@lru_cache(_REMEMBERED)
def _make_members(ranks: range | tuple[int, ...]) -> Members:
    compact = _compact(ranks)
    if compact is not ranks:
        return _make_members(compact)
    self = object.__new__(Members)
    self.ranks = ranks
    self._index = None
    return self


def _compact(ranks: range | tuple[int, ...]) -> range | tuple[int, ...]:
    if isinstance(ranks, range):
        return ranks
    if not ranks:
        return range(0)
    first = ranks[0]
    step = ranks[1] - first if len(ranks) > 1 else 1
    spaced = range(first, first + step * len(ranks), step) if step else range(0)
    return spaced if len(spaced) == len(ranks) and all(map(int.__eq__, spaced, ranks)) else ranks


class GroupState:
    """A group, as a program's handle refers to it: two groups of the same members are distinct."""

    __slots__ = ("members", "session")

    def __init__(self, members: Members) -> None:
        self.members = members
        self.session: Any = None  # the `SessionState`, if this is one of its process sets


EMPTY = GroupState(Members(range(0)))


@lru_cache(_REMEMBERED)
def union(one: Members, other: Members) -> Members:
    """Return the members of the first group, then those of the second that are not in the first."""
    return Members([*one.ranks, *(rank for rank in other.ranks if rank not in one)])


@lru_cache(_REMEMBERED)
def intersection(one: Members, other: Members) -> Members:
    """Return the members of both groups, in the order of the first."""
    return Members([rank for rank in one.ranks if rank in other])


@lru_cache(_REMEMBERED)
def difference(one: Members, other: Members) -> Members:
    """Return the members of the first group that are not in the second, in the order of the first."""
    return Members([rank for rank in one.ranks if rank not in other])


@lru_cache(_REMEMBERED)
def include(members: Members, places: Sequence[int]) -> Members:
    """Return the members with these ranks, in this order."""
    _check_places(places, len(members), c.ERR_RANK)
    return Members([members.ranks[place] for place in places])


@lru_cache(_REMEMBERED)
def exclude(members: Members, places: Sequence[int]) -> Members:
    """Return the members without these ranks, in their order."""
    _check_places(places, len(members), c.ERR_RANK)
    return _without(members, places)


@lru_cache(_REMEMBERED)
def include_ranges(members: Members, triplets: Sequence[tuple[int, int, int]]) -> Members:
    """Return the members with the ranks ``first, first + stride, ... last`` of each triplet."""
    return Members([members.ranks[place] for place in _places(triplets, len(members))])


@lru_cache(_REMEMBERED)
def exclude_ranges(members: Members, triplets: Sequence[tuple[int, int, int]]) -> Members:
    """Return the members without the ranks of any triplet, in their order."""
    return _without(members, _places(triplets, len(members)))


def _without(members: Members, places: Sequence[int]) -> Members:
    excluded = set(places)
    return Members([rank for place, rank in enumerate(members.ranks) if place not in excluded])


def _check_places(places: Sequence[int], size: int, code: int) -> None:
    for place in places:
        if not 0 <= place < size:
            fail(code, f"rank {place} of a group of {size}")
    if len(set(places)) != len(places):
        fail(code, "a rank is given twice")


def _places(triplets: Sequence[tuple[int, int, int]], size: int) -> list[int]:
    places: list[int] = []
    for first, last, stride in triplets:
        if stride == 0 or (last - first) * stride < 0:
            fail(c.ERR_ARG, f"the range {(first, last, stride)} never reaches its end")
        spaced = range(first, last + (1 if stride > 0 else -1), stride)
        _check_places((spaced[0], spaced[-1]) if len(spaced) > 1 else spaced, size, c.ERR_ARG)
        places.extend(spaced)
    _check_places(places, size, c.ERR_ARG)
    return places


def translate(members: Members, places: Sequence[int], other: Members) -> list[int]:
    """Return the ranks in `other` of the members with these ranks; `UNDEFINED` for non-members."""
    size = len(members)
    found = []
    for place in places:
        if place == c.PROC_NULL:
            found.append(c.PROC_NULL)
        elif 0 <= place < size:
            found.append(other.index(members.ranks[place]))
        else:
            fail(c.ERR_RANK, f"rank {place} of a group of {size}")
    return found


@lru_cache(_REMEMBERED)
def contains(whole: Members, part: Members) -> bool:
    """Return True if all members of one group are in another."""
    return len(part) <= len(whole) and all(rank in whole for rank in part.ranks)


def compare(one: Members, other: Members) -> int:
    """Return `IDENT` for equal members in equal order, `SIMILAR` in another order, else `UNEQUAL`."""
    if one is other or one.ranks == other.ranks:
        return c.IDENT
    if len(one) == len(other) and all(rank in other for rank in one.ranks):
        return c.SIMILAR
    return c.UNEQUAL
