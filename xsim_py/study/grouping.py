"""Groups of runs: those with a common mean, and those on one line of a plot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from xsim_py.study.columns import key_columns, ruler_of
from xsim_py.study.description import PlotSpec, StudySpec
from xsim_py.study.template import text_of

Row = TypeVar("Row", bound=Mapping[str, Any])


def grouped(rows: Iterable[Row], names: Sequence[str]) -> list[list[Row]]:
    """Return rows grouped by equal values in some columns, in order of first occurrence."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(text_of(row[name]) for name in names), []).append(row)
    return list(groups.values())


def series_of(spec: StudySpec, plot: PlotSpec, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns whose values distinguish the lines of a plot.

    If the plot does not name them: the columns that vary independently of the x axis, the panels and earlier columns.
    """
    if plot.series is not None:
        return list(plot.series)
    kept = [plot.x, *_panels(plot)]
    for name in key_columns(spec):
        if len(grouped(rows, [*kept, name])) > len(grouped(rows, kept)):
            kept.append(name)
    return kept[1 + len(_panels(plot)) :]


def _panels(plot: PlotSpec) -> list[str]:
    return [] if plot.panels is None else [plot.panels]


def hidden_by(spec: StudySpec, plot: PlotSpec, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns with several values at one point of a line, which overlap in the plot."""
    if plot.x not in key_columns(spec):
        return []
    drawn = [row for row in rows if all(condition.holds(row) for condition in plot.only)]
    shown = [plot.x, *_panels(plot), *series_of(spec, plot, drawn)]
    return [name for name in key_columns(spec) if len(grouped(drawn, [*shown, name])) > len(grouped(drawn, shown))]


def scale_problem(spec: StudySpec, plot: PlotSpec, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return why these rows cannot have a logarithmic x axis; empty if they can, or may yet."""
    if plot.x_scale == "linear" or plot.x not in key_columns(spec):
        return ""
    drawn = [row for row in rows if all(condition.holds(row) for condition in plot.only)]
    values = list(dict.fromkeys(row[plot.x] for row in drawn if row[plot.x] is not None))
    ruler = ruler_of(spec, plot.x, values)
    if ruler is None:
        shown = ", ".join(map(text_of, values[:3])) + ("" if len(values) <= 3 else ", ...")
        return f"the values of {plot.x} ({shown}) are not numbers with units of one kind; drop x_scale"
    low = next((text_of(value) for value in values if ruler.place(value) <= 0), "")
    return low and f"a logarithmic axis cannot show {low} of {plot.x}; drop x_scale, or exclude the value with only"
