"""`MPI.Group`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from xsim_py.mpi import constants as c
from xsim_py.mpi import group as groups
from xsim_py.mpi4py.handle import Handle, Null, int_list, predefine, predefine_null
from xsim_py.mpi4py.info import _text
from xsim_py.mpi4py.inside import impl_of, live_impl, members_of
from xsim_py.mpi4py.methods import attribute
from xsim_py.mpi4py.plain_arguments import integer
from xsim_py.process.ranks import current

if TYPE_CHECKING:
    from xsim_py.mpi4py.session import Session

__all__ = ["GROUP_EMPTY", "GROUP_NULL", "Group", "pset_name_of"]


class Group(Handle):
    """Group of processes."""

    __slots__ = ()

    _null = Null("GROUP_NULL")
    _error = c.ERR_GROUP

    def __new__(cls, group: Group | None = None) -> Self:
        return cls._copy(group)

    @property
    def _members(self) -> groups.Members:
        impl: groups.GroupState = self._live()
        return impl.members

    @classmethod
    def _of(cls, members: groups.Members) -> Self:
        return cls._make(groups.GroupState(members) if len(members) else groups.EMPTY)

    def free(self) -> None:
        self._set_null()

    def Get_size(self) -> int:
        return len(self._members)

    size = attribute(Get_size)

    def Get_rank(self) -> int:
        return self._members.index(current.rank_number())

    rank = attribute(Get_rank)

    def Translate_ranks(self, ranks: Sequence[int] | None = None, group: Group | None = None) -> list[int]:
        members = self._members
        places = range(len(members)) if ranks is None else int_list(ranks)
        if group is None:  # mpi4py means COMM_WORLD's group, whose ranks are world ranks
            group = group_of(groups.Members(range(max(members.ranks, default=-1) + 1)))
        return groups.translate(members, places, members_of(group))

    def Compare(self, group: Group) -> int:
        return groups.compare(self._members, members_of(group))

    def Dup(self) -> Self:
        return self._of(self._members)

    @classmethod
    def Union(cls, group1: Group, group2: Group) -> Self:
        return cls._of(groups.union(members_of(group1), members_of(group2)))

    @classmethod
    def Intersection(cls, group1: Group, group2: Group) -> Self:
        return cls._of(groups.intersection(members_of(group1), members_of(group2)))

    Intersect = Intersection

    @classmethod
    def Difference(cls, group1: Group, group2: Group) -> Self:
        return cls._of(groups.difference(members_of(group1), members_of(group2)))

    def Incl(self, ranks: Sequence[int]) -> Self:
        return self._of(groups.include(self._members, _hashable(ranks)))

    def Excl(self, ranks: Sequence[int]) -> Self:
        return self._of(groups.exclude(self._members, _hashable(ranks)))

    def Range_incl(self, ranks: Sequence[tuple[int, int, int]]) -> Self:
        return self._of(groups.include_ranges(self._members, _triplets(ranks)))

    def Range_excl(self, ranks: Sequence[tuple[int, int, int]]) -> Self:
        return self._of(groups.exclude_ranges(self._members, _triplets(ranks)))

    @classmethod
    def Create_from_session_pset(cls, session: Session, pset_name: str) -> Self:
        inner = live_impl(session)
        made = cls._of(groups.Members(inner.members(pset_name_of(pset_name))))
        impl_of(made).session = inner
        return made

    def Free(self) -> None:
        self._live()
        self._set_null()


def group_of(members: groups.Members, cls: type[Group] = Group) -> Group:
    """Return the group of some processes."""
    return cls._of(members)


def pset_name_of(name: str) -> str:
    """Return the validated name of a process set."""
    return _text(name, c.MAX_PSET_NAME_LEN, c.ERR_ARG)


def _hashable(ranks: Sequence[int]) -> Sequence[int]:
    """Return the ranks as a hashable sequence; a range stays a range."""
    return ranks if isinstance(ranks, range) else tuple(int_list(ranks))


def _triplets(ranks: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Return the triplets with integers converted like `integer`.

    In mpi4py they are assigned to a C array.
    """
    return tuple((integer(first), integer(last), integer(stride)) for first, last, stride in ranks)


GROUP_NULL = predefine_null(Group, 0x108)
GROUP_EMPTY = predefine(Group, "GROUP_EMPTY", groups.EMPTY, 0x109)
