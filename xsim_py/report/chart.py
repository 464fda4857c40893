"""Lines with error bars: the one kind of picture that studies draw.

The first thing that tells lines apart is their colour, the second their dashes and their markers; so that with and
without a failure, say, are two strokes of one colour. Where colour is all that differs, each has a marker of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xsim_py.report.ruler import PLAIN
from xsim_py.report.style import DASHES, INK, LINE_COLOURS, MARKERS, Look, add_legend, save, spaced, tidy

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from xsim_py.report.ruler import Ruler

_MOST_MARKED = 18  # values of an axis that have ticks of their own
_MOST_LETTERS = 75  # of names beside each other along the x axis
_HOLLOW: dict[str, Any] = {"markersize": 11, "markerfacecolor": "none", "markeredgewidth": 1.2}


@dataclass(frozen=True)
class Series:
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
    """A picture of lines."""

    title: str
    x_label: str
    y_label: str
    """The texts around it, with the two before."""
    lines: Sequence[Series]
    """The lines. Where an x is no number, all are names, in the order in which they come."""
    x_scale: str = "linear"
    y_scale: str = "linear"
    """The scales: ``linear``, ``log`` or ``log2``; names have none, and zero has no place on a logarithmic one."""
    ruler: Ruler = PLAIN
    """The ruler of the x axis, if that has a unit."""
    legend: str = ""
    """The text over the names of the lines."""

    def draw(self, path: str | Path, *, look: Look | None = None) -> None:
        """Write the picture, in a size and a font if they are given; the ending of the name says in which format."""
        look = look or Look()
        with look.applied():
            self._compose(look.figure(7.2, 4.6), path)

    def _compose(self, figure: Figure, path: str | Path) -> None:
        """Draw everything into an empty picture, and write it."""
        axes = figure.subplots()
        for line in self.lines:
            self._draw_line(axes, line)
        places = self._places()
        if self._named():
            _name_places(axes, [str(place) for place in places])
        else:
            _set_scale(axes, axes.xaxis, self.x_scale, places, self.ruler)
        _set_scale(axes, axes.yaxis, self.y_scale, [y for line in self.lines for y in line.y], PLAIN)
        axes.set_xlabel(self.x_label, color=INK)
        axes.set_ylabel(self.y_label, color=INK)
        axes.set_title(self.title, color=INK, fontsize=12, fontweight="bold")
        tidy(axes, grid="both")
        add_legend(figure, self._keys(axes), title=self.legend)
        save(figure, path)

    def without_place(self) -> int:
        """Return how many points are left out, because a logarithmic axis begins above them."""
        return sum(len(line.x) - len(self._points(line)) for line in self.lines)

    def _points(self, line: Series) -> list[int]:
        """Return the numbers of those points of a line that have a place."""
        x_above = self.x_scale != "linear" and not self._named()
        y_above = self.y_scale != "linear"
        pairs = enumerate(zip(line.x, line.y, strict=True))
        return [index for index, (x, y) in pairs if (not x_above or x > 0) and (not y_above or y > 0)]

    def _keys(self, axes: Axes) -> list[Any]:
        """Return what the legend explains: each line, and once what hollow points are."""
        from matplotlib.lines import Line2D

        lines, _ = axes.get_legend_handles_labels()
        names = dict.fromkeys(line.label for line in self.lines if line.points)
        look = {"color": INK, "marker": "o", "linestyle": "none", **_HOLLOW}
        return [*lines, *(Line2D([], [], label=name, **look) for name in names)]

    def _draw_line(self, axes: Axes, line: Series) -> None:
        stroke = line.dashes if any(other.dashes for other in self.lines) else line.colour
        marker = MARKERS[stroke % len(MARKERS)]
        colour = LINE_COLOURS[line.colour % len(LINE_COLOURS)]
        dashes = line.dashes + line.colour // len(LINE_COLOURS)
        shown, places = self._points(line), self._places()
        x = [places.index(line.x[index]) if self._named() else line.x[index] for index in shown]
        y = [line.y[index] for index in shown]
        if line.points:
            axes.plot(x, y, color=colour, marker=marker, linestyle="none", **_HOLLOW)
            return
        axes.errorbar(
            x,
            y,
            yerr=[line.errors[index] for index in shown] if any(line.errors) else None,
            label=line.label,
            color=colour,
            marker=marker,
            markersize=5.5 + 2 * min(line.dashes, 3),  # so that equal points lie around each other
            markerfacecolor=colour if line.dashes == 0 else "none",
            linestyle=DASHES[dashes % len(DASHES)],
            linewidth=1.6,
            capsize=3,
        )

    def _named(self) -> bool:
        return any(isinstance(x, str | bool) for line in self.lines for x in line.x)

    def _places(self) -> list[Any]:
        """Return every x that occurs: names as they come, numbers in order."""
        found = list(dict.fromkeys(x for line in self.lines for x in line.x))
        return found if self._named() else sorted(found)


def _name_places(axes: Axes, names: Sequence[str]) -> None:
    """Write names along the x axis, slanting where they would run into each other."""
    slant: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    crowded = max(map(len, names)) * len(names) > _MOST_LETTERS
    axes.set_xticks(range(len(names)), names, **(slant if crowded else {}))


def _set_scale(axes: Axes, axis: Axis, scale: str, values: Sequence[float], ruler: Ruler) -> None:
    """Give an axis its scale, and ticks that are figures and not powers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

    shown = FuncFormatter(lambda value, _: ruler.label(value))
    marked = sorted({value for value in values if value > 0})
    if scale == "linear" or not marked:
        if ruler.kind:
            axis.set_major_formatter(shown)
        elif axis is axes.xaxis and all(value == int(value) for value in values):
            axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))
        return
    base = 2 if scale == "log2" else 10
    getattr(axes, f"set_{axis.axis_name}scale")("log", base=base)  # type: ignore[attr-defined]
    axis.set_major_formatter(shown)
    axis.set_minor_locator(NullLocator())
    swept = axis is axes.xaxis and (ruler.kind or all(value == int(value) for value in marked))
    if swept and len(marked) <= _MOST_MARKED:
        axis.set_major_locator(FixedLocator(spaced(marked)))
    elif scale == "log" and marked[-1] / marked[0] < 300:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
