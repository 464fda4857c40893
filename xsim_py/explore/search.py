"""The tree of all matchings: which choices to force in which run, so that each way that MPI allows is run once.

A run shows what else each of its choices could have been. For a choice d and an alternative a, the next run is forced
to make all choices that do not depend on d as before, and to choose a: whatever a needs has happened by then, for a was
not sent because of d. So the run can be made. Every way is found: of the runs that are known, take one that agrees with
it for longest; where they part is a choice with an alternative. And no way is run twice: what is to be forced is left
out where a known run has just these choices. There is no need to undo anything, and nothing but the choices to compare.

Prior art: the search of DAMPI over forced epochs, and source sets and sleep sets of DPOR (Abdulla et al. 2014), which
keep redundant runs from being made; here the known runs themselves say what is redundant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from xsim_py.schedules import FREE, MadeChoice

Key = tuple[int, int]
"""A choice: its rank, and its number there."""


class Branch(NamedTuple):
    """A run that is to be made: what is forced, and how that came about."""

    forced: Mapping[Key, int]
    changes: tuple[tuple[Key, int], ...]
    """What was chosen otherwise than in the first run, one change after the other."""

    def pairs(self) -> list[tuple[int, int]]:
        """Return it as a schedule; choices in between are free."""
        return pairs_of_map(self.forced)


def pairs_of_map(forced: Mapping[Key, int]) -> list[tuple[int, int]]:
    """Return a schedule that forces these choices, and leaves others free."""
    last: dict[int, int] = {}
    for rank, number in forced:
        last[rank] = max(number, last.get(rank, 0))
    return [(rank, forced.get((rank, number), FREE)) for rank in sorted(last) for number in range(last[rank] + 1)]


class MatchingTree:
    """The matchings that are known, and the branches that are still to be run.

    Attributes
    ----------
    count : int
        How many different matchings are known.
    impossible : int
        How many branches turned out not to be possible.
    """

    def __init__(self) -> None:
        self._todo = deque([Branch({}, ())])
        self._known: set[frozenset[tuple[Key, int]]] = set()
        self._covered: set[frozenset[tuple[Key, int]]] = set()
        self._runs: dict[tuple[Key, int], set[int]] = {}
        self.count = 0
        self.impossible = 0

    @property
    def is_done(self) -> bool:
        """True if no branch is left."""
        return not self._todo

    @property
    def left(self) -> int:
        """How many branches are left, of which known runs may have taken some."""
        return len(self._todo)

    def next(self) -> Branch | None:
        """Return the next branch that no known run has taken, if there is one."""
        while self._todo:
            branch = self._todo.popleft()
            if not self.knows(branch):
                return branch
        return None

    def knows(self, branch: Branch) -> bool:
        """Return whether a known run has made these choices."""
        items = frozenset(branch.forced.items())
        if items in self._covered:
            return True
        sets = sorted((self._runs.get(item, set()) for item in items), key=len)
        return bool(sets) and bool(set.intersection(*sets))

    def add(self, branch: Branch, choices: Sequence[MadeChoice]) -> bool:
        """Take in the choices of a run; return whether they are a matching that was not known."""
        made = {choice.key: choice.taken for choice in choices if choice.taken != FREE}
        if any(made.get(key) != taken for key, taken in branch.forced.items()):
            self.impossible += 1
            return False
        matching = frozenset(made.items())
        if matching in self._known:
            return False
        self._known.add(matching)
        for item in matching:
            self._runs.setdefault(item, set()).add(self.count)
        self.count += 1
        self._cover(choices, made)
        for further in _branches(branch, choices, made):
            if frozenset(further.forced.items()) not in self._covered:
                self._todo.append(further)
        return True

    def _cover(self, choices: Sequence[MadeChoice], made: Mapping[Key, int]) -> None:
        """Note the beginnings of a run, which are found sooner than by asking for all runs with such choices."""
        for choice in choices:
            if choice.alternatives:
                self._covered.add(frozenset((_kept(choice, choices, made) | {choice.key: choice.taken}).items()))


def _kept(choice: MadeChoice, choices: Sequence[MadeChoice], made: Mapping[Key, int]) -> dict[Key, int]:
    """Return the choices that do not depend on one of them."""
    return {
        other.key: made[other.key]
        for other in choices
        if other.key in made and choice.key not in other.after and other.key != choice.key
    }


def _branches(branch: Branch, choices: Sequence[MadeChoice], made: Mapping[Key, int]) -> Iterator[Branch]:
    for choice in choices:
        if choice.alternatives:
            kept = _kept(choice, choices, made)
            changes = tuple(change for change in branch.changes if change[0] in kept)
            for other in choice.alternatives:
                yield Branch({**kept, choice.key: other}, (*changes, (choice.key, other)))
