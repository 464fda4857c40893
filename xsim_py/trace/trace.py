"""The trace of a whole run, independent of the number of shards."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

from xsim_py.trace.recorder import FOR_ANSWER, FOR_COLLECTIVE, FOR_MESSAGE, FROM_BELOW, FROM_ROOT, NEVER, TO_ROOT

if TYPE_CHECKING:
    from xsim_py.trace.recorder import Recorder


class Span(NamedTuple):
    """A call by a rank of the program; outermost calls only."""

    rank: int
    name: str
    """As mpi4py spells it."""
    start_ps: int
    end_ps: int | None
    """When it returned, its rank failed, or the job was aborted; None if the rank is still in it."""
    detail: str
    """Empty, the error that it raised, or that it did not return."""
    place: str = ""
    """The source location of the call, ``file:line``; empty if unknown."""


class Message(NamedTuple):
    """One message; ranks are world ranks."""

    source: int
    dest: int
    tag: int
    """For a collective: its number on the communicator."""
    size_bytes: int
    communicator: int
    """Its number, which all members share; 2 is ``COMM_WORLD``."""
    collective: bool
    """True if the algorithm of a collective sent it, not a send call of the program."""
    call: str
    """The collective that it belongs to, if any; for a control message: ``detector``, ``revocation`` or ``ulfm``."""
    kind: str
    """``eager``, ``synchronous``, ``rendezvous``, or ``notice``: a control message, from library to library."""
    sent_ps: int
    """When it, or the envelope of a rendezvous, left the sender's NIC."""
    arrival_ps: int | None
    """When it had arrived completely; None if it, or the data of a rendezvous, never arrived."""
    taken_ps: int | None
    """When a receive matched it, which is when a rendezvous is answered; None if it was never received."""
    entered_ps: int | None = None
    """When its sender entered the sending call; in a vectorised collective, when it was sent."""
    posted_ps: int | None = None
    """When the matching receive was posted; in a vectorised collective, `taken_ps`; None if never received."""


class Wait(NamedTuple):
    """A time that a rank spent waiting in a call."""

    rank: int
    call_ps: int
    """When the call began."""
    start_ps: int
    end_ps: int
    late_ps: int
    """The part of it before the other side entered its call."""
    what: int
    """``FOR_MESSAGE`` (a late sender), ``FOR_ANSWER`` (a late receiver), ``FOR_COLLECTIVE`` or ``FOR_OTHERS``."""


class Entrance(NamedTuple):
    """A rank's entry into a collective."""

    rank: int
    call_ps: int
    """When the call began."""
    enter_ps: int
    late_ps: int
    """How much later the last rank that it depends on entered."""


class Mark(NamedTuple):
    """A marked instant of a rank."""

    rank: int
    time_ps: int
    kind: str
    text: str
    dead: int | None = None
    """The failed rank that this one has learned of; None for other kinds."""
    how: str = ""
    """How it has learned of that, such as ``detector`` or ``ftco``."""


R = TypeVar("R")


class Records(Sequence[R], Generic[R]):
    """A sequence of records stored as columns: eight bytes per number, with records made on demand."""

    def __init__(self, make: Callable[..., R], columns: dict[str, Sequence[Any]]) -> None:
        self._make = make  # makes a record from the values of its columns, in order
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[R]:
        return map(self._make, *self.columns.values())

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> list[R]: ...
    def __getitem__(self, index: int | slice) -> R | list[R]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        return self._make(*(column[index] for column in self.columns.values()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == yours for mine, yours in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"[{shown}{', ...' if len(self) > 3 else ''}] ({len(self):,} records)"


class Trace:
    """All recorded events of a run."""

    def __init__(
        self,
        spans: Sequence[Span],  # ordered by start time, then rank
        messages: Sequence[Message],  # ordered by send time
        marks: Sequence[Mark],  # ordered by time, then rank
        waits: Sequence[Wait] = (),  # ordered by time for each rank
        entries: Sequence[Entrance] = (),  # ordered by time for each rank
    ) -> None:
        self.spans = spans
        self.messages = messages
        self.marks = marks
        self.waits = waits
        self.entries = entries

    def __len__(self) -> int:
        return len(self.spans) + len(self.messages) + len(self.marks)

    def __repr__(self) -> str:
        return f"Trace({len(self.spans):,} calls, {len(self.messages):,} messages, {len(self.marks):,} marks)"

    @classmethod
    def of(cls, recorders: Iterable[Recorder]) -> Trace:
        """Merge the records of all shards of one start of a job."""
        parts = list(recorders)
        marks = [Mark(*mark) for part in parts for mark in part.marks]
        messages, tickets = _messages(parts)
        marks.sort(key=lambda mark: (mark.time_ps, mark.rank))
        entries, last = _entries(parts)
        return cls(_spans(parts), messages, marks, _waits(parts, messages, tickets, last), entries)

    @classmethod
    def joined(cls, traces: Sequence[Trace], starts_ps: Sequence[int]) -> Trace:
        """Concatenate the traces of a job's restarts, which share one clock, and mark the restarts."""
        if len(traces) == 1:
            return traces[0]
        spans = [span for trace in traces for span in trace.spans]
        messages = [message for trace in traces for message in trace.messages]
        marks = list(traces[0].marks)
        for number, (trace, start_ps) in enumerate(zip(traces[1:], starts_ps[1:], strict=True), 1):
            marks += [Mark(0, start_ps, "restart", f"start {number}"), *trace.marks]
        waits = [wait for trace in traces for wait in trace.waits]
        entries = [entry for trace in traces for entry in trace.entries]
        return cls(spans, messages, marks, waits, entries)

    def end_ps(self) -> int:
        """Return the last time of a call or mark.

        Messages do not count: they may arrive after the end of the job, as revocation notices to failed ranks do.
        """
        times = [mark.time_ps for mark in self.marks]
        times += [max(span.start_ps, span.end_ps or 0) for span in self.spans]
        return max(times, default=0)


def _make_span(rank: int, name: str, start_ps: int, end_ps: int, detail: str, place: str) -> Span:
    return Span(rank, name, start_ps, _known(end_ps), detail, place)


def _make_message(*values: Any) -> Message:
    message = Message(*values)
    arrival_ps, taken_ps, entered_ps, posted_ps = map(_known, values[-4:])
    return message._replace(
        collective=bool(message.collective),
        arrival_ps=arrival_ps,
        taken_ps=taken_ps,
        entered_ps=entered_ps,
        posted_ps=posted_ps,
    )


def _known(time_ps: int) -> int | None:
    return None if time_ps == NEVER else time_ps


def _spans(parts: list[Recorder]) -> Records[Span]:
    """Merge the calls. Those of a rank are in one part and ordered.

    The stable sort keeps that order.
    """
    rank, start_ps, end_ps = (_joined(part.spans.column(number) for part in parts) for number in (0, 2, 3))
    name, detail, place = (_texts((part.texts(), part.spans.column(number)) for part in parts) for number in (1, 4, 5))
    order = sorted(range(len(rank)), key=lambda row: (start_ps[row], rank[row]))
    columns: dict[str, Sequence[Any]] = {"rank": rank, "name": name, "start_ps": start_ps, "end_ps": end_ps}
    columns |= {"detail": detail, "place": place}
    return Records(_make_span, {key: _picked(column, order) for key, column in columns.items()})


def _messages(parts: list[Recorder]) -> tuple[Records[Message], Sequence[int]]:
    """Merge the senders' and receivers' records of each message, by its number.

    Also return their tickets.
    """
    raw = {
        key: _joined(part.departures.column(number) for part in parts)
        for number, key in enumerate(("number", "source", "dest", "tag", "size_bytes", "communicator", "collective"))
    }
    number = raw.pop("number")
    columns: dict[str, Sequence[Any]] = dict(raw)
    columns["call"] = _texts((part.texts(), part.departures.column(7)) for part in parts)
    columns["kind"] = _texts((part.texts(), part.departures.column(8)) for part in parts)
    columns["sent_ps"] = sent_ps = _joined(part.departures.column(9) for part in parts)
    by_number = {
        key: times
        for part in parts
        for key, *times in zip(*(part.arrivals.column(column) for column in range(4)), strict=True)
    }
    never = [NEVER, NEVER, NEVER]
    columns |= dict.fromkeys(("arrival_ps", "taken_ps", "entered_ps"), ())  # in this order
    columns["entered_ps"] = _joined(part.departures.column(10) for part in parts)
    for column, name in enumerate(("arrival_ps", "taken_ps", "posted_ps")):
        columns[name] = _packed([by_number.get(key, never)[column] for key in number])
    order = sorted(range(len(number)), key=lambda place: (sent_ps[place], number[place]))
    tickets = _picked(_joined(part.departures.column(11) for part in parts), order)
    return Records(_make_message, {key: _picked(column, order) for key, column in columns.items()}), tickets


def _waits(
    parts: list[Recorder], messages: Records[Message], tickets: Sequence[int], last: Mapping[tuple[int, int], int]
) -> list[Wait]:
    """Find the message of each wait, and the part of the wait before the other side entered its call."""
    known = messages.columns
    source, dest, arrival, entered, posted = (
        known[name] for name in ("source", "dest", "arrival_ps", "entered_ps", "posted_ps")
    )
    # A wait for a message ends with its arrival; waits of sends are identified by the ticket.
    came = {key: entered[row] for row, key in enumerate(zip(dest, source, arrival, strict=True))}
    answered = {key: posted[row] for row, key in enumerate(zip(source, tickets, strict=True)) if key[1] != NEVER}
    waits = []
    for number, part in enumerate(parts):
        for rank, call, start, end, what, peer, ticket in zip(*map(part.waits.column, range(7)), strict=True):
            other = start
            if what == FOR_MESSAGE:
                other = came.get((rank, peer, end), start)
            elif what == FOR_ANSWER:
                other = answered.get((rank, ticket), start)
            elif what == FOR_COLLECTIVE:
                other = last[number, ticket]
            waits.append(Wait(rank, call, start, end, min(max(other - start, 0), end - start), what))
    return waits


def _entries(parts: list[Recorder]) -> tuple[list[Entrance], dict[tuple[int, int], int]]:
    """Find how late the ranks that each entry depends on are, and the last entry time by part and row."""
    calls: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for number, part in enumerate(parts):
        for place, row in enumerate(zip(*map(part.entries.column, range(8)), strict=True)):
            calls.setdefault(row[3:5], []).append((*row, number, place))
    entries = []
    lasts: dict[tuple[int, int], int] = {}
    for members in calls.values():
        members.sort(key=lambda row: row[7])
        latest = max(row[2] for row in members)
        below = members[0][2]
        for rank, call, enter, _, _, pattern, root, me, *where in members:
            below = max(below, enter)
            last = latest
            if pattern == FROM_BELOW:
                last = below
            elif pattern == TO_ROOT:
                last = latest if me == root else enter
            elif pattern == FROM_ROOT:
                last = next((row[2] for row in members if row[7] == root), enter)
            lasts[where[0], where[1]] = last
            if call != NEVER:  # else it continues after the call, or the call took no time
                entries.append(Entrance(rank, call, enter, max(last - enter, 0)))
    return sorted(entries), lasts


def _joined(columns: Iterable[Sequence[int]]) -> Sequence[int]:
    return _packed([value for column in columns for value in column])


def _texts(columns: Iterable[tuple[list[str], Sequence[int]]]) -> list[str]:
    return [texts[number] for texts, column in columns for number in column]


def _picked(column: Sequence[Any], order: list[int]) -> Sequence[Any]:
    picked = [column[place] for place in order]
    return _packed(picked) if isinstance(column, array) else picked


def _packed(numbers: list[int]) -> Sequence[int]:
    try:
        return array("q", numbers)
    except OverflowError:
        return numbers
