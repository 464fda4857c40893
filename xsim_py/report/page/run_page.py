"""The HTML report of one run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from xsim_py.report.page.document import (
    HtmlPage,
    cards,
    data_table,
    facts_table,
    folded,
    new_figure,
    note,
    plain_text,
    subheading,
    verbatim,
    warning,
)
from xsim_py.report.page.zoom import timeline_data
from xsim_py.report.pairs import matrix
from xsim_py.report.style import LINE_COLOURS, time_scale
from xsim_py.report.table import Table
from xsim_py.report.waits import PART_COLOURS, PART_NAMES, PARTS, bars_of
from xsim_py.units import PS_PER_S, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xsim_py.report.result import Result

MOST_CELLS: Final = 256
"""The maximum number of rows of a matrix: with more ranks a row is the sum of several neighbours."""

_MOST_CARRIED: Final = 4_096  # failure notices in the figure
_MOST_LINKS: Final = 40
_SYMBOLS: Final = ("circle", "diamond", "square", "triangle-up", "star", "pentagon")
_WAITS: Final = (
    "computing: between MPI calls. Late sender: in a receive, until the sender entered its call. Late receiver: in a "
    "rendezvous send, until the receive was posted. Imbalance: in a collective, until the last one has "
    "entered it. Transfer: other waiting. Overhead: the rest of calls."
)


def write_run_page(result: Result, target: str | Path) -> None:
    """Write an HTML report of a run; with a trace, it has a timeline.

    It contains no host cost, so reports of equal runs are equal byte for byte.
    """
    name = PurePath(result.program or "program").name
    page = HtmlPage(f"{name}: {result.ranks:,} rank{'s' * (result.ranks > 1)}", result.machine)
    page.add("Summary", *_summary(result))
    page.add("Timeline", *_timeline(page, result))
    page.add("Time by activity", *_waits(page, result))
    page.add("Communication matrix", *_pairs(page, result))
    page.add("Load of links", *_links(page, result))
    page.add("Failures", *_failures(page, result))
    page.add("Tables", *_tables(result))
    page.add("Reproduce the run", *_repeat(result))
    page.write(target)


def _summary(result: Result) -> Iterator[str]:
    ends = {name: format_time(round(end_s * PS_PER_S)) for name, end_s in result.ranks_end_s.items()}
    names = {"min": "first rank ended", "mean": "ranks ended on average"} if result.ranks > 1 else {}
    facts = {
        "virtual time": result.virtual_time(),
        **{said: ends[name] for name, said in names.items() if name in ends},
        "ended": f"{result.ended}, exit status {result.exit_status}",
        "ranks": f"{result.ranks:,}",
        "messages": f"{result.messages:,}",
        "bytes in messages": format_size(result.bytes),
        "events": f"{result.events:,}",
    }
    if result.failures:
        facts["failures"] = f"{len(result.failures):,}"
    if result.restarts:
        facts["restarts"] = f"{result.restarts:,}"
    yield cards(facts)
    for said in result.warnings:
        yield warning(said)
    yield verbatim(result.report)
    if result.is_checked:
        found = sum(finding.is_mistake for finding in result.findings)
        yield note(f"MPI usage errors found by the checks: {found:,}.")
        for finding in result.findings:
            yield verbatim(finding.report())


def _timeline(page: HtmlPage, result: Result) -> Iterator[str]:
    if result.trace is None:
        yield note("The run was not traced, or its trace was not kept: xsim run --report FILE.html has a timeline.")
        return
    data, notes = timeline_data(result.trace, result.lives())
    yield note(
        "Draw a rectangle to zoom in on time and ranks, double-click to reset. With more than 256 visible ranks, a row "
        "represents several. Calls of zero duration have no width."
    )
    yield page.figure(data, "timeline")
    yield from map(note, notes)


def _waits(page: HtmlPage, result: Result) -> Iterator[str]:
    table = result.tables.get("waits")
    if table is None or not len(table):
        yield note("The time by activity needs a traced run: add --report, --waits, --timeline or --trace.")
        return
    begins, counts, parts_s = bars_of(table)
    scale, unit = time_scale(max(table["total_s"], default=0.0))
    names = [
        f"rank {first}" if count == 1 else f"mean of ranks {first} to {first + count - 1}"
        for first, count in zip(begins.tolist(), counts.tolist(), strict=True)
    ]
    middles = (begins + (counts - 1) / 2).tolist()
    bars = [
        {
            "type": "bar",
            "name": PART_NAMES[part],
            "x": middles,
            "y": (parts_s[part] * scale).tolist(),
            "width": counts.tolist() if len(counts) > 64 else (0.8 * counts).tolist(),
            "marker": {"color": PART_COLOURS[part], "line": {"width": 0}},
            "customdata": names,
            "hovertemplate": f"%{{customdata}}<br>{PART_NAMES[part]}: %{{y:.6~g}} {unit}<extra></extra>",
        }
        for part in PARTS
        if parts_s[part].any()
    ]
    yield note(_WAITS + ("" if max(counts) == 1 else " A bar is the mean of several neighbours."))
    layout: dict[str, Any] = {"barmode": "stack", "bargap": 0, "xaxis": {"tickformat": "d", "showgrid": False}}
    layout["legend"] = {"traceorder": "reversed", "x": 1.01, "y": 1}
    yield page.figure(new_figure(bars, x="rank", y=f"virtual time [{unit}]", **layout))
    whole = sum(sum(table[f"{part}_s"]) for part in PARTS) or 1.0
    shares = Table(
        "shares",
        {
            "part": [PART_NAMES[part] for part in PARTS],
            "all ranks together_s": [sum(table[f"{part}_s"]) for part in PARTS],
            "share [%]": [round(100 * sum(table[f"{part}_s"]) / whole, 3) for part in PARTS],
            "most of one rank_s": [max(table[f"{part}_s"]) for part in PARTS],
        },
        dict.fromkeys(("all ranks together_s", "most of one rank_s"), "s"),
    )
    yield data_table(shares)
    yield folded(f"rank by rank: {len(table):,} rows", data_table(table, by="total_s"))


# --------------------------------------------------------------------------------------------------------- matrices


def _pairs(page: HtmlPage, result: Result) -> Iterator[str]:
    table = _pairs_table(result)
    if table is None:
        if result.messages:
            yield note("Pairs of ranks are counted in runs of up to 1,024 ranks, or where a run is traced.")
        return
    node_of = result.tables["ranks"]["node"]
    ways: list[tuple[str, Sequence[int]]] = [("rank", range(len(node_of)))]
    if 1 < len(set(node_of)) < len(node_of):  # otherwise nodes add no information
        ways.append(("node", node_of))
    data = [_matrix(table, of, what, places) for of, places in ways for what in ("bytes", "messages")]
    wide = max(one["each"] for one in data)
    summed = f" A cell is the sum over {wide:,} times {wide:,} neighbours." if wide > 1 else ""
    yield note(
        "White: none. If the largest value exceeds a hundred times the smallest, the colour scale is logarithmic."
        + summed
    )
    yield page.figure(data, "matrix")
    yield folded(f"pair by pair: {len(table):,} rows", data_table(table, by="bytes"))


def _pairs_table(result: Result) -> Table | None:
    """Return the table of messages per pair of ranks: as counted, or from the trace."""
    table = result.tables.get("pairs")
    if table is not None and len(table):
        return table
    sums: dict[tuple[int, int], list[int]] = {}
    for message in () if result.trace is None else result.trace.messages:
        if message.kind != "notice":
            row = sums.setdefault((message.source, message.dest), [0, 0])
            row[0] += 1
            row[1] += message.size_bytes
    if not sums:
        return None
    rows = [(*pair, *row) for pair, row in sorted(sums.items())]
    columns = zip(("source", "dest", "messages", "bytes"), zip(*rows, strict=True), strict=True)
    return Table("pairs", dict(columns), {"bytes": "B"})


def _matrix(table: Table, of: str, what: str, places: Sequence[int]) -> dict[str, Any]:
    """Return a matrix for the page's script: its non-zero cells."""
    size = max(places) + 1
    each = -(-size // MOST_CELLS)
    sums = matrix(table, ranks=len(places), of=what, node_of=[place // each for place in places])
    rows, columns = np.nonzero(sums)
    cells = zip(rows.tolist(), columns.tolist(), sums[rows, columns].tolist(), strict=True)
    data = {"title": f"{what} between {of}s", "what": what, "of": of, "size": size, "each": each}
    return {**data, "cells": list(map(list, cells))}


def _links(page: HtmlPage, result: Result) -> Iterator[str]:
    """Yield the load of links, if counted: a table `links` with columns `link` and `bytes`."""
    table = result.tables.get("links")
    if table is None or not len(table):
        return
    order = sorted(range(len(table)), key=lambda row: -table["bytes"][row])[:_MOST_LINKS]
    names = [plain_text(str(table["link"][row])) for row in order]
    bars = {
        "type": "bar",
        "x": names,
        "y": [table["bytes"][row] for row in order],
        "marker": {"color": LINE_COLOURS[0]},
    }
    yield note(f"The {len(order):,} links with the most bytes, of {len(table):,}.")
    yield page.figure(new_figure([bars], x="link", y="bytes [B]", xaxis={"type": "category", "showgrid": False}))
    yield data_table(table, by="bytes")


# --------------------------------------------------------------------------------------------------------- failures


def _failures(page: HtmlPage, result: Result) -> Iterator[str]:
    failures, learned = result.tables.get("failures"), result.tables.get("learned")
    if failures is None or not len(failures):
        return
    yield data_table(failures)
    if learned is not None and len(learned):
        yield subheading("Failure notices")
        yield page.figure(_learned_figure(failures, learned))
        if len(learned) > _MOST_CARRIED:
            yield note(f"Every {-(-len(learned) // _MOST_CARRIED)}th of {len(learned):,} is drawn.")
        ways = Counter(learned["how"])
        yield note("How: " + ", ".join(f"{how} {count:,}" for how, count in sorted(ways.items())) + ".")
        yield folded(f"rank by rank: {len(learned):,} rows", data_table(learned))


def _learned_figure(failures: Table, learned: Table) -> dict[str, Any]:
    """Return a figure of the number of notified ranks over the time since each failure."""
    died_ps = dict(
        zip(zip(failures["start"], failures["rank"], strict=True), failures.picoseconds["time_s"], strict=True)
    )
    step = -(-len(learned) // _MOST_CARRIED)
    since = [
        (start, failed, rank, time_ps - died_ps.get((start, failed), time_ps), how)
        for start, failed, rank, time_ps, how in zip(
            *(learned[name] for name in ("start", "failed", "rank")),
            learned.picoseconds["time_s"],
            learned["how"],
            strict=True,
        )
    ][::step]
    scale, unit = time_scale(max(row[3] for row in since) / PS_PER_S)
    ways = sorted(set(learned["how"]))
    keys = list(dict.fromkeys((start, failed, how) for start, failed, _, _, how in since))
    order = list(dict.fromkeys(key[:2] for key in keys))
    traces = []
    for start, failed, how in keys:
        rows = [row for row in since if (row[0], row[1], row[4]) == (start, failed, how)]
        again = f", start {start}" if max(failures["start"]) else ""
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": plain_text(f"rank {failed}{again}, by {how}"),
                "x": [row[3] * scale / PS_PER_S for row in rows],
                "y": [row[2] for row in rows],
                "marker": {
                    "color": LINE_COLOURS[order.index((start, failed)) % len(LINE_COLOURS)],
                    "symbol": _SYMBOLS[ways.index(how) % len(_SYMBOLS)],
                    "size": 8,
                },
                "text": [f"rank {row[2]} learnt after {format_time(row[3], digits=None)}" for row in rows],
                "hovertemplate": "%{text}<extra>%{fullData.name}</extra>",
            }
        )
    layout: dict[str, Any] = {"xaxis": {"rangemode": "tozero"}, "yaxis": {"tickformat": "d"}, "showlegend": True}
    layout["legend"] = {"title": {"text": "failure of"}, "x": 1.01, "y": 1}
    return new_figure(traces, x=f"virtual time since the failure [{unit}]", y="notified rank", **layout)


# ------------------------------------------------------------------------------------------ tables, and reproduction


def _tables(result: Result) -> Iterator[str]:
    yield note("Click on a heading to sort.")
    for name in ("ranks", "collectives", "starts", "worlds", "storage"):
        table = result.tables.get(name)
        if table is not None and len(table) > (name == "starts"):
            yield folded(f"{name}: {len(table):,} rows", data_table(table))


def _repeat(result: Result) -> Iterator[str]:
    """Yield the data needed to reproduce the run, and to verify that it is the same."""
    origin = result.origin
    yield facts_table(
        {
            "command": origin.get("command", ""),
            "program": result.program,
            "machine": result.machine,
            "ranks": f"{result.ranks:,}",
            "seed": str(result.seed),
            "version": f"xsim_py {result.version}",
            "simulated in": f"{result.shards} shard{'s' * (result.shards > 1)}, isolation {result.isolation}",
            "fingerprint of the machine": result.config_hash,
            "digest of the run": result.digest,
        }
    )
    if "machine" in origin:
        yield folded("the description of the machine, with the entries that were set", verbatim(origin["machine"]))
    same = "program, machine, number of ranks, seed and version"
    yield note(f"The same {same} reproduce the digest, for any number of shards.")
