"""Lines with error bars: the one kind of picture that studies draw.

The first thing that tells lines apart is their colour, the second their dashes and whether their markers are filled; so
that with and without a failure, say, are two strokes of one colour. Colours are those that the colour-blind tell apart,
and each has a marker of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xsim_py.report.style import COLOURS, INK, MARKERS, new_figure, save, tidy

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["Chart", "Line"]

_DASHES = ("-", "--", ":", "-.")
_MOST_TICKS = 9
_HOLLOW: dict[str, Any] = {"markersize": 11, "markerfacecolor": "none", "markeredgewidth": 1.2}
_MOST_INSIDE = 6  # entries of a legend that do not hide what it explains


@dataclass(frozen=True)
class Line:
    """One line: its points from left to right, its name, and what it shares with others.

    ``colour`` and ``dashes`` are numbers: lines with equal ones look alike in that respect. With ``points`` only its
    points are drawn, large and hollow, around those of the line with the same colour that they are to be compared with.
    """

    label: str
    x: Sequence[Any]
    y: Sequence[float]
    errors: Sequence[float]
    colour: int
    dashes: int
    points: bool = False


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A picture of lines.

    Parameters
    ----------
    title, x_label, y_label : str
        What stands around it.
    lines : sequence of Line
        What it shows. Where an x is no number, all are names, in the order in which they come.
    x_scale, y_scale : str
        ``linear``, ``log`` or ``log2``.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    x_scale: str = "linear"
    y_scale: str = "linear"

    def draw(self, path: str | Path) -> None:
        """Write the picture; the ending of the name says in which format.

        Raises
        ------
        ConfigError
            When matplotlib is not installed.
        """
        figure = new_figure(7.2, 4.6)
        axes = figure.subplots()
        for line in self.lines:
            self._draw_line(axes, line)
        places = self._places()
        for axis, scale, values in (
            (axes.xaxis, self.x_scale, places),
            (axes.yaxis, self.y_scale, [y for line in self.lines for y in line.y]),
        ):
            _set_scale(axes, axis, scale, values)
        if self._named():
            axes.set_xticks(range(len(places)), [str(place) for place in places])
        axes.set_xlabel(self.x_label, color=INK)
        axes.set_ylabel(self.y_label, color=INK)
        axes.set_title(self.title, color=INK, fontsize=12, fontweight="bold")
        keys = self._keys(axes)
        if len(keys) > _MOST_INSIDE:
            figure.legend(handles=keys, frameon=False, fontsize=9, loc="outside right upper")
        elif len(keys) > 1:
            axes.legend(handles=keys, framealpha=0.85, edgecolor="none", fontsize=9)
        tidy(axes, grid="both")
        save(figure, path)

    def _keys(self, axes: Axes) -> list[Any]:
        """What the legend explains: each line, and once what hollow points are."""
        from matplotlib.lines import Line2D

        lines, _ = axes.get_legend_handles_labels()
        names = dict.fromkeys(line.label for line in self.lines if line.points)
        look = {"color": INK, "marker": "o", "linestyle": "none", **_HOLLOW}
        return [*lines, *(Line2D([], [], label=name, **look) for name in names)]

    def _draw_line(self, axes: Axes, line: Line) -> None:
        marker = MARKERS[line.colour % len(MARKERS)]
        colour = COLOURS[line.colour % len(COLOURS)]
        places = self._places()
        x = [places.index(x) for x in line.x] if self._named() else line.x
        if line.points:
            axes.plot(x, line.y, color=colour, marker=marker, linestyle="none", **_HOLLOW)
            return
        axes.errorbar(
            x,
            line.y,
            yerr=line.errors if any(line.errors) else None,
            label=line.label,
            color=colour,
            marker=marker,
            markersize=5.5,
            markerfacecolor=colour if line.dashes == 0 else "white",
            linestyle=_DASHES[line.dashes % len(_DASHES)],
            linewidth=1.6,
            capsize=3,
        )

    def _named(self) -> bool:
        return any(isinstance(x, str | bool) for line in self.lines for x in line.x)

    def _places(self) -> list[Any]:
        """Every x that occurs: names as they come, numbers in order."""
        found = list(dict.fromkeys(x for line in self.lines for x in line.x))
        return found if self._named() else sorted(found)


def _set_scale(axes: Axes, axis: Axis, scale: str, values: Sequence[Any]) -> None:
    """Give an axis its scale, and ticks that are figures and not powers; a zero has no place on a logarithmic one."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    if scale == "linear" or any(isinstance(value, str | bool) or value <= 0 for value in values):
        return
    base = 2 if scale == "log2" else 10
    getattr(axes, f"set_{axis.axis_name}scale")("log", base=base)  # type: ignore[attr-defined]
    if scale == "log2" and len(set(values)) <= 2 * _MOST_TICKS and axis is axes.xaxis:
        ticks = sorted(set(values))
        axis.set_major_locator(FixedLocator(ticks[:: -(-len(ticks) // _MOST_TICKS)]))
    elif scale == "log" and max(values) / min(values) < 300:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _figure(value)))
    axis.set_minor_locator(NullLocator())


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 and value == int(value) and value < 1e7 else f"{value:.6g}"
