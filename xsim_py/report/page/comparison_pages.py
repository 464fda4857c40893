"""HTML reports of comparisons: of machines, and of recovery schemes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xsim_py.report.chart import Chart, Series
from xsim_py.report.page.charts import chart_figure
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
from xsim_py.report.recovery import PHASE_COLOURS, PhaseBars
from xsim_py.report.scaling import LABELS, against_fewest, scaling_table
from xsim_py.report.style import LINE_COLOURS, time_scale
from xsim_py.report.table import Table
from xsim_py.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from xsim_py.report.compare import Comparison
    from xsim_py.report.recovery import RecoveryComparison, RecoveryRun

_COSTS_HERE = ("cpu_s", "wall_s", "peak_rss_bytes")
"""Columns that differ between equal runs, and are therefore not in any report."""


def without_costs(table: Table) -> Table:
    """Return a table without the columns for host cost."""
    kept = [
        name
        for name in table
        if name.removesuffix("_stderr").removesuffix("_min").removesuffix("_max") not in _COSTS_HERE
    ]
    columns = {name: table.picoseconds.get(name, table[name]) for name in kept}
    exact = [name for name in table.picoseconds if name in columns]
    units = {name: unit for name, unit in table.units.items() if name in columns}
    return Table(table.name, columns, units, exact=exact)


# --------------------------------------------------------------------------------------------------------- machines


def write_comparison_page(comparison: Comparison, target: str | Path, *, command: str = "") -> None:
    """Write an HTML report of one program on several machines and rank counts.

    The `command` reproduces the comparison.
    """
    machines = ", ".join(comparison.machines)
    page = HtmlPage(f"{comparison.title}: a comparison".strip(": "), f"on {machines}")
    page.add("Summary", *_compared(comparison), data_table(without_costs(comparison.table()), whole=True))
    page.add("Virtual time", *_bars(page, comparison))
    if len(comparison.sizes) > 1:
        page.add("Speed-up and parallel efficiency", *scaling_parts(page, time_lines(comparison)))
    results = list(comparison.results.values())
    facts = {"command": command, "seed": str(results[0].seed), "version": f"xsim_py {results[0].version}"}
    described = {
        machine: next(result for (name, _), result in comparison.results.items() if name == machine)
        for machine in comparison.machines
    }
    descriptions = [
        folded(f"the description of {result.machine}", verbatim(result.origin["machine"]))
        for result in described.values()
        if "machine" in result.origin
    ]
    digests = "The table above has the digest of each run; the same input and version reproduce it."
    page.add("Reproduce the runs", facts_table(facts), *descriptions, note(digests))
    page.write(target)


def _compared(comparison: Comparison) -> Iterator[str]:
    most = comparison.sizes[-1]
    there = [machine for machine in comparison.machines if (machine, most) in comparison.results]
    times = {machine: comparison.results[machine, most] for machine in there}
    fastest = min(times, key=lambda machine: times[machine].virtual_time_ps)
    yield cards({f"fastest with {most:,} ranks": fastest, "its virtual time": times[fastest].virtual_time()})
    for (machine, ranks), result in comparison.results.items():
        for said in result.warnings:
            yield warning(f"{machine}, {ranks:,} ranks: {said}")
        yield verbatim(result.report and f"{machine}, {ranks:,} ranks: {result.report}")


def time_lines(comparison: Comparison) -> list[Series]:
    """Return the virtual times of each machine over rank counts, in seconds."""
    lines = []
    for number, machine in enumerate(comparison.machines):
        sizes = [ranks for ranks in comparison.sizes if (machine, ranks) in comparison.results]
        times = [comparison.results[machine, ranks].virtual_time_s for ranks in sizes]
        lines.append(Series(machine, sizes, times, [0.0] * len(sizes), number, 0))
    return lines


def _bars(page: HtmlPage, comparison: Comparison) -> Iterator[str]:
    lines = time_lines(comparison)
    scale, unit = time_scale(max(time_s for line in lines for time_s in line.y))
    bars = [
        {
            "type": "bar",
            "name": plain_text(line.label),
            "x": [f"{ranks:,} rank{'s' * (ranks > 1)}" for ranks in line.x],
            "y": [time_s * scale for time_s in line.y],
            "marker": {"color": LINE_COLOURS[line.colour % len(LINE_COLOURS)]},
            "hovertemplate": f"%{{x}}: %{{y:.6~g}} {unit}<extra>%{{fullData.name}}</extra>",
        }
        for line in lines
    ]
    layout: dict[str, Any] = {"barmode": "group", "xaxis": {"type": "category", "showgrid": False}, "showlegend": True}
    yield page.figure(new_figure(bars, x="", y=f"virtual time [{unit}]", **layout))


def scaling_parts(page: HtmlPage, lines: list[Series]) -> Iterator[str]:
    """Yield speed-up and parallel efficiency for times over rank counts, as figures and tables."""
    for show in ("speedup", "efficiency"):
        scaled = against_fewest(lines, show)
        if not scaled:
            yield note("If a time is 0, the speed-up is undefined.")
            return
        x_scale, y_scale = "log2", "log2" if show == "speedup" else "linear"
        chart = Chart(title="", x_label="ranks", y_label=LABELS[show], lines=scaled, x_scale=x_scale, y_scale=y_scale)
        yield subheading(LABELS[show])
        yield page.figure(chart_figure(chart))
        yield folded("as a table", data_table(scaling_table(scaled, show)))
    yield note("Against the fewest ranks of each line, q: speed-up is q T(q) / T(p), efficiency the same divided by p.")


# --------------------------------------------------------------------------------------------------------- recovery


def write_recovery_page(
    comparison: RecoveryComparison, target: str | Path, *, facts: Mapping[str, str], descriptions: Mapping[str, str]
) -> None:
    """Write an HTML report that compares recovery schemes.

    The `facts` tell how to reproduce it, such as the command and the seed; `descriptions` are the machines as YAML.
    """
    page = HtmlPage(f"{comparison.title}: recovery schemes".strip(": "), ", ".join(comparison.schemes))
    page.add("Summary", *_recovered(comparison))
    for machine, ranks in dict.fromkeys(run.case[:2] for run in comparison.runs):
        runs = [run for run in comparison.runs if run.case[:2] == (machine, ranks) and run.phases is not None]
        if runs:
            page.add(f"Phases on {machine}, {ranks:,} ranks", *_phases(page, runs))
    codes = dict.fromkeys(run.case.failures for run in comparison.runs)
    charts = [chart for chart in map(comparison.chart, codes) if any(len(line.x) > 1 for line in chart.lines)]
    over = [part for chart in charts for part in (subheading(chart.title), page.figure(chart_figure(chart)))]
    page.add("By rank count", *over)
    tables = [part for name in comparison.schemes for part in (subheading(name), data_table(comparison.shown(name)))]
    page.add("Scheme by scheme", *tables, folded("all phases of all runs", data_table(comparison.table())))
    digests = "The table of all runs has the digest of each run; the same input and version reproduce it."
    described = [folded(f"the description of {name}", verbatim(text)) for name, text in descriptions.items()]
    page.add("Reproduce the runs", facts_table(facts), *described, note(digests))
    page.write(target)


def _recovered(comparison: RecoveryComparison) -> Iterator[str]:
    bad = [run for run in comparison.runs if not run.is_good and not run.is_clean_loss]
    yield cards(
        {"runs": f"{len(comparison.runs):,}", "schemes": f"{len(comparison.schemes):,}", "failed": f"{len(bad):,}"}
    )
    for run in bad:
        yield warning(f"failed: {run.case}: {run.ended}, exit status {run.exit_status}")
        yield verbatim(run.said)
    for run in comparison.runs:
        if run.is_clean_loss:
            yield warning(f"data lost: {run.case}: {run.data_lost}")
    if len(comparison.schemes) > 1:
        yield subheading("time lost" if comparison.is_whole else "recovery, without detection")
        yield data_table(comparison.side_by_side(), whole=True)


def _phases(page: HtmlPage, runs: list[RecoveryRun]) -> Iterator[str]:
    """Yield a bar for each run, divided into its phases; very long phases are not to scale."""
    bars = PhaseBars(runs)
    pieces = list(bars.pieces())
    rows = [f"{run.case.failures}: {run.case.scheme}" for run in runs]
    scale, unit = time_scale(bars.width_ps / 1e12)
    traces = []
    for name, colour in PHASE_COLOURS.items():
        mine = [piece for piece in pieces if piece.phase.name == name]
        if mine:
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": name,
                    "y": [plain_text(rows[piece.row]) for piece in mine],
                    "base": [piece.left_ps * scale / 1e12 for piece in mine],
                    "x": [piece.width_ps * scale / 1e12 for piece in mine],
                    "marker": {
                        "color": colour,
                        "pattern": {
                            "shape": ["/" if piece.is_long else "" for piece in mine],
                            "fgcolor": "#777777",
                            "bgcolor": colour,
                        },
                        "line": {"color": "#ffffff", "width": 1},
                    },
                    "customdata": [format_time(piece.phase.time_ps, digits=None) for piece in mine],
                    "hovertemplate": f"%{{y}}<br>{name}: %{{customdata}}<extra></extra>",
                }
            )
    long = any(piece.is_long for piece in pieces)
    yield note(
        "Hatched phases are far longer than the others and not to scale; point at one for its time." if long else ""
    )
    layout: dict[str, Any] = {"barmode": "overlay", "yaxis": {"autorange": "reversed", "type": "category", "ticks": ""}}
    layout["yaxis"] |= {"categoryorder": "array", "categoryarray": [plain_text(row) for row in rows], "showgrid": False}
    axis = f"virtual time [{unit}]" + (", except hatched phases" if long else "")
    yield page.figure(new_figure(traces, x=axis, y="", height=150 + 26 * len(rows), **layout))
