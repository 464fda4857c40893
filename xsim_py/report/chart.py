"""Line charts with error bars: the one kind of figure that studies draw.

Lines differ first in colour, then in markers, so that the same case with and without a failure has two markers of one
colour. If only the colour differs, each line has a separate marker. Dashes depend on both, so that lines with one
marker also differ in greyscale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xsim_py.report.ruler import PLAIN, Ruler
from xsim_py.report.style import DASHES, INK, LINE_COLOURS, MARKERS, Look, add_legend, drawn, log_steps, spaced, tidy

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from xsim_py.report.figure import Picture

_MOST_MARKED = 18  # values of an axis that each have a tick
_PANEL = 15  # minimum width of a panel, in font sizes
_PANEL_HEIGHT = 1.8  # inches of a panel, with text of 10 points
_REFERENCE = "#777777"
_HOLLOW: dict[str, Any] = {"markerfacecolor": "none", "markeredgewidth": 1.2}


@dataclass(frozen=True)
class Series:
    """One line: its points from left to right, its name, and its style.

    ``colour`` and ``dashes`` are numbers: lines with equal ones look alike in that respect. With ``points`` only the
    points are drawn, large and hollow, around those of the line with the same colour, for comparison. A ``reference``,
    such as ideal speed-up, is a thin grey line without markers. ``panel`` names the part of the figure.
    """

    label: str
    x: Sequence[Any]
    y: Sequence[float]
    errors: Sequence[float]
    colour: int
    dashes: int
    points: bool = False
    reference: bool = False
    panel: str = ""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A line chart."""

    title: str
    x_label: str
    y_label: str
    """Title and axis labels."""
    lines: Sequence[Series]
    """The lines. If some x is not a number, all are names, in order of first occurrence."""
    x_scale: str = "linear"
    y_scale: str = "linear"
    """The scales: ``linear``, ``log`` or ``log2``; names have no scale, and a logarithmic one cannot show zero."""
    ruler: Ruler = PLAIN
    """The ruler of the x axis, if it has a unit."""
    legend: str = ""
    """The title of the legend."""

    def draw(self, target: str | Path | None = None, *, look: Look | None = None) -> Picture:
        """Return the figure, and write it if there is a target, whose suffix is the format."""
        panels, look = len(self.panels()), look or Look()
        width = look.inches or 7.2
        height = 4.6 if panels == 1 else _PANEL_HEIGHT * look.scale * -(-panels // _across(panels, width, look)) + 1
        return drawn(self._compose, target, look, width if panels > 1 else 7.2, height)

    def panels(self) -> list[tuple[str, list[Series]]]:
        """Return the names of the panels, and their lines."""
        names = dict.fromkeys(line.panel for line in self.lines)
        return [(name, [line for line in self.lines if line.panel == name]) for name in names] or [("", [])]

    def _compose(self, figure: Figure, look: Look) -> None:
        """Draw the content into an empty figure."""
        panels = self.panels()
        for axes, (name, lines) in zip(_grid(figure, len(panels), look), panels, strict=True):
            for line in lines:
                self._draw_line(axes, line)
            self._set_scales(axes)
            tidy(axes, grid="both")
            if len(panels) > 1:
                axes.set_title(name, color=INK)
                axes.tick_params(colors=INK)
        if len(panels) == 1:
            look.describe(
                figure.axes[0], title=self.title, x=self.x_label, y=self.y_label, loc="center", fontweight="bold"
            )
        else:
            look.set_title(figure.suptitle, self.title, fontweight="bold")
            across = _across(len(panels), figure.get_size_inches()[0], look)
            for axes in figure.axes[-across:]:
                axes.set_xlabel(look.labels[0] or self.x_label, color=INK)
            for axes in figure.axes[::across]:
                axes.set_ylabel(look.labels[1] or self.y_label, color=INK)
        add_legend(figure, self._keys(figure.axes, look), look, title=self.legend)

    def _set_scales(self, axes: Axes) -> None:
        places = self._places()
        if self._named():
            from xsim_py.report.figure import Names

            axes.set_xticks(range(len(places)))
            axes.xaxis.set_major_formatter(Names([str(place) for place in places]))
        else:
            _set_scale(axes, axes.xaxis, self.x_scale, places, self.ruler)
        _set_scale(axes, axes.yaxis, self.y_scale, [y for line in self.lines for y in line.y], PLAIN)

    def omitted_values(self) -> int:
        """Return the number of points that a logarithmic axis cannot show."""
        return sum(len(line.x) - len(self._points(line)) for line in self.lines)

    def _points(self, line: Series) -> list[int]:
        """Return the indices of the points of a line that can be shown."""
        x_above = self.x_scale != "linear" and not self._named()
        y_above = self.y_scale != "linear"
        pairs = enumerate(zip(line.x, line.y, strict=True))
        return [index for index, (x, y) in pairs if (not x_above or x > 0) and (not y_above or y > 0)]

    def _keys(self, panels: Sequence[Axes], look: Look) -> list[Any]:
        """Return the legend entries: each line once, and the meaning of hollow points."""
        from matplotlib.lines import Line2D

        found = [pair for axes in panels for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
        handles: dict[str, Any] = {str(label): handle for handle, label in found}
        lines = {line.label: handles[line.label] for line in self.lines if line.label in handles}
        names = dict.fromkeys(line.label for line in self.lines if line.points)
        style = {"color": INK, "marker": "o", "linestyle": "none", "markersize": 11 * look.scale, **_HOLLOW}
        return [*lines.values(), *(Line2D([], [], label=name, **style) for name in names)]

    def _draw_line(self, axes: Axes, line: Series) -> None:
        from matplotlib import rcParams

        size = rcParams["lines.markersize"]
        marker = MARKERS[stroke(line, self.lines) % len(MARKERS)]
        colour = LINE_COLOURS[line.colour % len(LINE_COLOURS)]
        shown, places = self._points(line), self._places()
        x = [places.index(line.x[index]) if self._named() else line.x[index] for index in shown]
        y = [line.y[index] for index in shown]
        if line.reference:
            axes.plot(x, y, color=_REFERENCE, linestyle=":", label=line.label, zorder=1)
            return
        if line.points:
            axes.plot(x, y, color=colour, marker=marker, linestyle="none", markersize=2 * size, **_HOLLOW)
            return
        axes.errorbar(
            x,
            y,
            yerr=[line.errors[index] for index in shown] if any(line.errors) else None,
            label=line.label,
            color=colour,
            marker=marker,
            markersize=size * (1 + 0.36 * min(line.dashes, 3)),  # so that equal points are drawn around each other
            markerfacecolor=colour if line.dashes == 0 else "none",
            linestyle=DASHES[dash(line) % len(DASHES)],
            capsize=size / 2,
        )

    def _named(self) -> bool:
        return any(isinstance(x, str | bool) for line in self.lines for x in line.x)

    def _places(self) -> list[Any]:
        """Return every x that occurs: names in order of occurrence, numbers sorted."""
        found = list(dict.fromkeys(x for line in self.lines for x in line.x))
        return found if self._named() else sorted(found)


def stroke(line: Series, lines: Sequence[Series]) -> int:
    """Return the marker number of a line."""
    return line.dashes if any(other.dashes for other in lines if not other.reference) else line.colour


def dash(line: Series) -> int:
    """Return a line's dash number, which differs among lines of the same marker or colour."""
    return line.dashes + line.colour + line.colour // len(LINE_COLOURS)


def _across(panels: int, width: float, look: Look) -> int:
    """Return the number of panels per row."""
    most = max(int(width / (_PANEL * look.points / 72)), 1)
    return -(-panels // -(-panels // most))


def _grid(figure: Figure, panels: int, look: Look) -> list[Axes]:
    """Return axes for some panels, with common scales, and labels only at the left and bottom."""
    across = _across(panels, figure.get_size_inches()[0], look)
    down = -(-panels // across)
    grid: Any = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    every = [axes for row in grid for axes in row]
    for axes in every[panels:]:
        axes.remove()
    for axes in every[max(panels - across, 0) : panels]:
        axes.tick_params(labelbottom=True)
    return every[:panels]


def _set_scale(axes: Axes, axis: Axis, scale: str, values: Sequence[float], ruler: Ruler) -> None:
    """Set the scale of an axis, with numbers instead of powers as ticks."""
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
    elif scale == "log":
        axis.set_major_locator(LogLocator(subs=log_steps(marked[0], marked[-1])))
