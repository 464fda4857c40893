"""Timelines of recovery schemes: a bar for each scheme and failure, as in figure 5 of the FTCO paper.

Waits of seconds appear next to work of microseconds, so very long phases are not to scale, which hatching and a label
show. Everything else has one common scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xsim_py.report.phases import PHASES, Phase, Phases
from xsim_py.report.style import INK, Look, add_legend, drawn
from xsim_py.units import format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PHASE_COLOURS: Final = {
    "collective": "#0072B2",
    "communication": "#0072B2",
    "agreement": "#F0E442",
    "detection": "#C4C4C4",
    "resume": "#009E73",
    "propagation": "#CC79A7",
    "revoke": "#E69F00",
    "repair": "#D55E00",
    "retry": "#56B4E9",
    "restart delay": "#E4E4E4",
    "recomputation": "#7A3DB8",
    "own work": "#F3F3F3",
}
"""The colour of each phase."""
_MAY_BE_LONG: Final = ("detection", "restart delay", "recomputation", "own work")
_MAY_BE_LONG_IN_JOBS: Final = (*_MAY_BE_LONG, "repair")  # new processes have to start
_TIMES_LONGER: Final = 20  # than the longest other phase: then one of these is not drawn to scale
_LONG_SHARE: Final = 0.13  # of the widest bar's other phases, for the shortest phase that is not to scale
_SCALES: Final = (1, 2, 5)


class PhaseBar(NamedTuple):
    """The phases of one run, with its labels."""

    scheme: str
    failures: str
    victims: Sequence[str]
    phases: Phases


class PhasePiece(NamedTuple):
    """One phase in a bar."""

    row: int
    """The number of the bar."""
    phase: Phase
    left_ps: float
    width_ps: float
    is_long: bool
    """Whether it is not to scale."""


class PhaseBars:
    """Bars of phases, one below the other, some of them not to scale."""

    def __init__(self, bars: Sequence[PhaseBar]) -> None:
        self._bars = [bar._replace(phases=bar.phases.summed()) if bar.phases.whole else bar for bar in bars]
        every = [phase for bar in self._bars for phase in bar.phases.phases]
        whole = any(bar.phases.whole for bar in self._bars)
        self._long_ps = _long_from(every, _MAY_BE_LONG_IN_JOBS if whole else _MAY_BE_LONG)
        self._shortest_long_ps = min((p.time_ps for p in every if p.time_ps >= self._long_ps), default=1)
        to_scale = [sum(p.time_ps for p in bar.phases.phases if p.time_ps < self._long_ps) for bar in self._bars]
        self._long_width = max(*to_scale, 1) * _LONG_SHARE
        self.width_ps = max(sum(map(self._width_of, bar.phases.phases)) for bar in self._bars)

    def pieces(self) -> Iterator[PhasePiece]:
        """Yield the phases of all bars, with their positions."""
        for row, bar in enumerate(self._bars):
            left = 0.0
            for phase in bar.phases.phases:
                width = self._width_of(phase)
                yield PhasePiece(row, phase, left, width, phase.time_ps >= self._long_ps)
                left += width

    def _width_of(self, phase: Phase) -> float:
        """Return the width of a phase in ps; if not to scale, it grows with the logarithm."""
        if phase.time_ps < self._long_ps:
            return phase.time_ps
        ratio = phase.time_ps / self._shortest_long_ps
        return self._long_width * (ratio if ratio < 2 else 1 + math.log2(ratio))

    def draw(self, target: str | Path | None = None, *, title: str = "", look: Look | None = None) -> Figure:
        """Return the figure, and write it if there is a target."""
        codes = {bar.failures for bar in self._bars}
        height = 1.5 + 0.34 * len(self._bars) + 0.18 * len(codes)
        return drawn(lambda figure, look: self._compose(figure, look, title), target, look, 10, height, rows=True)

    def _compose(self, figure: Figure, look: Look, title: str) -> None:
        axes = figure.subplots()
        names = [bar.scheme for bar in self._bars]
        room = figure.get_size_inches()[0] - 0.09 * look.scale * max(map(len, names))
        share = min(0.75 * look.scale / room, 0.4)  # of the axis, for a total after the longest bar
        letter = look.scale / 15 * self.width_ps / ((1 - share) * room)
        at, places, before = 0.0, [], None
        groups: dict[str, tuple[float, Sequence[str]]] = {}
        for row, bar in enumerate(self._bars):
            at += 1.0 if bar.failures == before else 1.55
            before = bar.failures
            places.append(at)
            groups.setdefault(bar.failures, (at, bar.victims))
            self._draw_bar(axes, at, row, look, letter)
        axes.set_yticks(places, names)
        for code, (above, victims) in groups.items():
            self._name_group(axes, above - 0.62, code, victims, look)
        axes.set_ylim(at + 1.0, places[0] - 1.25)
        right = self.width_ps / (1 - share)
        axes.set_xlim(0, right)
        look.describe(axes, title=title)
        axes.tick_params(length=0)
        axes.set_xticks([])
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        self._draw_scale(axes, at + 0.8, right, look)
        self._draw_legend(figure, look)

    def _draw_bar(self, axes: Axes, at: float, row: int, look: Look, letter: float) -> None:
        """Draw the phases of a bar, with times that fit; `letter` is the width of a character."""
        end = 0.0
        for piece in self.pieces():
            if piece.row != row:
                continue
            colour, end = PHASE_COLOURS[piece.phase.name], piece.left_ps + piece.width_ps
            hatch = "////" if piece.is_long else None
            style: dict[str, Any] = {"height": 0.74, "color": colour, "edgecolor": "white", "linewidth": 0.6}
            axes.barh(at, piece.width_ps, left=piece.left_ps, hatch=hatch, **style)
            figure = format_time(piece.phase.time_ps, digits=3)
            if piece.is_long or piece.width_ps > letter * (len(figure) + 1):
                ink = "white" if _is_dark(colour) and not piece.is_long else INK
                backing = {"facecolor": "white", "edgecolor": "none", "pad": 1.2} if piece.is_long else None
                style = {"ha": "center", "va": "center", "color": ink, "bbox": backing}
                axes.text(piece.left_ps + piece.width_ps / 2, at, figure, fontsize=7.5 * look.scale, **style)
        total = format_time(self._bars[row].phases.total_ps, digits=7)
        axes.text(end + 0.01 * self.width_ps, at, total, ha="left", va="center", fontsize=8.5 * look.scale, color=INK)

    def _name_group(self, axes: Axes, at: float, code: str, victims: Sequence[str], look: Look) -> None:
        if code == "none":
            label = "no failure"
        else:
            label = f"{code}: rank{'s' * (len(victims) > 1)} {', '.join(victims)} dead"
        style: dict[str, Any] = {"ha": "left", "va": "bottom", "fontsize": look.small, "fontweight": "bold"}
        axes.annotate(
            label, (0, at), xytext=(5, 0), textcoords="offset points", color=INK, **style
        )  # right of the axis

    def _draw_scale(self, axes: Axes, at: float, end: float, look: Look) -> None:
        """Draw a scale bar with its length."""
        length_ps = next(
            factor * 10**power for power in range(15, -1, -1) for factor in (5, 2, 1)
            if factor * 10**power <= 0.2 * self.width_ps
        )  # fmt: skip
        right = 0.98 * end
        axes.plot([right - length_ps, right], [at, at], color=INK, linewidth=2.4 * look.scale, solid_capstyle="butt")
        label = format_time(length_ps)
        if any(piece.is_long for piece in self.pieces()):
            label += " (hatched: not to scale)"
        style: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": 8.5 * look.scale, "color": INK}
        axes.text(right - length_ps - 0.01 * self.width_ps, at, label, **style)

    def _draw_legend(self, figure: Figure, look: Look) -> None:
        from matplotlib.patches import Patch

        there = {piece.phase.name for piece in self.pieces()}
        keys = [Patch(facecolor=PHASE_COLOURS[name], label=name) for name in PHASES if name in there]
        add_legend(figure, keys, replace(look, legend=look.legend or "below"), least=1, long=1.5)


def _long_from(phases: Sequence[Phase], may_be_long: Sequence[str]) -> float:
    """Return the time from which phases that may be long are not drawn to scale."""
    longest_ps = max((phase.time_ps for phase in phases if phase.name not in may_be_long), default=0)
    return max(_TIMES_LONGER * longest_ps, 1) if longest_ps else float("inf")


def _is_dark(colour: str) -> bool:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return 299 * red + 587 * green + 114 * blue < 140_000
