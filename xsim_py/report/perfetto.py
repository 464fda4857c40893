"""A trace as a file for ui.perfetto.dev: the Chrome trace event format, in JSON.

A node of the machine is a process there and a rank a thread; a call is a complete event (X), a message a flow from the
call that sent it to the call that took it (s, f), a mark an instant (i). Times are microseconds with six decimals:
files are exact to the picosecond, though Perfetto itself rounds to nanoseconds.

Perfetto attaches a flow to the call that covers its end, and drops it if there is none. So the ends are moved into the
nearest call of the rank, and a call that took no time is drawn a nanosecond long if there is room; the exact times are
in the arguments. Process and thread 0 are special to Perfetto, hence all numbers are one higher.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from xsim_py.atomic_files import atomic_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xsim_py.trace import Message, Span, Trace

MOST_EVENTS = 1_000_000
"""The maximum number of events per file; Perfetto takes minutes for more."""

_NS_PS = 1000
_US_PS = 1_000_000


def write_perfetto(
    trace: Trace,
    target: str | Path | IO[str],
    *,
    nodes: Sequence[int],
    end_ps: int = 0,
    facts: Mapping[str, Any] | None = None,
    most_events: int = MOST_EVENTS,
) -> int:
    """Write a trace for Perfetto; return the number of omitted calls, messages and marks.

    `nodes` has the node of each rank. The run ended at `end_ps`, by default the end of the last call. `facts` are
    additional metadata. `most_events` limits calls, messages and marks; events at the time of the last one are all
    written.
    """
    horizon_ps = _horizon_ps(trace, most_events)
    export = _Export(trace, nodes, horizon_ps, end_ps or trace.end_ps())
    head = {"displayTimeUnit": "ns", "otherData": {key: str(value) for key, value in (facts or {}).items()}}
    with atomic_file(target) as file:
        file.write(f'{json.dumps(head)[:-1]}, "traceEvents": [')
        separator = "\n"
        for event in export.events():
            file.write(separator + event)
            separator = ",\n"
        file.write("\n]}\n")
    return len(trace) - export.written


def _horizon_ps(trace: Trace, most_events: int) -> int | None:
    """Return the time of the last event to write; None if all are."""
    if len(trace) <= most_events:
        return None
    times = [span.start_ps for span in trace.spans]
    times += [message.sent_ps for message in trace.messages]
    times += [mark.time_ps for mark in trace.marks]
    return sorted(times)[most_events - 1]


class _Calls(NamedTuple):
    """The begin and the displayed end of each call of a rank, in order."""

    starts: list[int]
    ends: list[int]

    def send_time(self, time_ps: int) -> int | None:
        """Return a send time, moved into the last call that had begun by then."""
        place = bisect_right(self.starts, time_ps) - 1
        return None if place < 0 else self._inside(place, time_ps)

    def receive_time(self, time_ps: int) -> int | None:
        """Return a receive time, moved into the first call that had not ended by then."""
        place = bisect_left(self.ends, time_ps)
        return None if place == len(self.ends) else self._inside(place, time_ps)

    def _inside(self, place: int, time_ps: int) -> int:
        start_ps = self.starts[place]
        return max(start_ps, min(time_ps, self.ends[place] - _NS_PS))


class _Export:
    def __init__(self, trace: Trace, nodes: Sequence[int], horizon_ps: int | None, end_ps: int) -> None:
        self._trace = trace
        self._nodes = nodes
        self._horizon_ps = horizon_ps
        self._calls = _calls(trace, end_ps)
        self.written = 0

    def _early(self, time_ps: int) -> bool:
        early = self._horizon_ps is None or time_ps <= self._horizon_ps
        self.written += early
        return early

    def _place(self, rank: int) -> str:
        return f'"pid":{self._nodes[rank] + 1},"tid":{rank + 1}'

    def events(self) -> Iterator[str]:
        """Yield every event, as JSON."""
        yield from self._names()
        places = dict.fromkeys(self._calls, 0)
        for span in self._trace.spans:
            calls = self._calls[span.rank]
            place = places[span.rank]
            places[span.rank] += 1
            if self._early(span.start_ps):
                yield self._span(span, calls.ends[place])
        for number, message in enumerate(self._trace.messages):
            if self._early(message.sent_ps):
                yield from self._flow(number, message)
        for mark in self._trace.marks:
            if self._early(mark.time_ps):
                what = {"name": mark.kind, "cat": "mark", "args": {"text": mark.text}}
                yield self._event("i", mark.rank, mark.time_ps, what, '"s":"t"')

    def _names(self) -> Iterator[str]:
        for node in sorted(set(self._nodes)):
            yield from _named("process", f'"pid":{node + 1}', f"node {node}", node)
        for rank in range(len(self._nodes)):
            yield from _named("thread", self._place(rank), f"rank {rank}", rank)

    def _event(self, phase: str, rank: int, time_ps: int, what: dict[str, Any], *more: str) -> str:
        described = json.dumps(what, separators=(",", ":"))[1:-1]
        parts = (f'"ph":"{phase}"', self._place(rank), f'"ts":{_us(time_ps)}', described, *more)
        return f"{{{','.join(parts)}}}"

    def _span(self, span: Span, end_ps: int) -> str:
        what: dict[str, Any] = {"name": span.name, "cat": "call"}
        if span.detail:
            what["args"] = {"detail": span.detail}
        return self._event("X", span.rank, span.start_ps, what, f'"dur":{_us(end_ps - span.start_ps)}')

    def _flow(self, number: int, message: Message) -> Iterator[str]:
        """Yield the arrow of a message that was received."""
        if message.taken_ps is None or message.arrival_ps is None:
            return
        start_ps = self._calls[message.source].send_time(message.sent_ps) if message.source in self._calls else None
        end_ps = None
        if message.dest in self._calls:
            end_ps = self._calls[message.dest].receive_time(max(message.arrival_ps, message.taken_ps))
        if start_ps is None or end_ps is None:
            return
        what = {"name": message.call or "message", "cat": "message", "id": number}
        details = {
            "bytes": message.size_bytes,
            "tag": message.tag,
            "kind": message.kind,
            "sent": f"{_us(message.sent_ps)} us",
            "arrived": f"{_us(message.arrival_ps)} us",
            "taken": f"{_us(message.taken_ps)} us",
        }
        yield self._event("s", message.source, start_ps, {**what, "args": details})
        yield self._event("f", message.dest, end_ps, what, '"bp":"e"')


def _calls(trace: Trace, last_ps: int) -> dict[int, _Calls]:
    """Return the calls of each rank that made any, at least 1 ns long if there is room."""
    calls: dict[int, _Calls] = {}
    for span in trace.spans:
        mine = calls.setdefault(span.rank, _Calls([], []))
        if mine.ends:
            mine.ends[-1] = min(mine.ends[-1], max(span.start_ps, mine.starts[-1]))
        mine.starts.append(span.start_ps)
        end_ps = last_ps if span.end_ps is None else span.end_ps
        mine.ends.append(max(end_ps, span.start_ps + _NS_PS))
    return calls


def _named(what: str, place: str, name: str, order: int) -> Iterator[str]:
    yield f'{{"ph":"M",{place},"name":"{what}_name","args":{{"name":"{name}"}}}}'
    yield f'{{"ph":"M",{place},"name":"{what}_sort_index","args":{{"sort_index":{order}}}}}'


def _us(time_ps: int) -> str:
    """Return a time in microseconds, exactly."""
    return f"{time_ps // _US_PS}.{time_ps % _US_PS:06d}"
