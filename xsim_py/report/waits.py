"""Wait states of each rank in a trace: computing, transfer, waiting, and call overhead.

The wait states are those of Scalasca (Geimer, Wolf, Wylie, Abraham, Becker, Mohr: The Scalasca performance toolset
architecture, Concurrency and Computation 22(6), 2010): a receive entered before its send waits for a *late sender*, a
rendezvous send entered before its receive waits for a *late receiver*, and in a collective, ranks wait for those that
enter it last. Scalasca knows the begin and end of calls; here each wait within them is known, too, so the parts do not
overlap, and their sum is the rank's time to the picosecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from xsim_py.report.style import Look, add_legend, drawn, rank_step, tidy, time_scale
from xsim_py.report.table import Table, run_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from xsim_py.trace import Entrance, Span, Trace, Wait

    AnyRecord = TypeVar("AnyRecord", Wait, Entrance)

PARTS: Final = ("computing", "transfer", "late_sender", "late_receiver", "imbalance", "overhead", "other")
"""The parts of a rank's time, in the order of columns and bars."""

_COMPUTING, _TRANSFER, _LATE_SENDER, _LATE_RECEIVER, _IMBALANCE, _OVERHEAD, _OTHER = range(len(PARTS))
PART_COLOURS: Final = dict(
    zip(PARTS, ("#d0d0d0", "#0072B2", "#D55E00", "#E69F00", "#CC79A7", "#009E73", "#000000"), strict=True)
)
"""The colour of each part."""
_HATCHES: Final = {"late_sender": "////", "imbalance": "...."}  # next to parts with the same grey in print
PART_NAMES: Final = {name: name.replace("_", " ") for name in PARTS} | {
    "imbalance": "imbalance in collectives",
    "other": "calls that failed",
}
"""The name of each part in figures."""
_MOST_BARS: Final = 256
_MOST_BARS_APART: Final = 64
_LATE: Final = (_LATE_SENDER, _LATE_RECEIVER, _IMBALANCE, _TRANSFER)  # by the reason for a wait


def waits_table(trace: Trace, lives: Iterable[tuple[int, int, int]]) -> Table:
    """Return the table ``waits``: the seconds of each rank in each of `PARTS`, and ``total_s``.

    `lives` are lifetimes: rank, begin and end in picoseconds; several per rank after restarts of the job.
    """
    spans: dict[int, list[Span]] = {}
    for span in trace.spans:
        spans.setdefault(span.rank, []).append(span)
    waits, entries = _by_call(trace.waits), _by_call(trace.entries)
    rows: dict[int, list[int]] = {}
    for rank, start_ps, end_ps in lives:
        parts = rows.setdefault(rank, [0] * len(PARTS))
        inside_ps = 0
        for span in spans.get(rank, ()):
            stop_ps = end_ps if span.end_ps is None else min(span.end_ps, end_ps)
            if not start_ps <= span.start_ps < stop_ps:
                continue
            key = rank, span.start_ps
            inside_ps += stop_ps - span.start_ps
            for part, time_ps in _call_parts(span, stop_ps, waits.get(key, ()), entries.get(key, ())):
                parts[part] += time_ps
        parts[_COMPUTING] += end_ps - start_ps - inside_ps
    ordered = sorted(rows.items())
    columns: dict[str, list[int]] = {"rank": [rank for rank, _ in ordered]}
    columns |= {f"{name}_s": [parts[part] for _, parts in ordered] for part, name in enumerate(PARTS)}
    columns["total_s"] = [sum(parts) for _, parts in ordered]
    return run_table("waits", columns)


def _by_call(records: Iterable[AnyRecord]) -> dict[tuple[int, int], list[AnyRecord]]:
    calls: dict[tuple[int, int], list[AnyRecord]] = {}
    for record in records:
        calls.setdefault((record.rank, record.call_ps), []).append(record)
    return calls


def _call_parts(
    span: Span, stop_ps: int, waits: Sequence[Wait], entries: Sequence[Entrance]
) -> Iterator[tuple[int, int]]:
    """Divide the time of one call at the collectives in it, with the time before the first."""
    # A failed call has waited for the failure, which is not overhead.
    rest = _OTHER if span.detail else _OVERHEAD
    begins_ps = [span.start_ps, *(min(entry.enter_ps, stop_ps) for entry in entries)]
    for number, begin_ps in enumerate(begins_ps):
        last = number == len(entries)
        end_ps = stop_ps if last else begins_ps[number + 1]
        left_ps = end_ps - begin_ps
        shares = [0] * len(PARTS)
        if number:
            shares[_IMBALANCE] = min(entries[number - 1].late_ps, left_ps)
            left_ps -= shares[_IMBALANCE]
        here = [wait for wait in waits if begin_ps <= wait.start_ps and (last or wait.start_ps < end_ps)]
        if number:
            waited_ps = sum(wait.end_ps - wait.start_ps for wait in here)
            shares[_TRANSFER] = min(max(waited_ps - shares[_IMBALANCE], 0), left_ps)
            left_ps -= shares[_TRANSFER]
        else:
            for wait in here:
                late_ps = min(wait.late_ps, left_ps)
                on_way_ps = min(wait.end_ps - wait.start_ps - wait.late_ps, left_ps - late_ps)
                shares[_LATE[wait.what]] += late_ps
                shares[_TRANSFER] += on_way_ps
                left_ps -= late_ps + on_way_ps
        shares[rest] += left_ps
        yield from enumerate(shares)


def bars_of(table: Table) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, NDArray[np.float64]]]:
    """Return the bars for the table ``waits``: first rank, number of ranks, and parts of each.

    The parts, by their names in `PARTS`, are means in seconds over the ranks of each bar.
    """
    ranks = table["rank"]
    begins = np.arange(0, len(ranks), max(-(-len(ranks) // _MOST_BARS), 1))
    counts = np.diff(np.append(begins, len(ranks)))
    return begins, counts, {name: np.add.reduceat(np.array(table[f"{name}_s"]), begins) / counts for name in PARTS}


def draw_waits(table: Table, target: str | Path | None = None, *, title: str = "", look: Look | None = None) -> Figure:
    """Draw the table ``waits``: a bar for each rank, divided into the parts of its time.

    With more ranks than bars, a bar is the mean of several neighbours.
    """
    return drawn(lambda figure, look: _compose(table, figure, look, title), target, look, 7.2, 4.0)


def _compose(table: Table, figure: Figure, look: Look, title: str) -> None:
    from matplotlib.ticker import MultipleLocator

    ranks = table["rank"]
    begins, counts, parts_s = bars_of(table)
    scale, unit = time_scale(max(table["total_s"], default=0.0))
    axes = figure.subplots()
    below = np.zeros(len(begins))
    for name in PARTS:
        heights = parts_s[name] * scale
        if heights.any():
            axes.bar(
                begins + (counts - 1) / 2,
                heights,
                width=counts * (0.8 if len(begins) <= _MOST_BARS_APART else 1.0),
                bottom=below,
                color=PART_COLOURS[name],
                label=PART_NAMES[name],
                hatch=_HATCHES.get(name),
                edgecolor="white",
                linewidth=0,
            )
            below += heights
    axes.set_xlim(-0.6, len(ranks) - 0.4)
    axes.xaxis.set_major_locator(MultipleLocator(rank_step(len(ranks))))
    look.describe(axes, title=title, x="rank", y=f"virtual time [{unit}]")
    tidy(axes, grid="y")
    handles, _ = axes.get_legend_handles_labels()
    add_legend(figure, handles[::-1], look, least=1, long=1.5)
