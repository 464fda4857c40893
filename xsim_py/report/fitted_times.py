"""Figures of fitted costs: measured and fitted one-way times by message size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from xsim_py.report.style import COLOURS, INK, Look, add_legend, drawn, tidy
from xsim_py.units import format_size

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NO_BYTES_AT = 0.25  # a logarithmic axis cannot show 0
_NARROWEST = 3.0  # inches, for one layer
_DEGREES = 4  # powers of two between ticks: 16


@dataclass(frozen=True)
class FittedTimes:
    """The times of one layer, by message size in bytes.

    `line` has the sizes and fitted seconds of each segment, for a line with gaps where the times jump.
    `threshold_bytes` is the largest eager message.
    """

    title: str
    sizes: Sequence[float]
    measured_s: Sequence[float]
    fitted_s: Sequence[float]
    line: Sequence[tuple[Sequence[float], Sequence[float]]]
    threshold_bytes: int | None


def draw_fitted_times(
    layers: Sequence[FittedTimes], target: str | Path | None = None, *, look: Look | None = None
) -> Figure:
    """Draw the times and errors of each layer, and write the figure if there is a target."""
    across = _across(len(layers), look.inches if look else None)
    down = -(-len(layers) // across)
    return drawn(
        lambda figure, look: _compose(layers, figure, look),
        target,
        look,
        6.4 * across,
        6.0 * (1 if down == 1 else 0.8 * down),
    )


def _across(layers: int, width: float | None) -> int:
    """Return the number of layers per row."""
    return layers if width is None else min(layers, max(int(width / _NARROWEST), 1))


def _compose(layers: Sequence[FittedTimes], figure: Figure, look: Look) -> None:
    across = _across(len(layers), look.inches)
    down = -(-len(layers) // across)
    grid: Any = figure.subplots(2 * down, across, squeeze=False, height_ratios=(3, 1) * down)
    for number, layer in enumerate(layers):
        above, below = (grid[2 * (number // across) + part][number % across] for part in (0, 1))
        above.sharex(below)
        above.tick_params(labelbottom=False)
        _draw_times(above, layer, look)
        _draw_errors(below, layer, look)
    for number in range(len(layers), down * across):
        for part in (0, 1):
            grid[2 * (number // across) + part][number % across].remove()
    handles = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    add_legend(figure, list(handles.values()), replace(look, legend=look.legend or "below"))


def _draw_times(axes: Axes, layer: FittedTimes, look: Look) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_title(layer.title, loc="left", color=INK)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    micro = [1e6 * time for time in layer.measured_s]
    axes.plot(_places(layer.sizes), micro, ".", color=COLOURS[0], markersize=4 * look.scale, label="measured")
    for index, (sizes, seconds) in enumerate(layer.line):
        label = "fitted" if index == 0 else None
        axes.plot(_places(sizes), [1e6 * time for time in seconds], color=COLOURS[1], label=label)
    _mark_threshold(axes, layer)
    axes.set_ylabel("one way [us]", color=INK)
    tidy(axes, grid="both")


def _draw_errors(axes: Axes, layer: FittedTimes, look: Look) -> None:
    errors = [100 * (fitted / measured - 1) for fitted, measured in zip(layer.fitted_s, layer.measured_s, strict=True)]
    axes.plot(_places(layer.sizes), errors, ".", color=COLOURS[1], markersize=4 * look.scale)
    axes.axhline(0, color=INK, linewidth=0.8)
    _mark_threshold(axes, layer)
    axes.set_ylabel("error [%]", color=INK)
    axes.set_xlabel(look.labels[0] or "message", color=INK)
    places = [2**power for power in range(0, max(int(max(layer.sizes)), 1).bit_length(), _DEGREES)]
    axes.set_xticks([_NO_BYTES_AT, *places])
    axes.xaxis.set_major_formatter(lambda value, _: "0 B" if value < 1 else format_size(int(value)))
    axes.minorticks_off()
    tidy(axes, grid="both")


def _places(sizes: Sequence[float]) -> list[float]:
    return [max(size, _NO_BYTES_AT) for size in sizes]


def _mark_threshold(axes: Axes, layer: FittedTimes) -> None:
    if layer.threshold_bytes is not None:
        axes.axvline(layer.threshold_bytes, color=INK, linewidth=0.8, linestyle=":", label="eager up to here")
