"""What all pictures have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.errors import ConfigError
from xsim_py.whole import whole_path

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "INK", "MARKERS", "new_figure", "save", "tidy", "time_scale"]

# Okabe and Ito's palette, which the colour-blind tell apart, without its yellow (too light for a line).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = "osD^vPX"
INK = "#333333"


def new_figure(width: float, height: float) -> Figure:
    """Return an empty picture of that many inches.

    Raises
    ------
    ConfigError
        When matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("a picture needs matplotlib; install it with: pip install 'xsim-py[plot]'") from error
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def save(figure: Figure, target: str | Path) -> None:
    """Write a picture, whole or not at all; the name's suffix says how."""
    with whole_path(target) as path:
        figure.savefig(path)


def time_scale(time_s: float) -> tuple[float, str]:
    """Return the factor from seconds, and its unit, that makes a time at least 1."""
    steps = ((1.0, "s"), (1e3, "ms"), (1e6, "us"), (1e9, "ns"))
    return next(((factor, unit) for factor, unit in steps if time_s * factor >= 1), (1.0, "s"))


def tidy(axes: Axes, *, grid: str) -> None:
    """Leave of the frame what carries meaning."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color="#dddddd", linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK)
