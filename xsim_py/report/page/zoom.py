"""Packed trace data for the timeline script of an HTML report.

The script computes the colours of cells for each displayed range of time and ranks, so this contains events
rather than an image.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from xsim_py.code_origin import portable_name
from xsim_py.report.style import time_scale
from xsim_py.report.timeline import ACROSS, IN_ROW, WORK_COLOUR, call_colours, longest_calls
from xsim_py.units import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from xsim_py.trace import Mark, Span, Trace

MOST_SPANS: Final = 250_000
"""The maximum number of calls drawn: the longest ones."""
MOST_MESSAGES: Final = 50_000
"""Messages are drawn only if there are at most this many."""
MOST_MARKS: Final = 4_096
"""The maximum number of marks drawn per kind."""

_INK: Final = "#333333"


def timeline_data(trace: Trace, lives: Sequence[tuple[int, int, int]]) -> tuple[dict[str, Any], list[str]]:
    """Return the data of a timeline for the page's script, and sentences about omitted events.

    `lives` are lifetimes: rank, begin and end in picoseconds; several per rank after restarts of the job.
    """
    end_ps = max((end_ps for *_, end_ps in lives), default=0) or 1
    scale, unit = time_scale(end_ps / PS_PER_S)
    factor = scale / PS_PER_S
    spans, notes = _kept(trace.spans, end_ps)
    names = [span.name for span in spans]
    stops = [end_ps if span.end_ps is None else min(span.end_ps, end_ps) for span in spans]
    calls = longest_calls(
        names, np.array([stop - span.start_ps for span, stop in zip(spans, stops, strict=True)], float)
    )
    labels: dict[tuple[str, str, str], int] = {}
    label = [labels.setdefault((span.name, span.detail, span.place), len(labels)) for span in spans]
    number = {name: at for at, name in enumerate(calls)}
    messages = [each for each in trace.messages if each.arrival_ps is not None and each.source != each.dest]
    if len(messages) > MOST_MESSAGES:
        notes.append(f"The {len(messages):,} messages are too many to draw.")
        messages = []
    elif messages:
        notes.append("Messages are drawn if the visible range contains few of them and each rank has a row.")
    marks, across, more = _marks(trace.marks, factor)
    return {
        "unit": unit,
        "end": end_ps * factor,
        "ranks": max(rank for rank, *_ in lives) + 1,
        "calls": calls,
        "colours": call_colours(calls),
        "work": WORK_COLOUR,
        "labels": [[name, detail, portable_name(place)] for name, detail, place in labels],
        "kinds": [number.get(name, len(calls) - 1) for name, *_ in labels],
        "spans": {
            "rank": _packed([span.rank for span in spans], "<u4"),
            "label": _packed(label, "<u4"),
            "start": _packed([span.start_ps * factor for span in spans], "<f8"),
            "stop": _packed([stop * factor for stop in stops], "<f8"),
        },
        "lives": {
            "rank": _packed([rank for rank, *_ in lives], "<u4"),
            "start": _packed([start_ps * factor for _, start_ps, _ in lives], "<f8"),
            "stop": _packed([stop_ps * factor for *_, stop_ps in lives], "<f8"),
        },
        "messages": {
            "count": len(messages),
            "source": _packed([each.source for each in messages], "<u4"),
            "dest": _packed([each.dest for each in messages], "<u4"),
            "bytes": _packed([each.size_bytes for each in messages], "<f8"),
            "sent": _packed([each.sent_ps * factor for each in messages], "<f8"),
            "arrived": _packed([(each.arrival_ps or 0) * factor for each in messages], "<f8"),
        },
        "marks": marks,
        "across": across,
    }, notes + more


def _kept(spans: Iterable[Span], end_ps: int) -> tuple[list[Span], list[str]]:
    """Return the calls with a positive duration, or the longest, and sentences about the others."""
    wide = [span for span in spans if (end_ps if span.end_ps is None else span.end_ps) > span.start_ps]
    if len(wide) <= MOST_SPANS:
        return wide, []
    times = np.array([(end_ps if span.end_ps is None else span.end_ps) - span.start_ps for span in wide], float)
    order = np.argsort(-times, kind="stable")[:MOST_SPANS]
    share = times[order].sum() / times.sum()
    notes = (
        f"Only the {MOST_SPANS:,} longest of {len(wide):,} calls are drawn, {share:.1%} of the time in calls; the "
        "others look like own work. For all calls of a time range: xsim run --timeline FILE.png --view time=FROM:TO."
    )
    return [wide[row] for row in sorted(order.tolist())], [notes]


def _marks(marks: Iterable[Mark], factor: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """Return marks by kind, the lines across all rows, and sentences about omitted marks."""
    kinds: dict[str, list[Mark]] = {}
    for mark in marks:
        kinds.setdefault(mark.kind, []).append(mark)
    across = [
        {"at": mark.time_ps * factor, "colour": colour}
        for kind, colour in ACROSS.items()
        for mark in kinds.get(kind, ())[:MOST_MARKS]
    ]
    drawn = [
        {
            "kind": kind,
            "x": [mark.time_ps * factor for mark in alike[:MOST_MARKS]],
            "y": [mark.rank for mark in alike[:MOST_MARKS]],
            "text": [f"rank {mark.rank}: {kind}{mark.text and ', '}{mark.text}" for mark in alike[:MOST_MARKS]],
            **_look(kind),
        }
        for kind, alike in kinds.items()
    ]
    notes = [
        f"Of {len(alike):,} marks of the kind {kind!r} the first {MOST_MARKS:,} are drawn."
        for kind, alike in kinds.items()
        if len(alike) > MOST_MARKS
    ]
    return drawn, across, notes


def _look(kind: str) -> dict[str, Any]:
    if kind == "failed":
        return {"symbol": "x", "colour": "#000000", "size": 12, "line": "#ffffff", "width": 1.5}
    colour = IN_ROW.get(kind, ACROSS.get(kind, _INK))
    return {"symbol": "line-ns-open", "colour": colour, "size": 14, "line": colour, "width": 2.5}


def _packed(numbers: Sequence[float], kind: str) -> str:
    array: NDArray[Any] = np.array(numbers, kind)
    return b64encode(array.tobytes()).decode()
