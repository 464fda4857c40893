"""Which runs belong together: to one mean, to one line of a plot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from xsim_py.study.columns import key_columns
from xsim_py.study.description import PlotSpec, StudySpec
from xsim_py.study.template import text_of

__all__ = ["grouped", "hidden_by", "series_of"]

Row = TypeVar("Row", bound=Mapping[str, Any])


def grouped(rows: Iterable[Row], names: Sequence[str]) -> list[list[Row]]:
    """Rows with equal values in some columns together, in the order in which they come."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(text_of(row[name]) for name in names), []).append(row)
    return list(groups.values())


def series_of(spec: StudySpec, plot: PlotSpec, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns whose values tell the lines of a plot apart.

    Unless the plot names them: those that vary, and not with the x axis or a column before them.
    """
    if plot.series is not None:
        return list(plot.series)
    kept = [plot.x]
    for name in key_columns(spec):
        if len(grouped(rows, [*kept, name])) > len(grouped(rows, kept)):
            kept.append(name)
    return kept[1:]


def hidden_by(spec: StudySpec, plot: PlotSpec, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns of which a plot shows several values at one point of one line, on top of each other."""
    if plot.x not in key_columns(spec):
        return []
    drawn = [row for row in rows if all(condition.holds(row) for condition in plot.only)]
    shown = [plot.x, *series_of(spec, plot, drawn)]
    return [name for name in key_columns(spec) if len(grouped(drawn, [*shown, name])) > len(grouped(drawn, shown))]
