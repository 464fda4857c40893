"""Line charts of studies and comparisons, as figures of HTML reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xsim_py.report.chart import Chart, Series, dash, stroke
from xsim_py.report.page.document import new_figure, plain_text
from xsim_py.report.style import LINE_COLOURS, MARKERS

if TYPE_CHECKING:
    from xsim_py.report.ruler import Ruler

_SYMBOLS: Final = dict(
    zip(
        "osD^vPX<>p*d",
        (
            *("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "triangle-left"),
            *("triangle-right", "pentagon", "star", "diamond-tall"),
        ),
        strict=True,
    )
)
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def chart_figure(chart: Chart) -> dict[str, Any]:
    """Return a chart as a plotly figure, with the same colours, markers and scales."""
    named = any(isinstance(x, str | bool) for line in chart.lines for x in line.x)
    places = [] if named else sorted({x for line in chart.lines for x in line.x})
    axes: dict[str, Any] = {
        "xaxis": {"type": "category"} if named else _axis(chart.x_scale, places, chart.ruler),
        "yaxis": _axis(chart.y_scale),
    }
    title = plain_text(chart.legend).replace("\n", "<br>")
    legend = {"title": {"text": title}, "x": 1.01, "y": 1}
    return new_figure(
        [_trace(line, stroke(line, chart.lines), named=named, ruler=chart.ruler) for line in chart.lines],
        x=chart.x_label,
        y=chart.y_label,
        legend=legend,
        showlegend=len(chart.lines) > 1,
        **axes,
    )


def _axis(scale: str, places: list[float] | None = None, ruler: Ruler | None = None) -> dict[str, Any]:
    """Return the scale of an axis, with a tick at each value if those are few."""
    axis: dict[str, Any] = {} if scale == "linear" else {"type": "log", "dtick": "D2", "tickformat": ",.6~g"}
    if places and ruler is not None and (ruler.kind or scale != "linear") and len(places) <= 18:
        axis.pop("dtick", None)
        axis |= {"tickvals": places, "ticktext": [plain_text(ruler.label(place)) for place in places]}
    return axis


def _trace(line: Series, marker: int, *, named: bool, ruler: Ruler) -> dict[str, Any]:
    colour = "#777777" if line.reference else LINE_COLOURS[line.colour % len(LINE_COLOURS)]
    xs = [plain_text(str(x)) for x in line.x] if named else list(line.x)
    said = xs if named else [plain_text(ruler.label(x)) for x in line.x]
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers" if line.points else "lines" if line.reference else "lines+markers",
        "name": plain_text(line.label),
        "x": xs,
        "y": list(line.y),
        "line": {"color": colour, "dash": "dot" if line.reference else _DASHES[dash(line) % len(_DASHES)], "width": 2},
        "marker": {
            "color": colour,
            "symbol": _SYMBOLS[MARKERS[marker % len(MARKERS)]] + ("-open" if line.points or line.dashes else ""),
            "size": 13 if line.points else 8,
        },
        "customdata": said,
        "hovertemplate": "%{customdata}: %{y:.6~g}<extra>%{fullData.name}</extra>",
    }
    if any(line.errors):
        trace["error_y"] = {"type": "data", "array": list(line.errors), "thickness": 1.2}
    return trace
