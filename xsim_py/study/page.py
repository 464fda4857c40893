"""HTML reports of studies: tables, zoomable figures, speed-up, and the description."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from xsim_py import __version__
from xsim_py.code_origin import portable_name
from xsim_py.config import description_text
from xsim_py.config.document import yaml_text
from xsim_py.report.page.charts import chart_figure
from xsim_py.report.page.comparison_pages import without_costs
from xsim_py.report.page.document import (
    HtmlPage,
    cards,
    check_page,
    data_table,
    facts_table,
    folded,
    note,
    subheading,
    verbatim,
    warning,
)
from xsim_py.report.scaling import scaling_table
from xsim_py.study.description import PlotSpec
from xsim_py.study.results import StudyResults


def write_study_page(results: StudyResults, target: str | Path, *, command: str = "") -> None:
    """Write the HTML report of a study.

    It omits the runs' costs on this host: the report of the same study is identical byte for byte.
    """
    check_page(target)
    spec = results.spec
    page = HtmlPage(f"Study {spec.name}", spec.description)
    page.add("Summary", *_summary(results))
    page.add("Pictures", *_pictures(page, results))
    page.add("Speed-up and parallel efficiency", *_scaling(page, results))
    means, runs = (without_costs(table) for table in (results.summary, results.runs))
    parts = [folded(f"means over repetitions: {len(means):,} rows", data_table(means))] if len(means) else []
    parts += [folded(f"every run: {len(runs):,} rows", data_table(runs))] if len(runs) else []
    page.add("Tables", note("Click on a heading to sort."), *parts)
    described = [] if spec.plain is None else [folded("the description of the study", verbatim(yaml_text(spec.plain)))]
    machines = {run.arguments["machine"]: None for run in results.planned} if spec.command is None else {}
    for machine in machines:
        what = f"the description of {portable_name(machine)}, without the changes by the study"
        described.append(folded(what, verbatim(description_text(machine))))
    facts = {"command": command, "source": spec.source, "version": f"xsim_py {__version__}"}
    page.add(
        "Reproduce the study",
        facts_table(facts),
        *described,
        note(
            "The seed, machine and digest of each run are in the table of every run; its settings are in results.json."
        ),
    )
    page.write(target)


def _summary(results: StudyResults) -> Iterator[str]:
    facts = {
        "runs": f"{len(results.planned):,}",
        "done": f"{len(results.runs):,}",
        "failed": f"{len(results.failed):,}",
    }
    yield cards(facts)
    for text, details in results.problems():
        yield warning(text)
        yield verbatim("\n".join(details))
    if len(results.runs):
        yield data_table(results.shown(), whole=True)


def _pictures(page: HtmlPage, results: StudyResults) -> Iterator[str]:
    for plot in results.spec.plots:
        chart = results.chart(plot)
        if chart.lines:
            yield subheading(plot.title or Path(plot.file).stem)
            for name, lines in chart.panels():
                if name:
                    yield note(name)
                yield page.figure(chart_figure(replace(chart, lines=lines)))
            if plot.show != "value":
                yield folded("as a table", data_table(scaling_table(chart.lines, plot.show)))


def _scaling(page: HtmlPage, results: StudyResults) -> Iterator[str]:
    """Yield speed-up and efficiency over rank counts, unless a plot of the study shows them."""
    drawn = {plot.show for plot in results.spec.plots}
    if "virtual_time_s" not in results.summary or len(set(results.summary.get("ranks", ()))) < 2:
        return
    for show in ("speedup", "efficiency"):
        if show in drawn or "weak efficiency" in drawn:
            continue
        y_scale = "log2" if show == "speedup" else "linear"
        plot = PlotSpec(x="ranks", y=("virtual_time_s",), title=show, show=show, x_scale="log2", y_scale=y_scale)
        chart = results.chart(plot)
        if any(len(line.x) > 1 for line in chart.lines if not line.reference):
            yield subheading(chart.y_label)
            yield page.figure(chart_figure(chart))
            yield folded("as a table", data_table(scaling_table(chart.lines, show)))
