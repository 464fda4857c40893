"""Differences between the collective calls that ranks have begun, for the deadlock report.

A call that one rank omits, or that raises an error there, may have completed on the others when the run deadlocks: all
of them may be in the same barrier. So each shard keeps the first note of each call until all its ranks have begun it,
and any deviations. For a communicator with members in several shards the last calls are kept, too, because the report
compares those of all shards.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.code_origin import shown

from .call_sites import Place, here, line_of

if TYPE_CHECKING:
    from .fabric import Fabric
    from .protocols import Endpoint

_MOST_OPEN = 1024  # calls that a failed rank will never begin
_MOST_KEPT = 64  # entries of each other kind


class Begun(NamedTuple):
    """A call that ranks of one shard have begun."""

    label: str
    """The communicator."""
    cid: int
    """The number of the communicator."""
    number: int
    """The number of the call on it."""
    note: str
    """The call and its arguments."""
    ranks: list[int] | None
    """The calling ranks; None: all that have called so far and are not listed elsewhere."""
    place: str
    """The source location of the first call."""


class RefusedCall(NamedTuple):
    """A collective call that raised an error before it took part."""

    rank: int
    label: str
    name: str
    error: str
    place: str


class Opened:
    """A call begun by a rank of the shard: its note, and the number of ranks still missing."""

    __slots__ = ("label", "missing", "note", "place")

    def __init__(self, comm: Endpoint, note: object, missing: int) -> None:
        self.label = comm.label()
        self.note = note
        self.missing = missing
        self.place = here()


class CallOrder:
    """The calls that ranks of one shard have begun; see the module."""

    def __init__(self, fabric: Fabric) -> None:
        # The communicators on which a rank repeats a recorded call: it starts a persistent collective.
        self.counted: set[Any] = set()
        self._fabric = fabric
        self._open: dict[tuple[int, int], Opened] = {}
        self._last: deque[tuple[tuple[int, int], Opened]] = deque(maxlen=_MOST_KEPT)
        self._differing: dict[tuple[int, int], tuple[Opened, dict[Any, tuple[list[int], Any]]]] = {}
        self._refused: list[tuple[int, str, str, str, Any]] = []

    def begin(self, comm: Any, number: int, note: Any) -> None:
        """Record that the running rank begins a call."""
        if comm in self.counted:
            return
        where = comm.cid, number
        first = self._open.get(where)
        if first is None:
            first = self.record_first(where, comm, note)
        if first.note is not note and first.note != note:
            self.record_mismatch(where, first, note, comm.box.rank.number)
        first.missing -= 1
        if not first.missing:
            self.all_begun(where, comm)

    def record_first(self, where: tuple[int, int], comm: Any, note: object) -> Opened:
        """Record the note of the first rank of this shard to begin a call."""
        context = comm.context
        if not context.here:
            context.here = sum(map(self._fabric.shard.local, context.ranks))
        if len(self._open) >= _MOST_OPEN:
            del self._open[next(iter(self._open))]
        first = self._open[where] = Opened(comm, note, context.here)
        return first

    def all_begun(self, where: tuple[int, int], comm: Any) -> None:
        """Drop a call that all ranks of this shard have begun."""
        first = self._open.pop(where, None)
        if first is not None and comm.context.here < comm.context.size:
            self._last.append((where, first))

    def record_mismatch(self, where: tuple[int, int], first: Opened, note: object, rank: int) -> None:
        """Record that a rank has begun a different call."""
        if where in self._differing or len(self._differing) < _MOST_KEPT:
            _, others = self._differing.setdefault(where, (first, {}))
            others.setdefault(note, ([], here()))[0].append(rank)

    def refuse(self, comm: Any, name: str, error: str) -> None:
        """Record that a call of the running rank raised an error before it took part."""
        if len(self._refused) < _MOST_KEPT:
            self._refused.append((comm.box.rank.number, comm.shown.label(), name, error, here()))

    def refused(self, start: str) -> list[RefusedCall]:
        """Return the refused calls; file names are relative to the directory `start`."""
        return [
            RefusedCall(rank, label, name, error, _named(place, start))
            for rank, label, name, error, place in self._refused
        ]

    def begun(self, start: str) -> list[Begun]:
        """Return the recorded calls; file names are relative to the directory `start`."""
        found = []
        for (cid, number), (first, others) in self._differing.items():
            found.append(Begun(first.label, cid, number, str(first.note), None, _named(first.place, start)))
            for note, (ranks, place) in others.items():
                found.append(Begun(first.label, cid, number, str(note), ranks, _named(place, start)))
        for where, first in (*self._last, *self._open.items()):
            if where not in self._differing:
                found.append(Begun(first.label, *where, str(first.note), None, _named(first.place, start)))
        return found


def _named(place: Place, start: str) -> str:
    file, line = line_of(place)
    return f"{shown(file, start)}:{line}"
