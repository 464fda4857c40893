"""Equal tracebacks of several ranks are written once.

A failing program usually fails in all ranks, at one line and at nearly the same time. Within one network latency of the
first failure no rank can have been affected by it, nor the launcher. So a traceback waits for that time for equal ones,
and further lines of the rank on standard error wait behind it. All other output continues, so that lines printed by a
rank before its failure appear above its traceback. Only virtual times count, so the result does not depend on how
often lines are flushed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

TRACEBACK = 2
"""The stream of lines that wait for equal ones and then go to standard error."""


class WholeTraceback(str):
    """A complete traceback, which is written to a rank's standard error at once."""

    __slots__ = ()


class _Group(NamedTuple):
    first_ps: int
    ranks: dict[int, None]
    behind: list[tuple[int, str]]
    """In order, each rank and the text it has since printed on standard error."""


class EqualTracebacks:
    """The tracebacks that wait for equal ones of other ranks."""

    def __init__(self, within_ps: int) -> None:
        self._within_ps = within_ps  # the maximum time between the first traceback and an equal one
        self._groups: dict[str, _Group] = {}  # in the order of their first tracebacks
        self._last: dict[int, _Group] = {}  # by rank

    def __len__(self) -> int:
        """Return the number of different waiting tracebacks."""
        return len(self._groups)

    def add(self, clock_ps: int, rank: int, text: str) -> None:
        """Add a traceback printed at a time; those due earlier must have been yielded.

        A second equal traceback of the same rank is written as well.
        """
        group = self._groups.get(text)
        if group is None:
            group = self._groups[text] = _Group(clock_ps, {}, [])
        if rank in group.ranks:
            group.behind.append((rank, text))
            return
        group.ranks[rank] = None
        self._last[rank] = group

    def hold(self, rank: int, text: str) -> bool:
        """Hold a line on standard error behind a waiting traceback of its rank; return False if there is none."""
        group = self._last.get(rank)
        if group is None:
            return False
        group.behind.append((rank, text))
        return True

    def due(self, before_ps: int | None) -> Iterator[tuple[list[int], str]]:
        """Yield the tracebacks that are complete, as everything before a time has been added (None: all)."""
        while self._groups:
            text, group = next(iter(self._groups.items()))
            if before_ps is not None and group.first_ps + self._within_ps >= before_ps:
                return
            del self._groups[text]
            for rank in group.ranks:
                if self._last.get(rank) is group:
                    del self._last[rank]
            yield [*group.ranks], text
            for rank, line in group.behind:
                yield [rank], line
