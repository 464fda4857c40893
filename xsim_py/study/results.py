"""The results of a study: a row per run, means over repetitions, figures."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xsim_py import __version__
from xsim_py.atomic_files import atomic_file, atomic_path
from xsim_py.errors import ConfigError
from xsim_py.report import Table
from xsim_py.report.chart import Chart, Series
from xsim_py.report.ruler import PLAIN, Ruler
from xsim_py.report.scaling import LABELS, against_fewest, scaling_table
from xsim_py.report.style import Look, time_scale
from xsim_py.study.capture import MOST_SEARCHED_S
from xsim_py.study.columns import (
    captured_names,
    column_names,
    key_columns,
    metric_names,
    ruler_of,
    shown_names,
    unit_of,
)
from xsim_py.study.description import PlotSpec, StudySpec
from xsim_py.study.grouping import grouped, hidden_by, scale_problem, series_of
from xsim_py.study.loader import plot_of
from xsim_py.study.plan import PlannedRun
from xsim_py.study.published import Published, read_published
from xsim_py.study.task import MEASURED, Outcome
from xsim_py.study.template import is_number, text_of

if TYPE_CHECKING:
    from xsim_py.report.figure import Picture

FILES: Final = ("runs.csv", "summary.csv", "results.json")

Row = dict[str, Any]

_FIGURE: Final = re.compile(r"[-+.0-9]+(?:[eE][-+]?[0-9]+)?\s?[A-Za-z/%]*")
_SHOWN_FAILURES: Final = 10
_SHOWN_CHARACTERS: Final = 200


class StudyResults:
    """The completed runs of a study.

    Parameters
    ----------
    spec : StudySpec
        The study.
    planned : sequence of PlannedRun
        Its runs, in order.
    outcomes : mapping of str to dict
        Their outcomes, by fingerprint; absent for missing runs.

    Attributes
    ----------
    runs : Table
        A row per completed run.
    summary : Table
        A row per combination of the variables: the number of successful runs, and for each number the mean and its
        standard error over the repetitions.
    written : list of Path
        The written files.
    not_drawn : str
        The reason why requested figures are missing.
    remarks : list of str
        The data that figures omit.
    """

    def __init__(self, spec: StudySpec, planned: Sequence[PlannedRun], outcomes: Mapping[str, Outcome]) -> None:
        self.spec = spec
        self.planned = list(planned)
        self._outcomes = {run.key: outcomes[run.key] for run in planned if run.key in outcomes}
        self._rows = [self._row(run) for run in self.planned if run.key in self._outcomes]
        self.runs = self._table("runs", column_names(spec), self._rows)
        self._means = [self._mean(rows) for rows in grouped(self._rows, key_columns(spec))]
        self.summary = self._summary()
        self._published = Published((), (), ()) if spec.published is None else read_published(spec)
        self.written: list[Path] = []
        self.not_drawn = ""
        self.remarks: list[str] = []

    @property
    def missing(self) -> int:
        """The number of runs that are not completed."""
        return len(self.planned) - len(self._rows)

    @property
    def failed(self) -> list[PlannedRun]:
        """The completed runs that were not successful."""
        return [run for run in self.planned if run.key in self._outcomes and not self.is_good(self._outcomes[run.key])]

    @property
    def given_up(self) -> dict[str, list[str]]:
        """The captures whose search took too long in some runs, with the line in each of these runs."""
        found: dict[str, list[str]] = {}
        for row in self._outcomes.values():
            for name, line in row.get("given_up", {}).items():
                found.setdefault(name, []).append(line)
        return found

    def __str__(self) -> str:
        """Return the means for a terminal, and the problems."""
        lines = [line for text, details in self.problems() for line in (text, *details)]
        return "\n".join([self.shown().to_text(max_rows=None), *lines])

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()

    # ------------------------------------------------------------------------------------------------------ rows

    def is_good(self, row: Mapping[str, Any]) -> bool:
        """Return True if a run ended as the study accepts it."""
        accept = self.spec.accept
        return row["ended"] in accept.ended and (row["ended"] != "finished" or row["exit_status"] in accept.exit_status)

    def _row(self, run: PlannedRun) -> Row:
        outcome = self._outcomes[run.key]
        captured = outcome.get("captured", {})
        measured = {name: outcome.get(name) for name in MEASURED}
        row = {**run.columns, **measured, **{name: captured.get(name) for name in captured_names(self.spec)}}
        return {**row, _SPREAD: outcome.get("spread", {})}

    def _mean(self, rows: Sequence[Row]) -> Row:
        """Return the row of a combination: columns, numbers of runs, statistics of successful ones."""
        good = [row for row in rows if self.is_good(row)]
        mean: Row = {name: rows[0][name] for name in key_columns(self.spec)}
        mean |= {"runs": len(good), "failed": len(rows) - len(good)}
        for name in metric_names(self.spec):
            mean |= _statistics(name, [row[name] for row in good])
            if mean[name] is None:
                mean[name] = _in_common([row[name] for row in good])
            if len(good) == 1 and name in good[0][_SPREAD]:
                ends = zip(_ENDS, good[0][_SPREAD][name], strict=False)
                mean |= {f"{name}{end}": value for end, value in ends}
        return mean

    def _summary(self) -> Table:
        names = [*key_columns(self.spec), "runs", "failed"]
        names += [f"{metric}{end}" for metric in metric_names(self.spec) for end in ("", *_ENDS)]
        return self._table("summary", names, self._means)

    def _table(self, name: str, columns: Iterable[str], rows: Sequence[Row]) -> Table:
        names = list(columns)
        units = {column: unit for column in names if (unit := unit_of(self.spec, _metric(column)))}
        return Table(name, {column: [row[column] for row in rows] for column in names}, units)

    def shown(self) -> Table:
        """Return the means to print, with standard errors of repetitions, and times in one unit."""
        wanted = shown_names(self.spec)
        columns: dict[str, list[Any]] = {name: [row[name] for row in self._means] for name in self._telling()}
        units: dict[str, str] = {}
        if self.spec.repetitions > 1:
            columns["runs"] = [row["runs"] for row in self._means]
        for name in wanted:
            scale, unit = self._scale(name, self._means)
            label = name if unit == unit_of(self.spec, name) else self._bare(name)
            units[label] = unit
            columns[label] = [_rounded(row[name], scale) for row in self._means]
            if any(row[f"{name}_stderr"] is not None for row in self._means):
                columns[f"+- {label}"] = [_rounded(row[f"{name}_stderr"], scale) for row in self._means]
                units[f"+- {label}"] = unit
            if name in self._published.metrics:
                columns[f"published {label}"] = [_rounded(self._published.of(row, name), scale) for row in self._means]
                units[f"published {label}"] = unit
        if any(row["failed"] for row in self._means):
            columns["failed"] = [row["failed"] for row in self._means]
        return Table(self.spec.name, columns, {name: unit for name, unit in units.items() if unit})

    def _telling(self) -> list[str]:
        """Return the columns that distinguish combinations, without those common to all."""
        names = key_columns(self.spec)
        if self.spec.command is not None and self.spec.variables:
            names = list(self.spec.variables)  # options that vary are computed from these
        varying = [name for name in names if len({text_of(row[name]) for row in self._means}) > 1]
        return varying or names

    def _scale(self, name: str, rows: Sequence[Row]) -> tuple[float, str]:
        """Return factor and unit of a column; the largest value in seconds becomes at least 1."""
        unit = unit_of(self.spec, name)
        numbers = [row[name] for row in rows if isinstance(row[name], int | float)]
        return time_scale(max(numbers)) if unit == "s" and numbers else (1.0, unit)

    def problems(self) -> Iterator[tuple[str, list[str]]]:
        """Yield a problem for each of the first unsuccessful runs, and one for missing runs."""
        failed = self.failed
        for run in failed[:_SHOWN_FAILURES]:
            outcome = self._outcomes[run.key]
            names = [*self._telling(), *(["repetition"] if self.spec.repetitions > 1 else [])]
            which = ", ".join(f"{name}={text_of(run.columns[name])}" for name in names)
            most = 3 if outcome["ended"] == "crashed" else 2  # the worker, the rank and its line
            lines = [line for line in outcome["said"].splitlines() if line.strip()][:most] or outcome["last_lines"][-2:]
            said = f"failed: {which}: {outcome['ended']}, exit status {outcome['exit_status']}"
            yield said, [f"    {line[:_SHOWN_CHARACTERS]}" for line in lines]
        if len(failed) > _SHOWN_FAILURES:
            yield f"failed: and {len(failed) - _SHOWN_FAILURES:,} more; all are in the results", []
        for name, lines in self.given_up.items():
            where = f"abandoned in {len(lines):,} of {len(self._rows):,} runs, which have no value"
            why = f"its regular expression takes more than {MOST_SEARCHED_S:g} s, or all memory"
            yield f"capture.{name}: {where}: {why}, such as on the line {lines[0]!r}", []
        if self.missing:
            yield f"missing: {self.missing:,} of {len(self.planned):,} runs", []

    # -------------------------------------------------------------------------------------------------- pictures

    def chart(self, plot: PlotSpec) -> Chart:
        """Return the figure of a plot of the study."""
        means = [row for row in self._means if all(condition.holds(row) for condition in plot.only)]
        scales = self._scales(plot.y, means)
        names = series_of(self.spec, plot, means)
        means = [row for row in means if row[plot.x] is not None]
        ruler = ruler_of(self.spec, plot.x, [row[plot.x] for row in means])
        lines = list(self._lines(plot, means, names, ruler, {y: scale for y, (scale, _) in scales.items()}))
        if plot.show != "value":
            panels = dict.fromkeys(line.panel for line in lines)
            several = [[line for line in lines if line.panel == panel] for panel in panels]
            lines = [line for panel in several for line in against_fewest(panel, plot.show)]
        return Chart(
            title=plot.title or self.spec.name,
            x_label=self._axis(plot.x_label, [plot.x], [unit_of(self.spec, plot.x)]),
            y_label=self._axis(plot.y_label, plot.y, [scales[y][1] for y in plot.y])
            if plot.show == "value"
            else plot.y_label or LABELS[plot.show],
            lines=lines,
            x_scale=plot.x_scale,
            y_scale=plot.y_scale,
            ruler=ruler or PLAIN,
            legend=_heading(names, means),
        )

    def _lines(
        self,
        plot: PlotSpec,
        means: Sequence[Row],
        names: Sequence[str],
        ruler: Ruler | None,
        scales: Mapping[str, float],
    ) -> Iterator[Series]:
        """Yield the lines of a plot, panel by panel, and their published points."""
        place = ruler.place if ruler else text_of
        colours: dict[str, int] = {}
        dashes: dict[str, int] = {}
        panels = [] if plot.panels is None else [plot.panels]
        for panel in grouped(means, panels):
            for y in plot.y:
                for rows in grouped(panel, names):
                    points = [row for row in rows if is_number(row[y])]
                    if ruler:
                        points.sort(key=lambda row: place(row[plot.x]))
                    words = [text_of(rows[0][name]) for name in names]
                    words += [self._bare(y)] if len(plot.y) > 1 or (plot.show != "value" and not words) else []
                    line = Series(
                        label=", ".join(words),
                        x=[place(row[plot.x]) for row in points],
                        y=[row[y] * scales[y] for row in points],
                        errors=[(row[f"{y}_stderr"] or 0.0) * scales[y] for row in points],
                        colour=colours.setdefault(words[0] if words else "", len(colours)),
                        dashes=dashes.setdefault(", ".join(words[1:]), len(dashes)),
                        panel=_panel(panels, rows[0]),
                    )
                    if points:
                        yield line
                    if plot.show == "value":
                        yield from self._beside(line, points, y, scales[y])

    def _beside(self, line: Series, rows: Sequence[Row], y: str, scale: float) -> Iterator[Series]:
        """Yield the published points of a line."""
        if self.spec.published is None or y not in self._published.metrics:
            return
        values = zip(line.x, (self._published.of(row, y) for row in rows), strict=True)
        found = [(x, value * scale) for x, value in values if value is not None]
        if found:
            xs, ys = zip(*found, strict=True)
            yield Series(self.spec.published.label, xs, ys, (), line.colour, line.dashes, points=True, panel=line.panel)

    def _scales(self, names: Sequence[str], rows: Sequence[Row]) -> dict[str, tuple[float, str]]:
        """Return factor and unit for columns that share an axis: those of the largest."""
        found = {name: self._scale(name, rows) for name in names}
        seconds = [name for name in names if unit_of(self.spec, name) == "s"]
        smallest = min((found[name] for name in seconds), default=None)
        return {name: smallest if smallest and name in seconds else found[name] for name in names}

    def _axis(self, label: str | None, names: Sequence[str], units: Sequence[str]) -> str:
        """Return the text along an axis: a label or the columns' names, with their units."""
        bare = [self._bare(name) for name in names]
        if len(set(units)) == 1:
            return f"{label or ' / '.join(bare)}{units[0] and f' [{units[0]}]'}"
        each = " / ".join(f"{name}{unit and f' [{unit}]'}" for name, unit in zip(bare, units, strict=True))
        return f"{label}: {each}" if label else each

    def _bare(self, column: str) -> str:
        """Return a column's name as words, without its unit suffix."""
        return column.removesuffix(f"_{unit_of(self.spec, column)}").replace("_", " ")

    # ----------------------------------------------------------------------------------------------------- files

    def write(self, folder: Path) -> None:
        """Write ``runs.csv``, ``summary.csv`` and ``results.json``."""
        for table in (self.runs, self.summary):
            with atomic_file(folder / f"{table.name}.csv", follow=False) as file:
                table.to_csv(file)
        with atomic_file(folder / "results.json", follow=False) as file:
            file.write(json.dumps(self.to_dict(), indent=1) + "\n")
        self.written += [folder / name for name in FILES]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "study": self.spec.name,
            "description": self.spec.description,
            "source": self.spec.source,
            "version": __version__,
            "missing": self.missing,
            "tables": {table.name: table.to_dict() for table in (self.runs, self.summary)},
            "runs": [
                {
                    "columns": run.columns,
                    "settings": run.settings,
                    "key": run.key,
                    "outcome": self._outcomes.get(run.key),
                }
                for run in self.planned
            ],
        }

    def to_html(self, target: str | Path, *, command: str = "") -> None:
        """Write a self-contained HTML report: see `study.page`.

        Raises
        ------
        ConfigError
            The name does not end with ``.html``, or plotly is not installed.
        OSError
            The file cannot be written.
        """
        from xsim_py.study.page import write_study_page

        write_study_page(self, target, command=command)

    def draw(
        self, plot: str | None = None, target: str | Path | None = None, *, look: Look | None = None, **keys: object
    ) -> Picture:
        """Return the figure of one plot, and write it if there is a target.

        Parameters
        ----------
        plot : str, optional
            The file of an entry of ``plots``, with or without its suffix; default: the first entry.
        target : path, optional
            The file to write; its name ends with ``.png``, ``.svg`` or ``.pdf``.
        look : Look, optional
            Size, text and legend, as differences from those of the study.
        **keys
            A different plot, by the keys of ``plots``: ``x="ranks", y="virtual_time_s", show="speedup"``.

        Raises
        ------
        ConfigError
            There is no such plot, it has no data, or matplotlib is not installed.
        """
        chart = self.chart(self._plot(plot, keys))
        if not chart.lines:
            raise ConfigError(f"nothing to draw: no run has values of {chart.y_label}")
        return chart.draw(target, look=(look or Look()).over(self.spec.figure.look()))

    def _plot(self, name: str | None, keys: Mapping[str, Any]) -> PlotSpec:
        """Return an entry of the study's plots, or the one described by these keys."""
        if keys:
            plot = plot_of(self.spec, keys)
            if problem := scale_problem(self.spec, plot, self._means):
                raise ConfigError(f"plot: x_scale: {problem}")
            if hidden := hidden_by(self.spec, plot, self._means):
                raise ConfigError(
                    f"plot: points with different {' and '.join(hidden)} coincide; add it to series or only"
                )
            return plot
        for plot in self.spec.plots:
            if name is None or name in (plot.file, Path(plot.file).stem):
                return plot
        known = ", ".join(plot.file for plot in self.spec.plots)
        raise ConfigError(f"the study has no plot{'' if name is None else f' {name!r}'}; its plots: {known or 'none'}")

    def draw_all(self, folder: Path, *, look: Look | None = None) -> None:
        """Draw every plot that has data; `not_drawn` is the reason if that is impossible."""
        look = (look or Look()).over(self.spec.figure.look())
        for plot in self.spec.plots:
            chart = self.chart(plot)
            for name in tables_beside(plot) if chart.lines else ():
                with atomic_file(folder / name, follow=False) as file:
                    scaling_table(chart.lines, plot.show).to_csv(file)
                self.written.append(folder / name)
            try:
                if chart.lines:
                    with atomic_path(folder / plot.file, follow=False) as path:
                        chart.draw(path, look=look)
                    self.written.append(folder / plot.file)
                    self.remarks += _remarks(plot.file, chart.omitted_values())
            except ConfigError as error:
                self.not_drawn = str(error)


def _panel(names: Sequence[str], row: Row) -> str:
    """Return the name of a panel: words only, and numbers with the name of their column."""
    return ", ".join(f"{name} {text}" if _FIGURE.fullmatch(text := text_of(row[name])) else text for name in names)


def tables_beside(plot: PlotSpec) -> list[str]:
    """Return the names of tables written next to a figure: speed-up and efficiency."""
    return [] if plot.show == "value" else [f"{Path(plot.file).stem}.csv"]


_SPREAD: Final = "+-"  # no column can have this name
_ENDS: Final = ("_stderr", "_min", "_max")


def _metric(column: str) -> str:
    """Return the metric of a column of the summary."""
    for end in _ENDS:
        column = column.removesuffix(end)
    return column


def _statistics(name: str, values: Sequence[Any]) -> Row:
    """Return mean, standard error, minimum and maximum of the values that are numbers."""
    numbers = [value for value in values if is_number(value)]
    if not numbers:
        return {name: None, **{f"{name}{end}": None for end in _ENDS}}
    try:
        mean, error = _mean_and_error(numbers)
    except OverflowError:  # their sum, or a square, overflows
        largest = max(map(abs, numbers))
        mean, error = _mean_and_error([number / largest for number in numbers])
        mean, error = mean * largest, None if error is None else error * largest
    return {name: mean, f"{name}_stderr": error, f"{name}_min": min(numbers), f"{name}_max": max(numbers)}


def _mean_and_error(numbers: Sequence[float]) -> tuple[float, float | None]:
    """Return mean and standard error."""
    count = len(numbers)
    mean = math.fsum(numbers) / count
    if all(number == numbers[0] for number in numbers):
        mean = numbers[0]  # summing and dividing would add a rounding error to an exact value
    error = None
    if count > 1:
        error = math.sqrt(math.fsum((number - mean) ** 2 for number in numbers) / (count - 1) / count)
    return mean, error


def _in_common(values: Sequence[Any]) -> str | None:
    """Return the text of all repetitions if it is the same, or the number of different ones."""
    texts = {value for value in values if isinstance(value, str)}
    return f"({len(texts):,} different)" if len(texts) > 1 else next(iter(texts), None)


def _rounded(value: float | str | None, scale: float) -> float | str | None:
    if isinstance(value, str):
        return value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}..."
    return None if value is None else float(f"{value * scale:.6g}")


def _heading(names: Sequence[str], rows: Sequence[Row]) -> str:
    """Return the title of a legend: empty for words, and the names of their columns for numbers."""
    values = [row[name] for row in rows for name in names]
    figures = any(isinstance(value, bool) or _FIGURE.fullmatch(text_of(value)) for value in values)
    return ",\n".join(names) if figures else ""


def _remarks(file: str, points: int) -> list[str]:
    """Return a remark about the points that a figure omits."""
    if not points:
        return []
    said = "a point that is" if points == 1 else f"{points:,} points that are"
    return [f"{file}: without {said} not above zero: a logarithmic axis cannot show it; use a linear axis"]
