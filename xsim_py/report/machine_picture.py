"""Figures of machines: nodes, switches and links, which may be coloured by load."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xsim_py.errors import ConfigError, advice
from xsim_py.input_files import MIB, read_input
from xsim_py.report.pairs import number_bar
from xsim_py.report.style import COLOURS, Look, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_NAMES: Final = 100  # in a figure of the usual area
_USUAL_AREA: Final = 8.0 * 6.5
_MOST_BYTES: Final = 64 * MIB


@dataclass(frozen=True)
class MachinePicture:
    """The content of a machine's figure.

    `nodes` is True for each vertex that is a node rather than a switch. `links` are pairs of vertex numbers, and
    `loads` the bytes that each link has carried; without them, links are not coloured.
    """

    title: str
    names: Sequence[str]
    places: Sequence[tuple[float, float]]
    nodes: Sequence[bool]
    links: Sequence[tuple[int, int]]
    loads: Sequence[float] | None = None


def read_loads(file: Path) -> dict[str, float]:
    """Return the bytes per link from a CSV file with columns ``link`` and ``bytes``."""
    try:
        text = read_input(file, most_bytes=_MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: invalid UTF-8") from None
    reader = csv.DictReader(io.StringIO(text, newline=""))
    for column in ("link", "bytes"):
        if column not in (reader.fieldnames or ()):
            raise ConfigError(f"{file}:1: missing column {column}; {advice(column, reader.fieldnames or ())}")
    loads: dict[str, float] = {}
    for row in reader:
        try:
            load = float(row["bytes"])
        except (TypeError, ValueError):
            load = math.nan
        if not 0 <= load < math.inf:
            raise ConfigError(f"{file}:{reader.line_num}: expected a number of bytes, got {row['bytes']!r}")
        loads[row["link"]] = loads.get(row["link"], 0.0) + load
    return loads


def draw_machine(machine: MachinePicture, target: str | Path | None = None, *, look: Look | None = None) -> Figure:
    """Draw a machine, and write the figure if there is a target."""
    return drawn(lambda figure, look: _compose(machine, figure, look), target, look, 8.0, 6.5)


def _compose(machine: MachinePicture, figure: Figure, look: Look) -> None:
    axes: Any = figure.subplots()
    look.set_title(axes.set_title, machine.title, loc="left")
    _draw_links(axes, [(machine.places[a], machine.places[b]) for a, b in machine.links], machine.loads)
    room = math.prod(figure.get_size_inches()) / _USUAL_AREA
    for is_node, marker, colour, size in ((True, "o", COLOURS[0], 18), (False, "s", COLOURS[1], 34)):
        at = [place for place, node in zip(machine.places, machine.nodes, strict=True) if node == is_node]
        if at:
            axes.scatter(*zip(*at, strict=True), marker=marker, color=colour, s=size * math.sqrt(room), zorder=3)
    if len(machine.names) <= _MOST_NAMES * room / look.scale**2:
        points = max(0.6 * look.points, 6)
        names = [
            axes.annotate(name, place, (3, 3), textcoords="offset points", fontsize=points, zorder=4)
            for name, place in zip(machine.names, machine.places, strict=True)
        ]
        figure.draw_without_rendering()  # places them
        boxes: list[Any] = []
        for name in names:
            box = name.get_window_extent()
            name.set_visible(not any(box.overlaps(other) for other in boxes))
            boxes += [box] if name.get_visible() else []
    axes.set_axis_off()


def _draw_links(axes: Axes, lines: list[Any], loads: Sequence[float] | None) -> None:
    """Draw links as lines, loaded ones on top, with a colour bar."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

    if loads is None:
        axes.add_collection(LineCollection(lines, colors="#999999", linewidths=0.7, zorder=1))
        axes.autoscale_view()
        return
    order = sorted(range(len(lines)), key=loads.__getitem__)
    most = max(loads, default=0.0) or 1.0
    lines_drawn = LineCollection(
        [lines[index] for index in order],
        array=[loads[index] for index in order],
        cmap="viridis_r",
        norm=Normalize(0, most),
        linewidths=[0.5 + 2.5 * loads[index] / most for index in order],
        zorder=1,
    )
    axes.add_collection(lines_drawn)
    axes.autoscale_view()
    figure: Any = axes.figure
    bar = figure.colorbar(lines_drawn, ax=axes, shrink=0.7)
    number_bar(bar, 0, most, "bytes", label="bytes on a link, one way")
