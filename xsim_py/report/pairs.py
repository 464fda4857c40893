"""Communication matrices: messages or bytes per pair of ranks or nodes."""

from __future__ import annotations

from math import ceil, floor, log
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.errors import ConfigError
from xsim_py.report.style import INK, Look, drawn, rank_step
from xsim_py.units import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from xsim_py.report.table import Table

_MOST_CELLS = 1024
_WIDE = 100
_MOST_TICKS = 8


def matrix(table: Table, *, ranks: int, of: str = "bytes", node_of: Sequence[int] | None = None) -> NDArray[np.int64]:
    """Return the communication matrix: a row per source rank, a column per destination rank.

    It counts ``bytes`` or ``messages``. With `node_of`, the node of each rank, rows and columns are nodes.
    """
    if of not in ("bytes", "messages"):
        raise ConfigError(f"pairs of {of!r}: it is 'bytes' or 'messages'")
    place = np.arange(ranks) if node_of is None else np.array(node_of, int)
    size = int(place.max(initial=-1)) + 1
    sums = np.zeros((size, size), np.int64)
    np.add.at(sums, (place[table["source"]], place[table["dest"]]), np.array(table[of], np.int64))
    return sums


def draw_pairs(
    table: Table,
    target: str | Path | None = None,
    *,
    ranks: int,
    of: str = "bytes",
    node_of: Sequence[int] | None = None,
    title: str = "",
    look: Look | None = None,
) -> Figure:
    """Draw `matrix` as a heat map; pairs without messages stay white.

    The name of `target` ends with ``.png``, ``.svg`` or ``.pdf``. Raise ConfigError if pairs were not counted.
    """
    if not len(table) and ranks > _MOST_CELLS:
        raise ConfigError(f"pairs of ranks are counted in runs of up to {_MOST_CELLS:,} ranks; this one had {ranks:,}")
    sums = matrix(table, ranks=ranks, of=of, node_of=node_of)
    what = "rank" if node_of is None else "node"
    return drawn(lambda figure, look: _compose(sums, of, what, title, figure, look), target, look, 5.6, 4.8)


def _compose(sums: NDArray[np.int64], of: str, what: str, title: str, figure: Figure, look: Look) -> None:
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.ticker import MultipleLocator

    axes = figure.subplots()
    shown: Any = np.ma.masked_equal(sums, 0)
    low, high = (float(edge) for edge in (shown.min(), shown.max())) if sums.any() else (0.0, 1.0)
    # Otherwise a few long messages would give all others one colour.
    norm = LogNorm(low, high) if 0 < low * _WIDE < high else Normalize(0, high)
    image = axes.imshow(shown, cmap="viridis_r", norm=norm, interpolation="nearest", origin="upper")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MultipleLocator(rank_step(max(len(sums), 1))))
    look.describe(axes, title=title, x=f"to {what}", y=f"from {what}")
    place = axes.inset_axes((1.04, 0, 0.05, 1))  # as high as the matrix at any size
    bar = figure.colorbar(image, cax=place)
    number_bar(bar, low, high, of, logarithmic=isinstance(norm, LogNorm))


def number_bar(bar: Colorbar, low: float, high: float, of: str, *, label: str = "", logarithmic: bool = False) -> None:
    """Label a colour bar of bytes or messages with plain numbers: 1 KiB, 1 MiB."""
    bar.set_ticks(_ticks(low, high, 1024 if of == "bytes" else 10, logarithmic=logarithmic))
    bar.minorticks_off()
    bar.ax.yaxis.set_major_formatter(lambda value, _: format_size(int(value)) if of == "bytes" else f"{value:,.0f}")
    bar.ax.tick_params(colors=INK)
    bar.set_label(label or of, color=INK)


def _ticks(low: float, high: float, base: int, *, logarithmic: bool) -> list[float]:
    """Return values to label: multiples of a power of two or ten; on a log scale, such powers."""
    root = 2 if base == 1024 else 10
    if logarithmic:
        powers = [root**power for power in range(ceil(log(low, root)), floor(log(high, root) + 1e-9) + 1)]
        every = max(1, -(-len(powers) // _MOST_TICKS))
        return [float(power) for power in powers[::-every][::-1]]
    unit = float(root ** max(floor(log(max(high, 1), root)), 0))
    steps = (part for part in (unit / 4, unit / 2, unit, 2 * unit) if part == int(part))
    step = next(part for part in steps if high <= _MOST_TICKS * part)
    return [step * index for index in range(int(high / step) + 1)]
