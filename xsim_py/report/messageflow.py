"""Message-flow diagrams of an operation, step by step, as a figure and as text.

A node is a vertical line, a message an arrow from the step in which it is sent to the step in which it is received.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.report.style import COLOURS, INK, Look, add_legend, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NODES_DRAWN = 64
"""With more, lines and arrows overlap too much."""

_LIVE = "#8a8a8a"
_DONE = "#d5d5d5"
_DEAD = "#CC0000"
_ACTION = 16  # characters of the column with the step


class _Stroke(NamedTuple):
    colour: str
    dashes: Any
    width: float


_STROKES = {
    "DATA": _Stroke(COLOURS[0], "-", 1.7),
    "KEEPALIVE": _Stroke(COLOURS[1], (0, (4, 1.5)), 1.2),
    "ACK": _Stroke(COLOURS[2], (0, (1, 1.2)), 1.2),
}


class Arrow(NamedTuple):
    """A message, with its send step, arrival and receive step (None: never)."""

    kind: str
    source: int
    sent: int
    dest: int
    arrived: int
    taken: int | None


@dataclass(frozen=True, kw_only=True)
class MessageFlow:
    """One run of an operation; all times are steps."""

    nodes: int
    """The number of nodes."""
    title: str = ""
    """The title of the figure."""
    arrows: Sequence[Arrow] = ()
    """The messages, in the order in which they were sent."""
    deaths: Mapping[int, int] = field(default_factory=dict)
    starts: Mapping[int, int] = field(default_factory=dict)
    finishes: Mapping[int, int] = field(default_factory=dict)
    """The steps in which nodes failed, began, and first had nothing left to send; by default never, 0, and never."""
    learned: Sequence[tuple[int, int, int]] = ()
    """Step, node, and the failed node of which it was notified."""
    end: int = 0
    """The last step."""

    # ------------------------------------------------------------------------------------------------- the text

    def text(self, *, width: int = 100) -> str:
        """Return a line for each step with events, wrapped to the width."""
        happened: dict[int, list[str]] = {}
        for step, said in sorted(self._events(), key=lambda event: event[0]):
            happened.setdefault(step, []).append(said)
        margin = max(len(f"{step:,}") for step in (*happened, 0)) + 2
        lines = [self.title] if self.title else []
        for step, words in happened.items():
            head = f"{step:>{margin - 2},}  "
            lines += textwrap.wrap(
                "; ".join(words), max(width, 2 * margin), initial_indent=head, subsequent_indent=" " * margin
            )
        return "\n".join(lines)

    def _events(self) -> Iterator[tuple[int, str]]:
        """Yield step and text: failures, notifications, receives and sends, then finished nodes."""
        yield from ((step, f"{node} dies" if step else f"{node} is dead") for node, step in self.deaths.items())
        yield from ((step, f"{node} begins") for node, step in self.starts.items() if step)
        yield from ((step, f"{node} learns that {dead} is dead") for step, node, dead in self.learned)
        actions = [(arrow.sent, arrow.source, f"sends {arrow.kind} to {arrow.dest}") for arrow in self.arrows]
        actions += [
            (arrow.taken, arrow.dest, f"takes {arrow.kind} from {arrow.source}")
            for arrow in self.arrows
            if arrow.taken is not None
        ]
        yield from ((step, f"{node} {said}") for step, node, said in sorted(actions))
        yield from ((step, f"{node} is finished") for node, step in self.finishes.items())

    # ----------------------------------------------------------------------------------------------- the figure

    def draw(self, target: str | Path | None = None, *, look: Look | None = None) -> Figure:
        """Return the figure, and write it if there is a target."""
        height = min(max(0.075 * self.end + 1.6, 3.2), 11.0)
        return drawn(self._compose, target, look, min(max(0.95 * self.nodes + 2.6, 5.0), 16.0), height)

    def _compose(self, figure: Figure, look: Look) -> None:
        axes = figure.subplots()
        for node in range(self.nodes):
            self._draw_life(axes, node, look.scale)
        for arrow in self.arrows:
            self._draw_arrow(axes, arrow, look.scale)
        for step, node, dead in self.learned:
            axes.plot([node], [step], marker="D", color=_DEAD, markersize=4.5 * look.scale, zorder=4)
            place: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
            axes.annotate(f"{dead} is dead", (node, step), color=_DEAD, fontsize=7.5 * look.scale, **place)
        axes.set_ylim(self.end + 1.5, -1.5)
        axes.set_xlim(-0.6, self.nodes - 0.4)
        axes.set_xticks(range(self.nodes), [str(node) for node in range(self.nodes)])
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        look.describe(axes, title=self.title, x="node", y="step")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        add_legend(figure, self._keys(look.scale), look, least=1)

    def _draw_life(self, axes: Axes, node: int, size: float) -> None:
        """Draw a node's line: dotted before it begins, pale once it has nothing left to send."""
        start, death = self.starts.get(node, 0), self.deaths.get(node)
        last = self.end if death is None else death
        done = min(self.finishes.get(node, last), last)
        start = min(start, last)
        for first, until, colour, dashes in (
            (0, start, _LIVE, ":"),
            (start, done, _LIVE, "-"),
            (done, last, _DONE, "-"),
        ):
            if until > first:
                axes.plot([node, node], [first, until], color=colour, linestyle=dashes, linewidth=2.2 * size, zorder=1)
        if death is not None:
            axes.plot([node], [death], "X", color="black", markeredgecolor="white", markersize=10 * size, zorder=5)
        elif node in self.finishes:
            axes.plot([node], [self.finishes[node]], "o", color=_LIVE, markersize=5.5 * size, zorder=3)

    def _draw_arrow(self, axes: Axes, arrow: Arrow, size: float) -> None:
        stroke = _STROKES[arrow.kind]
        end = min(arrow.arrived if arrow.taken is None else arrow.taken, self.end + 1)
        axes.annotate(
            "",
            xy=(arrow.dest, end),
            xytext=(arrow.source, arrow.sent),
            arrowprops={
                "arrowstyle": "-|>,head_width=0.18,head_length=0.4",
                "mutation_scale": 10 * size,
                "color": stroke.colour,
                "linewidth": stroke.width * size,
                "linestyle": stroke.dashes,
                "shrinkA": 0,
                "shrinkB": 2,
            },
            zorder=2,
        )
        death = self.deaths.get(arrow.dest)
        if arrow.taken is None and death is not None:
            axes.plot(
                [arrow.dest], [end], "x", color=stroke.colour, markersize=6 * size, markeredgewidth=1.6 * size, zorder=4
            )

    def _keys(self, size: float) -> list[Any]:
        """Return the legend entries for the elements in this figure."""
        from matplotlib.lines import Line2D

        there = {arrow.kind for arrow in self.arrows}
        lost = any(arrow.taken is None and arrow.dest in self.deaths for arrow in self.arrows)
        signs = (
            (self.finishes, "o", _LIVE, 5.5 * size, "nothing left to send"),
            (self.deaths, "X", "black", 8 * size, "dead"),
            (lost, "x", INK, 6 * size, "lost"),
            (self.learned, "D", _DEAD, 4.5 * size, "learns of a death"),
        )
        return [
            *(
                Line2D([], [], color=stroke.colour, linestyle=stroke.dashes, linewidth=stroke.width * size, label=kind)
                for kind, stroke in _STROKES.items()
                if kind in there
            ),
            *(
                Line2D([], [], marker=marker, color=colour, linestyle="none", markersize=points, label=label)
                for is_there, marker, colour, points, label in signs
                if is_there
            ),
        ]
