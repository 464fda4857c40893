"""Who sends how much to whom, as a matrix: between ranks, or between nodes."""

from __future__ import annotations

from math import ceil, floor, log
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.errors import ConfigError
from xsim_py.report.style import INK, Look, rank_step, save
from xsim_py.units import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from xsim_py.report.table import Table

_MOST_CELLS = 1024
_WIDE = 100
_MOST_TICKS = 8


def matrix(table: Table, *, ranks: int, of: str = "bytes", node_of: Sequence[int] | None = None) -> NDArray[np.int64]:
    """Return what went from each rank (the rows) to each other one (the columns), or from node to node.

    Parameters
    ----------
    table : Table
        The table ``pairs`` of a run.
    ranks : int
        How many there are.
    of : str, optional
        ``bytes`` or ``messages``.
    node_of : sequence of int, optional
        The node of each rank: then rows and columns are nodes.

    Returns
    -------
    array of int
        Square, of as many rows as there are ranks, or nodes.

    Raises
    ------
    ConfigError
        When `of` is something else.
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
    target: str | Path,
    *,
    ranks: int,
    of: str = "bytes",
    node_of: Sequence[int] | None = None,
    title: str = "",
    look: Look | None = None,
) -> None:
    """Draw `matrix` as a heat map; who has sent nothing to whom stays white.

    Parameters
    ----------
    table, ranks, of, node_of
        As for `matrix`.
    target : path
        Where to; its name ends with ``.png``, ``.svg`` or ``.pdf``.
    title : str, optional
        Stands over the picture.
    look : Look, optional
        Its size and font.

    Raises
    ------
    ConfigError
        When `of` is unknown, pairs were not counted, or matplotlib is not installed.
    """
    if not len(table) and ranks > _MOST_CELLS:
        raise ConfigError(f"pairs of ranks are counted in runs of up to {_MOST_CELLS:,} ranks; this one had {ranks:,}")
    sums = matrix(table, ranks=ranks, of=of, node_of=node_of)
    look = look or Look()
    with look.applied():
        from matplotlib.colors import LogNorm, Normalize
        from matplotlib.ticker import MultipleLocator

        figure = look.figure(5.6, 4.8)
        axes = figure.subplots()
        shown: Any = np.ma.masked_equal(sums, 0)
        low, high = (float(edge) for edge in (shown.min(), shown.max())) if sums.any() else (0.0, 1.0)
        # A few long messages would make all others one colour.
        norm = LogNorm(low, high) if 0 < low * _WIDE < high else Normalize(0, high)
        image = axes.imshow(shown, cmap="viridis_r", norm=norm, interpolation="nearest", origin="upper")
        what = "rank" if node_of is None else "node"
        axes.set_xlabel(f"to {what}", color=INK)
        axes.set_ylabel(f"from {what}", color=INK)
        axes.set_title(title, color=INK, loc="left", fontsize="medium", wrap=True)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MultipleLocator(rank_step(max(len(sums), 1))))
        axes.tick_params(colors=INK)
        beside = axes.inset_axes((1.04, 0, 0.05, 1))  # as high as the matrix, whatever becomes of its size
        bar = figure.colorbar(image, cax=beside, label=of)
        bar.set_ticks(_ticks(low, high, 1024 if of == "bytes" else 10, logarithmic=isinstance(norm, LogNorm)))
        bar.minorticks_off()
        bar.ax.yaxis.set_major_formatter(lambda value, _: format_size(int(value)) if of == "bytes" else f"{value:,.0f}")
        save(figure, target)


def _ticks(low: float, high: float, base: int, *, logarithmic: bool) -> list[float]:
    """Return some values to label: whole steps of a power of two or ten, or such powers on a logarithmic scale."""
    root = 2 if base == 1024 else 10
    if logarithmic:
        powers = [root**power for power in range(ceil(log(low, root)), floor(log(high, root) + 1e-9) + 1)]
        every = max(1, -(-len(powers) // _MOST_TICKS))
        return [float(power) for power in powers[::-every][::-1]]
    unit = float(root ** max(floor(log(max(high, 1), root)), 0))
    steps = (part for part in (unit / 4, unit / 2, unit, 2 * unit) if part == int(part))
    step = next(part for part in steps if high <= _MOST_TICKS * part)
    return [step * index for index in range(int(high / step) + 1)]
