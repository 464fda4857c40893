"""The tree of all matchings: the choices to force in each run, so that each is run once.

A run shows the alternatives of each of its choices. For a choice d and an alternative a, the next run is forced to make
all choices that do not depend on d as before, and to choose a: everything a needs has happened by then, because a was
not sent because of d. So the run is possible. Every matching is found: take the known run that agrees with it longest;
where they part is a choice with an alternative. And no matching is run twice: a branch is skipped if a known run has
made its forced choices. Nothing needs to be rolled back, and only choices are compared.

Prior art: the search of DAMPI over forced epochs, and source sets and sleep sets of DPOR (Abdulla et al. 2014), which
avoid redundant runs; here the known runs themselves show what is redundant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from xsim_py.schedules import FREE, MadeChoice, pairs_of_map, unchanged

MOST_BRANCHES: Final = 1_000_000
Key = tuple[int, int]
"""A choice: its rank, and its number on that rank."""


class Branch(NamedTuple):
    """A future run: its forced choices and their origin."""

    forced: Mapping[Key, int]
    changes: tuple[tuple[Key, int], ...]
    """The successive changes with respect to the first run."""

    def pairs(self) -> list[tuple[int, int]]:
        """Return the branch as a schedule; choices in between are free."""
        return pairs_of_map(self.forced)


class _Run(NamedTuple):
    """A known run: its origin and its choices."""

    changes: tuple[tuple[Key, int], ...]
    choices: Sequence[MadeChoice]

    def branch(self, choice: MadeChoice, taken: int) -> Branch:
        """Return the branch in which one choice is changed and those that depend on it are free."""
        kept = unchanged(self.choices, choice)
        changes = tuple(change for change in self.changes if change[0] in kept)
        return Branch({**kept, choice.key: taken}, (*changes, (choice.key, taken)))


class MatchingTree:
    """The known matchings and the branches still to run.

    At `most` that many branches are kept: a long program with many choices has more than can ever be run. `count` is
    the number of distinct known matchings, `impossible` that of branches that turned out to be impossible.
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
        """True if no branch is left or was dropped."""
        return self._begun and not self._todo and not self._is_cut

    @property
    def remaining(self) -> int:
        """The number of remaining branches, some of which known runs may cover."""
        return len(self._todo)

    def next(self) -> Branch | None:
        """Return the next branch that no known run covers; None if there is none."""
        if not self._begun:
            self._begun = True
            return Branch({}, ())
        while self._todo:
            run, choice, taken = self._todo.popleft()
            branch = run.branch(choice, taken)
            if not self.covers(branch):
                return branch
        return None

    def has_more_than(self, count: int) -> bool:
        """Return True if more than `count` branches remain that no known run covers."""
        new = (1 for run, choice, taken in self._todo if not self.covers(run.branch(choice, taken)))
        return next(islice(new, max(count, 0), None), None) is not None

    def covers(self, branch: Branch) -> bool:
        """Return True if a known run has made the forced choices of a branch."""
        sets = sorted((self._runs.get(item, set()) for item in branch.forced.items()), key=len)
        return bool(sets) and bool(set.intersection(*sets))

    def add(self, branch: Branch, choices: Sequence[MadeChoice]) -> bool:
        """Add the choices of a run; return True if they are a new matching."""
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
