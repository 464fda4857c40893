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
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from xsim_py.schedules import FREE, MadeChoice, pairs_of_map, unchanged

MOST_BRANCHES: Final = 1_000_000
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


class _Run(NamedTuple):
    """A run that is known: how it came about, and what it has chosen."""

    changes: tuple[tuple[Key, int], ...]
    choices: Sequence[MadeChoice]

    def branch(self, choice: MadeChoice, taken: int) -> Branch:
        """Return the branch in which one choice is another one, and those that depend on it are free."""
        kept = unchanged(self.choices, choice)
        changes = tuple(change for change in self.changes if change[0] in kept)
        return Branch({**kept, choice.key: taken}, (*changes, (choice.key, taken)))


class MatchingTree:
    """The matchings that are known, and the branches that are still to be run.

    Parameters
    ----------
    most : int
        How many branches are kept at most: a run of a long program with many choices has more than can ever be run.

    Attributes
    ----------
    count : int
        How many different matchings are known.
    impossible : int
        How many branches turned out not to be possible.
    """

    def __init__(self, most: int = MOST_BRANCHES) -> None:
        self._most = most
        self._is_cut = False
        self._todo: deque[tuple[_Run, MadeChoice, int]] = deque()
        self._begun = False
        self._known: set[frozenset[tuple[Key, int]]] = set()
        self._runs: dict[tuple[Key, int], set[int]] = {}
        self.count = 0
        self.impossible = 0

    @property
    def is_done(self) -> bool:
        """True if no branch is left, and none was left out."""
        return self._begun and not self._todo and not self._is_cut

    @property
    def left(self) -> int:
        """How many branches are left, of which known runs may have taken some."""
        return len(self._todo)

    def next(self) -> Branch | None:
        """Return the next branch that no known run has taken, if there is one."""
        if not self._begun:
            self._begun = True
            return Branch({}, ())
        while self._todo:
            run, choice, taken = self._todo.popleft()
            branch = run.branch(choice, taken)
            if not self.knows(branch):
                return branch
        return None

    def has_more_than(self, count: int) -> bool:
        """Return whether more branches are left than so many, of those that no known run has taken."""
        new = (1 for run, choice, taken in self._todo if not self.knows(run.branch(choice, taken)))
        return next(islice(new, max(count, 0), None), None) is not None

    def knows(self, branch: Branch) -> bool:
        """Return whether a known run has made these choices."""
        sets = sorted((self._runs.get(item, set()) for item in branch.forced.items()), key=len)
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
        run = _Run(branch.changes, choices)
        for choice in choices:
            for taken in choice.alternatives:
                if len(self._todo) >= self._most:
                    self._is_cut = True
                    return True
                self._todo.append((run, choice, taken))
        return True
