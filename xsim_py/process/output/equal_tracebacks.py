"""Equal tracebacks of several ranks are written once.

A program that fails most often fails in all ranks, at one line and at nearly one time. Within a network's latency of
the first one no rank can have learnt of it, nor the launcher: so long a traceback waits for its like, and what the rank
says after it on standard error waits behind it. Everything else goes on, so that what a rank has printed before it
failed stands above its traceback. Only virtual times count, so it is the same however often somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

TRACEBACK = 2
"""The stream of lines that wait for their like, and then go to standard error."""


class WholeTraceback(str):
    """A whole traceback, which is written to a rank's standard error at once."""

    __slots__ = ()


class _Group(NamedTuple):
    first_ps: int
    ranks: dict[int, None]
    behind: list[tuple[int, str]]
    """Each rank, and what it has printed on standard error since, stand here in order."""


class EqualTracebacks:
    """The tracebacks that wait for equal ones of other ranks.

    Parameters
    ----------
    within_ps : int
        How much later than the first one an equal one may come.
    """

    def __init__(self, within_ps: int) -> None:
        self._within_ps = within_ps
        self._groups: dict[str, _Group] = {}  # in the order of their first ones
        self._last: dict[int, _Group] = {}  # of each rank

    def __len__(self) -> int:
        """Return how many different ones wait."""
        return len(self._groups)

    def add(self, clock_ps: int, rank: int, text: str) -> None:
        """Add a traceback that is printed at a time; those due before must have been yielded.

        A second equal one of the same rank is written as well.
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
        """Let a line on standard error wait behind a traceback of that rank; return whether there is one."""
        group = self._last.get(rank)
        if group is None:
            return False
        group.behind.append((rank, text))
        return True

    def due(self, before_ps: int | None) -> Iterator[tuple[list[int], str]]:
        """Yield those for which no equal one can come, as all that is before a time has come (None: all at all)."""
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
