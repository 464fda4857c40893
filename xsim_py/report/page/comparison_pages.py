"""HTML reports of comparisons of machines."""

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
from xsim_py.report.scaling import LABELS, against_fewest, scaling_table
from xsim_py.report.style import LINE_COLOURS, time_scale
from xsim_py.report.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from xsim_py.report.compare import Comparison

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
