"""Timelines of a traced run: one row per rank, a colour for each MPI call, and failures.

A figure and lines of text are based on the same computation: the time that each row spent in each call, in each of some
hundred time slices. If there are more ranks than rows, a row represents several neighbours, and a slice shows the
activity with the largest share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.errors import ConfigError
from xsim_py.report.style import INK, Look, add_legend, drawn, rank_step, time_scale
from xsim_py.report.view import PictureView
from xsim_py.units import PS_PER_S, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from xsim_py.trace import Mark, Message, Trace

_MOST_ROWS_DRAWN = 256
_MOST_ROWS_APART = 48
_MOST_ROWS_WRITTEN = 32
_CALL_COLOURS = ("#0072B2", "#E69F00", "#08306B", "#D55E00", "#A6D8F5", "#DEA1C3")  # 0.08 apart as greys
_MOST_CALLS = len(_CALL_COLOURS)
_MOST_ARROWS = 300
_MOST_APART = 3000
_MOST_MARKS_WRITTEN = 20
_BINS_DRAWN = 1600
_OTHER = "other calls"
_OTHER_COLOUR = "#8C8C8C"
WORK_COLOUR = "#ececec"
"""The colour of a rank's own work."""
IN_ROW = {"learned": "#CC0000", "revoked": "#7A3DB8", "checkpoint": "#009E73"}
ACROSS = {"aborted": "#CC0000", "restart": "#009E73"}
"""The colours of marks in a rank's row, and of those that concern all rows."""
_DASHES = {"learned": (2, 1), "revoked": (1, 1)}  # of marks in a row


class Timeline:
    """A run, as rows over time.

    `lives` are lifetimes: rank, begin and end in picoseconds; several per rank after restarts of the job. Without a
    view, everything is shown in the default style. Raises ConfigError if the view is empty.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        ranks: int,
        lives: Sequence[tuple[int, int, int]],
        title: str = "",
        view: PictureView | None = None,
    ) -> None:
        self._view = view or PictureView()
        whole_ps = max((end_ps for *_, end_ps in lives), default=0) or 1
        self._since_ps = self._view.since_ps
        self._end_ps = whole_ps if self._view.until_ps is None else self._view.until_ps
        if self._since_ps >= min(self._end_ps, whole_ps):
            began, ended = (format_time(time_ps, digits=None) for time_ps in (self._since_ps, whole_ps))
            raise ConfigError(f"a timeline from {began} on is empty: the run ends at {ended}")
        self._shown = list(range(ranks) if self._view.ranks is None else self._view.ranks)
        if self._shown[-1] >= ranks:
            raise ConfigError(f"a timeline of rank {self._shown[-1]}: the ranks of the run are 0 to {ranks - 1}")
        self._size = len(self._shown)
        self._row = {rank: row for row, rank in enumerate(self._shown)}
        self._trace = trace
        self._lives = self._clipped([(rank, 0, start_ps, end_ps) for rank, start_ps, end_ps in lives])[:, [0, 2, 3]]
        self._title = title
        kinds: dict[str, int] = {}
        spans = self._clipped(
            [(span.rank, kinds.setdefault(span.name, len(kinds)), span.start_ps, span.end_ps) for span in trace.spans]
        )
        listed = list(kinds)
        names = [listed[int(kind)] for kind in spans[:, 1]]
        self._ranks = spans[:, 0].astype(int)
        self._starts, self._stops = spans[:, 2], spans[:, 3]
        self._calls = longest_calls(names, self._stops - self._starts)
        numbers = {name: number for number, name in enumerate(self._calls)}
        other = numbers.get(_OTHER, -1)
        self._kinds = np.array([numbers.get(name, other) for name in names], int)
        self._marks = [
            mark for mark in trace.marks if mark.rank in self._row and self._since_ps <= mark.time_ps <= self._end_ps
        ]

    def _clipped(self, rows: Sequence[tuple[int, int, int, int | None]]) -> NDArray[np.float64]:
        """Return the displayed intervals: row, kind, and both times relative to the range."""
        kept = [
            (self._row[rank], kind, max(start_ps - self._since_ps, 0), min(stop_ps, self._end_ps) - self._since_ps)
            for rank, kind, start_ps, end_ps in rows
            if rank in self._row
            and start_ps <= self._end_ps
            and (stop_ps := self._end_ps if end_ps is None else end_ps) >= self._since_ps
        ]
        return np.array(kept, float).reshape(-1, 4)

    # ------------------------------------------------------------------------------------------- the computation

    def _row_of(self, most_rows: int) -> tuple[int, int]:
        """Return the number of ranks per row, and the number of rows."""
        each = -(-self._size // most_rows)
        return each, -(-self._size // each)

    def _shares(self, each: int, rows: int, bins: int) -> NDArray[np.float64]:
        """Return the time per row, call and slice; last, its own code and outside its lifetime."""
        grids = np.zeros((len(self._calls) + 2, rows, bins))
        for kind in range(len(self._calls)):
            chosen = self._kinds == kind
            self._add_intervals(grids[kind], self._ranks[chosen] // each, self._starts[chosen], self._stops[chosen])
        self._add_intervals(grids[-2], self._lives[:, 0].astype(int) // each, self._lives[:, 1], self._lives[:, 2])
        grids[-2] -= grids[:-2].sum(axis=0)
        members = np.bincount(np.arange(self._size) // each)
        grids[-1] = members[:, np.newaxis] - grids[:-1].sum(axis=0)
        return grids

    def _add_intervals(self, grid: NDArray[Any], rows: NDArray[Any], starts: NDArray[Any], stops: NDArray[Any]) -> None:
        """Add intervals to the time slices that they overlap, in units of slices."""
        bins = grid.shape[1]
        length_ps = self._end_ps - self._since_ps
        starts, stops = starts * bins / length_ps, stops * bins / length_ps
        first = np.minimum(starts.astype(int), bins - 1)
        last = np.minimum(stops.astype(int), bins - 1)
        inside = first == last
        np.add.at(grid, (rows[inside], first[inside]), (stops - starts)[inside])
        across = ~inside
        np.add.at(grid, (rows[across], first[across]), (first + 1 - starts)[across])
        np.add.at(grid, (rows[across], last[across]), (stops - last)[across])
        steps = np.zeros((grid.shape[0], bins + 1))
        np.add.at(steps, (rows[across], first[across] + 1), 1)
        np.add.at(steps, (rows[across], last[across]), -1)
        grid += steps.cumsum(axis=1)[:, :-1]

    # ---------------------------------------------------------------------------------------------- the figure

    def draw(self, target: str | Path | None = None, *, messages: bool | None = None) -> Figure:
        """Return the figure, and write it if there is a target.

        The target ends with ``.png``, ``.svg`` or ``.pdf``. By default, messages are drawn as arrows if they are few
        and each rank has a row.
        """
        _, rows = self._row_of(_MOST_ROWS_DRAWN)
        height = min(max(1.6 + 0.32 * rows, 2.6), 8.0)
        return drawn(lambda figure, look: self._compose(figure, look, messages), target, self._view.look, 10, height)

    def _compose(self, figure: Figure, look: Look, messages: bool | None) -> None:
        """Draw rows, arrows, marks and texts into a figure."""
        axes = figure.subplots()
        each, rows = self._row_of(_MOST_ROWS_DRAWN)
        scale, unit = time_scale(self._end_ps / PS_PER_S)
        factor = scale / PS_PER_S
        keys = self._draw_rows(axes, each, rows, factor)
        if messages is None:
            few = len(self._trace.messages) <= _MOST_ARROWS
            messages = each == 1 and (few or sum(map(self._is_shown, self._trace.messages)) <= _MOST_ARROWS)
        if messages:
            self._draw_arrows(axes, factor)
        keys += self._draw_marks(axes, each * rows, factor, look.scale)
        look.describe(axes, title=self._title, x=f"virtual time [{unit}]", y="rank")
        axes.spines[["top", "right", "left"]].set_visible(False)
        add_legend(figure, keys, look, least=1, long=1.5)

    def _draw_rows(self, axes: Axes, each: int, rows: int, factor: float) -> list[Any]:
        """Paint time slices in the colour of their main activity; return the legend entries."""
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch
        from matplotlib.ticker import MultipleLocator

        shares = self._shares(each, rows, _BINS_DRAWN)
        chosen = shares.argmax(axis=0)
        colours = [*call_colours(self._calls), WORK_COLOUR, "white"]
        names = [*self._calls, "own work"]
        if rows <= _MOST_ROWS_APART:
            # Separate few rows: each is eight lines of the image, of which the outer two are white.
            chosen = np.repeat(chosen, 8, axis=0)
            chosen[0::8] = chosen[7::8] = len(colours) - 1
        extent = (self._since_ps * factor, self._end_ps * factor, rows * each - 0.5, -0.5)
        axes.imshow(
            chosen,
            cmap=ListedColormap(colours),
            vmin=0,
            vmax=len(colours) - 1,
            aspect="auto",
            interpolation="nearest",
            extent=extent,
        )
        if each == 1 and len(self._ranks) <= _MOST_APART:
            low, high = self._ranks - 0.375, self._ranks + 0.375
            axes.vlines((self._since_ps + self._starts) * factor, low, high, colors="white", linewidth=0.6)
        axes.yaxis.set_major_locator(MultipleLocator(rank_step(self._size)))
        if self._view.ranks is not None:
            places = range(0, self._size, rank_step(self._size))
            axes.set_yticks(places, [str(self._shown[place]) for place in places])
        return [Patch(color=colour, label=name) for name, colour in zip(names, colours, strict=False)]

    def _is_shown(self, message: Message) -> bool:
        """Return True if a message connects two rows within the range of time."""
        inside = message.sent_ps <= self._end_ps and (message.arrival_ps or 0) >= self._since_ps
        return inside and message.source in self._row and message.dest in self._row

    def _draw_arrows(self, axes: Axes, factor: float) -> None:
        for message in self._trace.messages:
            if self._is_shown(message) and message.arrival_ps is not None:
                drawn = axes.annotate(
                    "",
                    xy=(message.arrival_ps * factor, self._row[message.dest]),
                    xytext=(message.sent_ps * factor, self._row[message.source]),
                    annotation_clip=False,
                    arrowprops={"arrowstyle": "->", "color": INK, "linewidth": 0.6, "alpha": 0.6, "shrinkA": 0},
                )
                assert drawn.arrow_patch is not None
                drawn.arrow_patch.set_clip_box(axes.bbox)

    def _draw_marks(self, axes: Axes, height: int, factor: float, size: float) -> list[Any]:
        """Draw crosses for failures, dashes for notifications, and lines for the end of the job."""
        tall = max(height / 120, 0.45)
        keys: dict[str, Any] = {}
        for mark in self._marks:
            at = mark.time_ps * factor
            drawn: Artist
            if mark.kind == "failed":
                (drawn,) = axes.plot([at], [self._row[mark.rank]], "kX", markeredgecolor="white", markersize=9 * size)
            elif mark.kind in ACROSS:
                drawn = axes.axvline(at, color=ACROSS[mark.kind], linewidth=1.6 * size)
            else:
                ends = self._row[mark.rank] - tall, self._row[mark.rank] + tall
                colour = IN_ROW.get(mark.kind, INK)
                (drawn,) = axes.plot(
                    [at, at], ends, color=colour, linestyle=(0, _DASHES.get(mark.kind, (4, 1))), linewidth=1.8 * size
                )
            if mark.kind not in keys:
                keys[mark.kind] = drawn
                drawn.set_label(mark.kind)
        return list(keys.values())

    # ------------------------------------------------------------------------------------------------- the text

    def text(self, *, width: int = 100) -> str:
        """Return the rows as text, `width` characters long, with a legend and the marks below."""
        each, rows = self._row_of(_MOST_ROWS_WRITTEN)
        labels = [
            _label(self._shown[row * each], self._shown[min((row + 1) * each, self._size) - 1]) for row in range(rows)
        ]
        room = max(map(len, labels))
        bins = max(width - room - 3, 10)
        letters = _letters(self._calls)
        signs = np.array([*letters, ".", " "])
        cells = signs[self._shares(each, rows, bins).argmax(axis=0)]
        for mark in self._marks:
            if mark.kind == "failed":
                at = (mark.time_ps - self._since_ps) * bins / (self._end_ps - self._since_ps)
                cells[self._row[mark.rank] // each, min(int(at), bins - 1)] = "X"
        slice_ps = (self._end_ps - self._since_ps) // bins
        legend = [f"{letter} {name}" for letter, name in zip(letters, self._calls, strict=True)]
        lines = [
            f"timeline {self._range()}; one character is {format_time(slice_ps)}",
            "  ".join([*legend, ". own work", *(["X died"] if "X" in cells else [])]),
            *(f"{label:>{room}} |{''.join(row)}|" for label, row in zip(labels, cells, strict=True)),
        ]
        return "\n".join([*lines, *_listed(self._marks)])

    def _range(self) -> str:
        """Return the range of time as text."""
        until = format_time(self._end_ps, digits=None)
        return f"from {format_time(self._since_ps, digits=None)} to {until}" if self._since_ps else f"of {until}"


def call_colours(calls: Sequence[str]) -> list[str]:
    """Return the colour of each call; the last entry may be that of all other calls."""
    colours = list((*_CALL_COLOURS, _OTHER_COLOUR)[: len(calls)])
    if calls and calls[-1] == _OTHER:
        colours[-1] = _OTHER_COLOUR
    return colours


def longest_calls(names: list[str], times: NDArray[np.float64]) -> list[str]:
    """Return the calls that took time, longest first, and the rest if there are too many."""
    totals: dict[str, float] = {}
    for name, time in zip(names, times.tolist(), strict=True):
        totals[name] = totals.get(name, 0.0) + time
    order = sorted((name for name in totals if totals[name]), key=lambda name: (-totals[name], name))
    return order if len(order) <= _MOST_CALLS else [*order[:_MOST_CALLS], _OTHER]


def _letters(calls: list[str]) -> list[str]:
    """Return one character for each call: the first free one of its letters."""
    letters: list[str] = []
    for name in calls:
        wanted = "o" if name == _OTHER else f"{name.upper()}{name}0123456789"
        letters.append(next(sign for sign in wanted if sign.isalnum() and sign not in (*letters, "X")))
    return letters


def _label(first: int, last: int) -> str:
    return f"rank {first}" if first == last else f"ranks {first}-{last}"


def _listed(marks: Sequence[Mark]) -> list[str]:
    """Return the marks as text; equal marks of many ranks share a line."""
    groups: dict[tuple[str, str], list[Mark]] = {}
    for mark in marks:
        groups.setdefault((mark.kind, mark.text), []).append(mark)
    lines = []
    for (kind, text), alike in list(groups.items())[:_MOST_MARKS_WRITTEN]:
        first, last = (format_time(mark.time_ps, digits=None) for mark in (alike[0], alike[-1]))
        who = f"rank {alike[0].rank}" if len(alike) == 1 else f"{len(alike):,} ranks"
        when = first if first == last else f"{first} to {last}"
        lines.append(f"{when}  {who}: {kind}{text and ', '}{text}")
    more = len(groups) - _MOST_MARKS_WRITTEN
    return [*lines, f"... and {more:,} more kinds of marks"] if more > 0 else lines
