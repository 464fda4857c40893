"""Pictures of fitted costs: one-way times by size as they were measured and as the machine has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xsim_py.report.style import COLOURS, INK, new_figure, save, tidy
from xsim_py.units import format_size

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

_NO_BYTES_AT = 0.25  # a logarithmic axis has no place for 0
_DEGREES = 4  # powers of two from one tick to the next: 16


@dataclass(frozen=True)
class FittedTimes:
    """The times of one layer.

    Attributes
    ----------
    title
        The layer's name, and what is worth saying of it.
    sizes, measured_s, fitted_s
        Bytes and seconds of what was measured, and what was fitted to it.
    line
        Sizes and fitted seconds of each segment, for a line that has a gap where the times jump.
    threshold_bytes
        The largest eager message, if there is one.
    """

    title: str
    sizes: Sequence[float]
    measured_s: Sequence[float]
    fitted_s: Sequence[float]
    line: Sequence[tuple[Sequence[float], Sequence[float]]]
    threshold_bytes: int | None


def draw_fitted_times(layers: Sequence[FittedTimes], target: str | Path) -> None:
    """Draw times and errors of each layer into a file, whose suffix says the format.

    Raises
    ------
    ConfigError
        When matplotlib is not installed.
    """
    figure = new_figure(6.4 * len(layers), 6.0)
    grid: Any = figure.subplots(2, len(layers), squeeze=False, sharex="col", height_ratios=(3, 1))
    for column, layer in enumerate(layers):
        _draw_times(grid[0][column], layer)
        _draw_errors(grid[1][column], layer)
    save(figure, target)


def _draw_times(axes: Axes, layer: FittedTimes) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.set_title(layer.title, fontsize=10, loc="left", color=INK)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    micro = [1e6 * time for time in layer.measured_s]
    axes.plot(_places(layer.sizes), micro, ".", color=COLOURS[0], markersize=4, label="measured")
    for index, (sizes, seconds) in enumerate(layer.line):
        label = "fitted" if index == 0 else None
        axes.plot(_places(sizes), [1e6 * time for time in seconds], color=COLOURS[1], linewidth=1.5, label=label)
    _mark_threshold(axes, layer)
    axes.set_ylabel("one way (us)")
    axes.legend(frameon=False, fontsize=9)
    tidy(axes, grid="both")


def _draw_errors(axes: Axes, layer: FittedTimes) -> None:
    errors = [100 * (fitted / measured - 1) for fitted, measured in zip(layer.fitted_s, layer.measured_s, strict=True)]
    axes.plot(_places(layer.sizes), errors, ".", color=COLOURS[1], markersize=4)
    axes.axhline(0, color=INK, linewidth=0.8)
    _mark_threshold(axes, layer)
    axes.set_ylabel("error (%)")
    axes.set_xlabel("message")
    places = [2**power for power in range(0, max(int(max(layer.sizes)), 1).bit_length(), _DEGREES)]
    axes.set_xticks([_NO_BYTES_AT, *places], ["0 B", *map(format_size, places)], fontsize=8)
    axes.minorticks_off()
    tidy(axes, grid="both")


def _places(sizes: Sequence[float]) -> list[float]:
    return [max(size, _NO_BYTES_AT) for size in sizes]


def _mark_threshold(axes: Axes, layer: FittedTimes) -> None:
    if layer.threshold_bytes is not None:
        axes.axvline(layer.threshold_bytes, color=INK, linewidth=0.8, linestyle=":", label="eager up to here")
