"""HTML reports of comparisons of recovery schemes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from xsim_py.report.phase_bars import PHASE_COLOURS
from xsim_py.report.style import time_scale
from xsim_py.study.recovery.comparison import RecoveryComparison, RecoveryRun, phase_bars
from xsim_py.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


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
    bars = phase_bars(runs)
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
