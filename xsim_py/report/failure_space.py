"""The failure space of a program: its outcome for each failure location."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xsim_py.report.style import Look, add_legend, drawn
from xsim_py.report.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLASSES: Final = ("survived", "wrong result", "aborted", "stalled")
_MARKS: Final = dict(zip(CLASSES, ".WAS", strict=True))
_COLOURS: Final = dict(zip(CLASSES, ("#B5DFCB", "#D55E00", "#56B4E9", "#3B0F54"), strict=True))  # as greys, too
_MOMENTS: Final = ("before", "in", "after")
_MOST_SHOWN: Final = 60
_MOST_NAMED: Final = 40
_MOST_TICKS: Final = 16


class Place(NamedTuple):
    """A call of a rank, and the moment of the failure."""

    rank: int
    name: str
    ordinal: int
    line: str
    """``file:line``."""
    when: str = ""
    """``before``, ``in`` or ``after``; empty for the call itself."""


class JudgedCase(NamedTuple):
    """The failures of a run, and its outcome."""

    outcome: str
    """One of `CLASSES`."""
    fail: tuple[str, ...]
    """The failures as ``--fail`` takes them."""
    places: tuple[Place, ...]
    said: str
    """The output of the run about the outcome."""


class FailureSpace:
    """The cases of an exploration, in the order of failures, ranks and calls.

    `calls` are those of the run without failures. `never_came` counts the combinations of failures that cannot occur,
    because one prevents the other. `recovers` is False if every failure ends the job, except for those after its last
    call.
    """

    def __init__(
        self,
        cases: Sequence[JudgedCase],
        calls: Sequence[Place],
        *,
        ranks: int,
        never_came: int = 0,
        recovers: bool = True,
    ) -> None:
        self.cases = list(cases)
        self.calls = list(calls)
        self.ranks = ranks
        self.never_came = never_came
        self.recovers = recovers

    def counts(self) -> dict[str, int]:
        """Return the number of cases per class."""
        counted = Counter(case.outcome for case in self.cases)
        return {name: counted[name] for name in CLASSES}

    def smallest(self) -> dict[str, JudgedCase]:
        """Return the case with the fewest, then earliest failures of each class except survival."""
        found: dict[str, JudgedCase] = {}
        for case in self.cases:
            known = found.get(case.outcome)
            if case.outcome != CLASSES[0] and (known is None or _size(case) < _size(known)):
                found[case.outcome] = case
        return {name: found[name] for name in CLASSES if name in found}

    def table(self) -> Table:
        """Return the classes by the program line at which the last of the ranks fails."""
        rows: dict[tuple[str, str], Counter[str]] = {}
        for case in self.cases:
            place = case.places[-1]
            rows.setdefault((place.line, place.name), Counter())[case.outcome] += 1
        ordered = sorted(rows, key=_by_line)
        columns: dict[str, list[Any]] = {
            "line": [_short(line) for line, _ in ordered],
            "call": [name for _, name in ordered],
            "cases": [rows[key].total() for key in ordered],
        }
        columns |= {name: [rows[key][name] for key in ordered] for name in CLASSES}
        return Table("failures", columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the content as plain data."""
        return {
            "ranks": self.ranks,
            "classes": self.counts(),
            "never_came": self.never_came,
            "calls": [place._asdict() for place in self.calls],
            "cases": [
                {**case._asdict(), "fail": list(case.fail), "places": [place._asdict() for place in case.places]}
                for case in self.cases
            ],
        }

    # ------------------------------------------------------------------------------------------------ the figure

    def grid(self) -> list[list[dict[str, str]]]:
        """Return, for each rank and call, the classes by moment, of cases with one failure."""
        index: dict[tuple[int, str, int], tuple[int, int]] = {}
        rows: list[list[dict[str, str]]] = [[] for _ in range(self.ranks)]
        for place in self.calls:
            if place.rank < self.ranks:
                index[place[:3]] = place.rank, len(rows[place.rank])
                rows[place.rank].append({})
        for case in self.cases:
            place, *others = case.places
            if not others and place[:3] in index:
                rank, column = index[place[:3]]
                rows[rank][column][place.when] = case.outcome
        return rows

    def text(self) -> str:
        """Return the figure as text: a row per rank; per call, characters for before, in and after."""
        rows = self.grid()
        width = len(f"rank {self.ranks - 1}")
        lines = []
        for rank, calls in enumerate(rows[:_MOST_SHOWN]):
            cells = ["".join(_MARKS.get(call.get(moment, ""), " ") for moment in _MOMENTS) for call in calls]
            more = f" ... {len(cells) - _MOST_SHOWN:,} more calls" if len(cells) > _MOST_SHOWN else ""
            lines.append(f"{f'rank {rank}':<{width}}  {'|'.join(cells[:_MOST_SHOWN])}{more}")
        if len(rows) > _MOST_SHOWN:
            lines.append(f"... {len(rows) - _MOST_SHOWN:,} more ranks")
        legend = ", ".join(f"{mark} {name}" for name, mark in _MARKS.items())
        return "\n".join([*lines, f"before, in and after each call: {legend}"])

    def draw(self, target: str | Path | None = None, *, look: Look | None = None) -> Figure:
        """Draw ranks against calls, coloured by class, and write the figure if there is a target."""
        rows = self.grid()
        most = max(map(len, rows), default=1) or 1
        return drawn(
            self._compose, target, look, min(14.0, 2.5 + 0.22 * most), min(12.0, 1.8 + 0.26 * len(rows)), rows=True
        )

    def _compose(self, figure: Figure, look: Look) -> None:
        rows = self.grid()
        axes = figure.subplots()
        for name in CLASSES:
            axes.broken_barh([], (0, 1), facecolors=_COLOURS[name], label=f"{name} ({self.counts()[name]:,})")
            for rank, left in _spots(rows, name):
                axes.broken_barh([(left, 1 / 3)], (rank - 0.45, 0.9), facecolors=_COLOURS[name], linewidth=0)
        self._describe(axes, rows, look)
        add_legend(figure, axes.get_legend_handles_labels()[0], replace(look, legend=look.legend or "below"), long=1.5)

    def _describe(self, axes: Axes, rows: Sequence[Sequence[dict[str, str]]], look: Look) -> None:
        most = max(map(len, rows), default=1) or 1
        axes.set_xlim(0, most)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        look.describe(axes, x="MPI call of the rank: before, in, after", y="failed rank")
        axes.set_yticks(range(0, len(rows), 1 + len(rows) // _MOST_TICKS))
        axes.set_xticks(range(most + 1), minor=True)
        axes.grid(axis="x", which="minor", color="white", linewidth=0.8)
        longest = max(range(len(rows)), key=lambda rank: len(rows[rank]), default=0)
        names = [place.name for place in self.calls if place.rank == longest]
        if len(names) <= _MOST_NAMED:
            axes.set_xticks(
                [number + 0.5 for number in range(len(names))], names, rotation=90, fontsize=0.8 * look.points
            )


def _spots(rows: Sequence[Sequence[dict[str, str]]], outcome: str) -> Iterator[tuple[int, float]]:
    """Yield the rank and the left edge of each cell of a class."""
    for rank, calls in enumerate(rows):
        for column, call in enumerate(calls):
            for part, moment in enumerate(_MOMENTS):
                if call.get(moment) == outcome:
                    yield rank, column + part / 3


def _size(case: JudgedCase) -> tuple[Any, ...]:
    return len(case.fail), sum(place.ordinal for place in case.places), sum(place.rank for place in case.places)


def _by_line(key: tuple[str, str]) -> tuple[str, int, str]:
    file, _, line = key[0].rpartition(":")
    return file, int(line) if line.isdigit() else 0, key[1]


def _short(line: str) -> str:
    return os.path.basename(line)
