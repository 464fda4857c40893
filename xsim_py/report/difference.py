"""The first difference between two runs of one program, in calls, messages and output.

Later differences may follow from the first in virtual time, so calls and messages of all ranks are compared in that
order. Different calls differ at their start; calls that differ only in their end differ there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.code_origin import shown
from xsim_py.units import format_size, format_time, ordinal

if TYPE_CHECKING:
    from xsim_py.report.result import Result
    from xsim_py.trace import Message, Span
    from xsim_py.trace.trace import Trace

_LABELLED = re.compile(r"\[(\d[^]]*)\] (.*)")  # of a traceback common to several ranks: ``[0-3] ...``
_MOST_SHOWN = 200


class TracedRun(NamedTuple):
    """A traced run, and the program's labelled output."""

    result: Result
    printed: Sequence[str]
    """The text of standard output and of standard error."""


class Difference(NamedTuple):
    """A difference between two runs: where it is, and the value in each of them."""

    where: str
    sides: tuple[str, str]


class _Candidate(NamedTuple):
    """A difference of one rank, and its time."""

    time_ps: int
    rank: int
    number: int
    pair: tuple[Any, Any]


def differences(one: TracedRun, other: TracedRun, *, start: str) -> list[Difference]:
    """Return the first differences in the ranks' actions, in their output, and in the endings.

    The list is empty if the runs agree. File names are relative to the directory `start`.
    """
    found = [*_first_event_difference(one.result, other.result, start), *_outputs(one.printed, other.printed)]
    ends = tuple(_ending(each.result) for each in (one, other))
    if ends[0] != ends[1]:
        found.append(Difference("the end of the run", (ends[0], ends[1])))
    if not found and one.result.digest != other.result.digest:
        found.append(Difference("the digest", (one.result.digest, other.result.digest)))
    return found


def _ending(result: Result) -> str:
    report = f": {result.report.splitlines()[0]}" if result.report else ""
    return f"{result.ended}, exit status {result.exit_status}, {result.virtual_time()}{report}"


# ------------------------------------------------------------------------------------------- calls and messages


def _first_event_difference(one: Result, other: Result, start: str) -> Iterator[Difference]:
    calls = [_by_rank(_traced(result).spans, "rank") for result in (one, other)]
    messages = [_by_rank(_traced(result).messages, "source") for result in (one, other)]
    candidates = [(found, False) for found in _candidates(calls, _when_called)]
    candidates += [(found, True) for found in _candidates(messages, _when_sent)]
    if not candidates:
        return
    (time_ps, rank, number, pair), is_message = min(candidates, key=lambda each: (each[0][:2], each[1]))
    when = f"at {format_time(time_ps, digits=None)}: rank {rank}, its {ordinal(number, ',')}"
    if is_message:
        sides = [
            _message(message, calls[side].get(rank, []), start) if message else "no such message"
            for side, message in enumerate(pair)
        ]
        yield Difference(f"{when} message", (sides[0], sides[1]))
    else:
        sides = [
            _call(span, messages[side].get(rank, []), start) if span else "no such call"
            for side, span in enumerate(pair)
        ]
        yield Difference(f"{when} call", (sides[0], sides[1]))


def _traced(result: Result) -> Trace:
    assert result.trace is not None
    return result.trace


def _by_rank(records: Iterable[Any], owner: str) -> dict[int, list[Any]]:
    """Return the records of each rank, in order."""
    key = attrgetter(owner)
    return {rank: list(group) for rank, group in groupby(sorted(records, key=key), key=key)}


def _candidates(sides: Sequence[dict[int, list[Any]]], when: Callable[..., int | None]) -> Iterator[_Candidate]:
    """Yield the first difference of each rank that has one."""
    for rank in sorted({*sides[0], *sides[1]}):
        pairs = zip_longest(sides[0].get(rank, ()), sides[1].get(rank, ()))
        for number, pair in enumerate(pairs, 1):
            time_ps = when(*pair)
            if time_ps is not None:
                yield _Candidate(time_ps, rank, number, pair)
                break


def _when_called(one: Span | None, other: Span | None) -> int | None:
    """Return the time at which two calls differ, or None if they are equal."""
    if one == other:
        return None
    if one is None or other is None or (one.name, one.place, one.start_ps) != (other.name, other.place, other.start_ps):
        return min(span.start_ps for span in (one, other) if span is not None)
    return min((span.end_ps for span in (one, other) if span.end_ps is not None), default=one.start_ps)


def _when_sent(one: Message | None, other: Message | None) -> int | None:
    """Return the time at which two messages differ; None if only their receivers do."""
    if one is not None and other is not None and _as_sent(one) == _as_sent(other):
        return None
    return min(message.sent_ps for message in (one, other) if message is not None)


def _as_sent(message: Message) -> Message:
    """Return the sender's part of a message."""
    return message._replace(arrival_ps=None, taken_ps=None, entered_ps=None, posted_ps=None)


def _call(span: Span, messages: list[Message], start: str) -> str:
    """Return a description of a call: its name, line, first message and end."""
    until_ps = span.end_ps if span.end_ps is not None else messages[-1].sent_ps if messages else span.start_ps
    sent = [message for message in messages if span.start_ps <= message.sent_ps <= until_ps and not message.collective]
    words = [f"{span.name} at {shown(span.place, start)}"]
    words += [f"sends {_addressed(message)}" for message in sent[:1]]
    if span.end_ps is None:
        words.append("does not return")
    else:
        words.append(f"{format_time(span.start_ps, digits=None)} to {format_time(span.end_ps, digits=None)}")
    return ", ".join([*words, *filter(None, [span.detail])])


def _message(message: Message, calls: list[Span], start: str) -> str:
    during = [span for span in calls if span.start_ps <= message.sent_ps]
    where = f", in {during[-1].name} at {shown(during[-1].place, start)}" if during else ""
    return f"{_addressed(message)} at {format_time(message.sent_ps, digits=None)}{where}"


def _addressed(message: Message) -> str:
    part = f", part of {message.call}" if message.call else f", tag {message.tag}"
    return f"{format_size(message.size_bytes)} to rank {message.dest}{part}"


# ------------------------------------------------------------------------------------------------------- output


def _outputs(one: Sequence[str], other: Sequence[str]) -> Iterator[Difference]:
    """Yield the first difference in standard output and error, of the lowest rank with one."""
    for stream, texts in zip(("prints", "writes to standard error"), zip(one, other, strict=True), strict=True):
        lines = [_lines(text) for text in texts]
        for rank in sorted({*lines[0], *lines[1]}, key=lambda ranks: (int(re.split("[-,]", ranks)[0]), ranks)):
            pairs = zip_longest(lines[0].get(rank, ()), lines[1].get(rank, ()))
            for number, (mine, yours) in enumerate(pairs, 1):
                if mine != yours:
                    yield Difference(
                        f"rank {rank}, line {number:,} of what it {stream}", (_quoted(mine), _quoted(yours))
                    )
                    return


def _lines(text: str) -> dict[str, list[str]]:
    """Return the lines of each rank, or of several with equal output, by their label."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        match = _LABELLED.fullmatch(line)
        if match:
            found.setdefault(match[1], []).append(match[2])
    return found


def _quoted(line: str | None) -> str:
    if line is None:
        return "no such line"
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]} ..."
