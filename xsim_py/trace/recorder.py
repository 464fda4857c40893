"""Recording of the calls, messages and marks of one shard's ranks as they happen.

Rows of integers are appended to one array each, with eight bytes per number and no Python objects: a call takes 48
bytes and a message 120. If a number does not fit (times beyond 106 days), the array becomes a list.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NEVER = -1
"""The time of an event that did not happen."""

FOR_MESSAGE, FOR_ANSWER, FOR_COLLECTIVE, FOR_OTHERS = range(4)
"""The reason of a wait: a message, the receiver of a send, a pending collective, or anything else."""

ALL, FROM_ROOT, TO_ROOT, FROM_BELOW = range(4)
"""The dependencies of a collective: all wait for all, all for the root, the root for all, each for lower ranks."""


class Rows:
    """An append-only table of integers."""

    __slots__ = ("_numbers", "_width")

    def __init__(self, width: int) -> None:
        self._width = width  # numbers per row
        # A trace may have millions of rows, and a tuple of ten numbers takes five times the memory.
        self._numbers: array[int] | list[int] = array("q")

    def __len__(self) -> int:
        return len(self._numbers) // self._width

    def append(self, *row: int) -> None:
        """Append a row."""
        try:
            self._numbers.extend(row)
        except OverflowError:
            self._make_room()
            self._numbers.extend(row)

    def set(self, row: int, column: int, value: int) -> None:
        """Replace one number."""
        try:
            self._numbers[row * self._width + column] = value
        except OverflowError:
            self._make_room()
            self._numbers[row * self._width + column] = value

    def _make_room(self) -> None:
        """Switch to integers of any size; remove the part of a row that did not fit."""
        # An array keeps the numbers before one that is too large.
        self._numbers = list(self._numbers)[: len(self) * self._width]

    def column(self, number: int) -> Sequence[int]:
        """Return the numbers of one column."""
        return self._numbers[number :: self._width]


class Recorder:
    """The record of events on the ranks of one shard; `Trace.of` merges the shards.

    The methods that fill `spans`, `departures`, `arrivals`, `waits` and `entries` describe their columns.
    """

    def __init__(self) -> None:
        self.spans = Rows(6)
        self.departures = Rows(12)
        self.arrivals = Rows(4)
        self.waits = Rows(7)
        self.entries = Rows(8)
        self.marks: list[tuple[int, int, str, str, int | None, str]] = []  # the values of each `Mark`
        self._texts: dict[str, int] = {}
        self._open: dict[int, tuple[str, int, str, list[int]]] = {}

    def texts(self) -> list[str]:
        """Return the texts by their numbers."""
        return list(self._texts)

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    # ---------------------------------------------------------------------------------------------------- calls

    def begin(self, rank: int, name: str, start_ps: int, place: str = "") -> None:
        """Open a span: a call by the rank at a source line; at most one is open per rank."""
        self._open[rank] = name, start_ps, place, []

    def end(self, rank: int, end_ps: int, detail: str = "", *, skip_if_instant: bool = False) -> None:
        """Close the open span of a rank; with `skip_if_instant`, discard it if it took none."""
        name, start_ps, place, entries = self._open.pop(rank)
        if end_ps == start_ps:  # the next call may begin at that time, too, and must not own these rows
            for row in entries:
                self.entries.set(row, 1, NEVER)
        if end_ps != start_ps or not skip_if_instant:
            self.spans.append(rank, self._text(name), start_ps, end_ps, self._text(detail), self._text(place))

    def close_open(self, rank: int, end_ps: int | None) -> None:
        """Close the open span, if any, of a rank that failed at that time, or was still in the call (None)."""
        if rank in self._open:
            self.end(rank, NEVER if end_ps is None else end_ps, "did not return")

    # ------------------------------------------------------------------------------------------------- messages

    def departed(
        self,
        number: int,
        *,
        source: int,
        dest: int,
        tag: int,
        size_bytes: int,
        communicator: int,
        collective: bool,
        call: str,
        kind: str,
        sent_ps: int,
        ticket: int = NEVER,
    ) -> None:
        """Record the departure of a message.

        `number` identifies it in the whole run, and `ticket` its reply.
        """
        texts = self._text(call), self._text(kind)
        entered_ps = self._call_ps(source, sent_ps)
        facts = number, source, dest, tag, size_bytes, communicator, collective, *texts, sent_ps
        self.departures.append(*facts, entered_ps, ticket)

    def arrived(self, number: int, arrival_ps: int | None) -> int:
        """Record the arrival of a message, with its data unless `arrival_ps` is None.

        Return its row.
        """
        self.arrivals.append(number, NEVER if arrival_ps is None else arrival_ps, NEVER, NEVER)
        return len(self.arrivals) - 1

    def data_arrived(self, arrival: int, arrival_ps: int) -> None:
        """Record the arrival of a message's data."""
        self.arrivals.set(arrival, 1, arrival_ps)

    def matched(self, arrival: int, taken_ps: int, posted_ps: int | None = None) -> None:
        """Record the match of a message with a receive posted at that time, or just now (None)."""
        self.arrivals.set(arrival, 2, taken_ps)
        self.arrivals.set(arrival, 3, taken_ps if posted_ps is None else posted_ps)

    # ---------------------------------------------------------------------------------------------------- waits

    def waited(
        self, rank: int, start_ps: int, end_ps: int, what: int, *, peer: int = NEVER, ticket: int = NEVER
    ) -> None:
        """Record a wait of a rank in its open call.

        For a vectorised collective only the difference of the times is meaningful. `what` is `FOR_MESSAGE`,
        `FOR_ANSWER`, `FOR_COLLECTIVE` or `FOR_OTHERS`. `peer` is the sender of the message, or the rank expected to
        reply. `ticket` is that of a send with a reply (see `departed`), or the row of a collective (see
        `continue_in_background`).
        """
        self.waits.append(rank, self._call_ps(rank, start_ps), start_ps, end_ps, what, peer, ticket)

    def entered(
        self, rank: int, enter_ps: int, communicator: int, number: int, pattern: int, root: int, me: int
    ) -> None:
        """Record that a rank enters a collective.

        `communicator` and `number` identify the collective; they are equal on all members. `pattern` says which ranks
        must have entered before a rank can leave: `ALL`, `FROM_ROOT`, `TO_ROOT` or `FROM_BELOW`. `root` and `me`, the
        rank itself, are ranks in the communicator.
        """
        call_ps = NEVER
        if rank in self._open:
            _, call_ps, _, entries = self._open[rank]
            entries.append(len(self.entries))
        self.entries.append(rank, call_ps, enter_ps, communicator, number, pattern, root, me)

    def continue_in_background(self, rank: int) -> int | None:
        """Record that the collective entered in a rank's open call continues after it.

        Return its row.
        """
        entries = self._open[rank][3] if rank in self._open else None
        if not entries:
            return None
        self.entries.set(entries[-1], 1, NEVER)
        return entries.pop()

    def _call_ps(self, rank: int, otherwise_ps: int) -> int:
        """Return when the open call of a rank began, or `otherwise_ps`."""
        return self._open[rank][1] if rank in self._open else otherwise_ps

    # ---------------------------------------------------------------------------------------------------- marks

    def mark(
        self, rank: int, time_ps: int, kind: str, text: str = "", *, dead: int | None = None, how: str = ""
    ) -> None:
        """Mark an instant of a rank: a failure, the detection of one, a checkpoint.

        A mark is recorded once, in the shard of its rank. `kind` is one word, such as ``failed``, ``learned``,
        ``revoked``, ``told``, ``aborted``, ``restart``, ``checkpoint``, and `text` one line for users. `dead` is the
        failed rank that the rank learns of, and `how` says how.
        """
        self.marks.append((rank, time_ps, kind, text, dead, how))
