"""Comparison of recovery schemes: tables of the phases of each run, and their timelines.

A figure has a bar for each scheme and failure, as in figure 5 of the FTCO paper. Waits of seconds appear next to work
of microseconds, so very long phases are not to scale, which hatching and a label show. Everything else has one common
scale.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from xsim_py.atomic_files import atomic_file, atomic_path
from xsim_py.errors import ConfigError
from xsim_py.report.chart import Chart, Series
from xsim_py.report.phases import PHASES, Phase, Phases
from xsim_py.report.style import INK, Look, add_legend, drawn
from xsim_py.report.table import Table
from xsim_py.units import PS_PER_S, exact_seconds, format_time

if TYPE_CHECKING:
    from collections.abc import Mapping

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


class Case(NamedTuple):
    """The machine, ranks, failures and scheme that identify a run."""

    machine: str
    ranks: int
    failures: str
    """Short name; see `xsim_py.study.victims`."""
    scheme: str

    def __str__(self) -> str:
        return f"{self.machine}, {self.ranks:,} ranks, {self.failures}, {self.scheme}"

    @property
    def name(self) -> str:
        """The beginning of its file names."""
        return f"{self.machine}-{self.ranks}-{re.sub('[^0-9A-Za-z.]+', '_', self.failures)}-{self.scheme}"


class RecoveryRun(NamedTuple):
    """The outcome of one run, with its phases."""

    case: Case
    victims: tuple[str, ...]
    """The ranks to fail, with the time if it was given."""
    phases: Phases | None = None
    """None if the program did not finish, or no survivor made the call."""
    call: str = ""
    """The measured call, such as ``2nd Allreduce``."""
    ended: str = ""
    exit_status: int = 0
    said: str = ""
    """Warnings and errors."""
    virtual_time_ps: int | None = None
    messages: int | None = None
    digest: str = ""
    lost_ps: int | None = None
    """The virtual time of the job minus that of the scheme's failure-free job; None if one did not finish."""
    right: bool | None = None
    """The verdict on its result that the program prints (`right: True`); None if it prints none."""
    data_lost: str = ""
    """The data that the program reports as lost (`lost: ...`)."""

    @property
    def is_good(self) -> bool:
        """True if the program finished correctly with status 0, and its phases could be measured."""
        finished = self.ended == "finished" and self.exit_status == 0 and self.right is not False
        return finished and self.phases is not None

    @property
    def is_clean_loss(self) -> bool:
        """True if data was lost for good, and the program reported it and finished with status 1."""
        said_so = self.data_lost != "" and self.right is None and bool(self.victims)
        return said_so and self.ended == "finished" and self.exit_status == 1

    def to_dict(self) -> dict[str, Any]:
        """Return the content as plain data; times in seconds."""
        measured: dict[str, Any] = {"total_s": None, "recovery_s": None, "slowest_rank": None, "phases": []}
        if self.phases is not None:
            measured["total_s"] = self.phases.total_ps / PS_PER_S
            measured["recovery_s"] = self.phases.recovery_ps / PS_PER_S
            measured["slowest_rank"] = self.phases.rank
            measured["phases"] = [
                {"name": phase.name, "start_s": phase.start_ps / PS_PER_S, "time_s": phase.time_ps / PS_PER_S}
                for phase in (self.phases.summed().phases if self.phases.whole else self.phases.phases)
            ]
        measured["lost_s"] = None if self.lost_ps is None else self.lost_ps / PS_PER_S
        end_ps = self.virtual_time_ps
        measured["virtual_time_s"] = None if end_ps is None else end_ps / PS_PER_S
        measured["virtual_time_exact_s"] = None if end_ps is None else exact_seconds(end_ps)
        left_out = ("case", "phases", "virtual_time_ps", "lost_ps")
        rest = {name: value for name, value in self._asdict().items() if name not in left_out}
        return {**self.case._asdict(), **measured, **rest, "victims": list(self.victims)}


class RecoveryComparison:
    """The runs of a comparison, in display order."""

    def __init__(self, runs: Sequence[RecoveryRun], *, title: str = "") -> None:
        if not runs:
            raise ConfigError("nothing to compare; name at least one scheme and one failure")
        self.runs = list(runs)
        self.title = title
        self.schemes = list(dict.fromkeys(run.case.scheme for run in runs))
        self._by_case = {run.case: run for run in runs}

    def __getitem__(self, case: Case) -> RecoveryRun:
        """Return the run of a case."""
        return self._by_case[case]

    @property
    def is_whole(self) -> bool:
        """True if whole jobs were measured rather than one call."""
        return any(run.phases is not None and run.phases.whole for run in self.runs)

    @property
    def is_all_communication(self) -> bool:
        """True if whole jobs were measured, with no time between calls (free computation)."""
        measured = [run.phases.times_ps() for run in self.runs if run.phases is not None]
        return self.is_whole and not any("own work" in times for times in measured)

    # -------------------------------------------------------------------------------------------------- as tables

    def __str__(self) -> str:
        """Return a table for each scheme, with its own phases, and one that compares the schemes."""
        texts = [f"{scheme}\n{self.shown(scheme).to_text(max_rows=None)}" for scheme in self.schemes]
        if len(self.schemes) > 1:
            title = "time lost" if self.is_whole else "recovery, without detection"
            texts.append(f"{title}\n{self.side_by_side().to_text(max_rows=None)}")
        return "\n\n".join(texts)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def shown(self, scheme: str) -> Table:
        """Return the phases of one scheme as a readable table, without phases that never occur."""
        runs = [run for run in self.runs if run.case.scheme == scheme]
        columns = self._keys(runs)
        columns["dead"] = [", ".join(run.victims) for run in runs]
        columns["total"] = [_shown(run, None) for run in runs]
        if self.is_whole:
            columns["lost"] = [_lost(run) for run in runs]
        for name in PHASES:
            if any(run.phases is not None and name in run.phases.times_ps() for run in runs):
                columns[name] = [_shown(run, name) for run in runs]
        if any(run.data_lost for run in runs):
            columns["data lost"] = [run.data_lost for run in runs]
        if any(run.right is not None for run in runs):
            columns["right"] = ["" if run.right is None else str(run.right) for run in runs]
        return Table(scheme, columns)

    def side_by_side(self) -> Table:
        """Return each scheme's time without the collective operation itself and the detection.

        For whole jobs, return the time lost, unless data are lost or the result is wrong.
        """
        cases = list(dict.fromkeys(run.case[:3] for run in self.runs))
        runs = [next(run for run in self.runs if run.case[:3] == case) for case in cases]
        columns = self._keys(runs)
        for scheme in self.schemes:
            found = [self._by_case.get(Case(*case, scheme)) for case in cases]
            columns[scheme] = ["" if run is None else _cost(run) for run in found]
        return Table("recovery", columns)

    def _keys(self, runs: Sequence[RecoveryRun]) -> dict[str, list[Any]]:
        """Return the columns that distinguish runs; a machine common to all is in the title."""
        columns: dict[str, list[Any]] = {name: [getattr(run.case, name) for run in runs] for name in Case._fields[:3]}
        if len({run.case.machine for run in self.runs}) == 1:
            del columns["machine"]
        return columns

    def table(self) -> Table:
        """Return a row per run, with every phase in seconds."""
        rows = [_row(run) for run in self.runs]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        return Table("recovery", columns, exact=[name for name in columns if name.endswith("_s")])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {"title": self.title, "runs": [run.to_dict() for run in self.runs]}

    def to_json(self, target: str | Path | IO[str]) -> None:
        """Write everything as JSON to a path or an open text file."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        with atomic_file(target) as file:
            file.write(text)

    # ------------------------------------------------------------------------------------------------ as figures

    def to_html(
        self,
        target: str | Path,
        *,
        facts: Mapping[str, str] | None = None,
        descriptions: Mapping[str, str] | None = None,
    ) -> None:
        """Write a self-contained HTML report; see `report.page.comparison_pages`."""
        from xsim_py.report.page.comparison_pages import write_recovery_page
        from xsim_py.report.page.document import check_page

        check_page(target)
        write_recovery_page(self, target, facts=facts or {}, descriptions=descriptions or {})

    def draw(self, folder: str | Path, *, look: Look | None = None) -> list[Path]:
        """Draw timelines per machine and rank count, and any recovery time over rank counts.

        Return the written files.
        """
        written = []
        for machine, ranks in dict.fromkeys(run.case[:2] for run in self.runs):
            runs = [run for run in self.runs if run.case[:2] == (machine, ranks) and run.phases is not None]
            if runs:
                written.append(Path(folder) / f"timelines-{machine}-{ranks}.png")
                with atomic_path(written[-1], follow=False) as path:
                    PhaseBars(runs).draw(path, title=f"{self.title} on {machine}, {ranks:,} ranks".strip(), look=look)
        charts = [(code, self.chart(code)) for code in dict.fromkeys(run.case.failures for run in self.runs)]
        for code, chart in charts:
            if any(len(line.x) > 1 for line in chart.lines):
                written.append(Path(folder) / f"{Case('recovery', 0, code, '').name.split('-')[2]}-over-ranks.png")
                with atomic_path(written[-1], follow=False) as path:
                    chart.draw(path, look=look)
        return written

    def chart(self, failures: str) -> Chart:
        """Return lines over rank counts: the time without detection, for a given set of failures."""
        keys = [run.case for run in self.runs if run.case.failures == failures and run.phases is not None]
        machines = list(dict.fromkeys(case.machine for case in keys))
        lines = []
        for machine, scheme in dict.fromkeys((case.machine, case.scheme) for case in keys):
            runs = [self._by_case[case] for case in keys if (case.machine, case.scheme) == (machine, scheme)]
            times = [(run.case.ranks, _active_ps(run.phases)) for run in runs if run.phases is not None]
            lines.append(
                Series(
                    label=f"{scheme}, {machine}" if len(machines) > 1 else scheme,
                    x=[ranks for ranks, _ in times],
                    y=[time_ps / 1e6 for _, time_ps in times],
                    errors=[0.0] * len(times),
                    colour=machines.index(machine) if len(machines) > 1 else self.schemes.index(scheme),
                    dashes=self.schemes.index(scheme) if len(machines) > 1 else 0,
                )
            )
        title = "without a failure" if failures == "none" else f"failures: {failures}"
        return Chart(
            title=f"{self.title}, {title}".strip(", "),
            x_label="ranks",
            y_label=f"virtual time of the {'job' if self.is_whole else 'call and recovery'},\n"
            "without detection and restart delay [us]",
            lines=lines,
            x_scale="log2",
            y_scale="log",
        )


def _active_ps(phases: Phases) -> int:
    """Return the time without phases of mere waiting."""
    return sum(phase.time_ps for phase in phases.phases if phase.name not in ("detection", "restart delay"))


def _lost(run: RecoveryRun) -> str:
    """Return the time lost as text; empty for a failure-free run, which is the reference."""
    return "" if run.lost_ps is None or not run.victims else format_time(run.lost_ps)


def _cost(run: RecoveryRun) -> str:
    """Return the cost of a run's failures as text."""
    if run.phases is None or not run.victims:
        return ""
    if not run.phases.whole:
        return format_time(run.phases.recovery_ps)
    if run.data_lost:
        return "data lost"
    return "wrong" if run.right is False else _lost(run)


def _shown(run: RecoveryRun, name: str | None) -> str:
    """Return a phase, or the total, as text; without phases, how the run ended."""
    if run.phases is None:
        return run.ended if name is None else ""
    if name is None:
        return format_time(run.phases.total_ps, digits=7)
    time_ps = run.phases.times_ps().get(name)
    return "" if time_ps is None else format_time(time_ps)


def _row(run: RecoveryRun) -> dict[str, Any]:
    """Return the columns of a run; those of seconds are in integer picoseconds."""
    fields, phases = run.to_dict(), run.phases
    times: dict[str, int] = {} if phases is None else phases.times_ps()
    row = {name: fields[name] for name in (*Case._fields, "call")}
    row |= {"victims": ", ".join(run.victims), "slowest_rank": fields["slowest_rank"]}
    row["total_s"] = None if phases is None else phases.total_ps
    row["recovery_s"] = None if phases is None else phases.recovery_ps
    row["lost_s"] = run.lost_ps
    row |= {f"{name.replace(' ', '_')}_s": times.get(name) for name in PHASES}
    row |= {"messages": run.messages, "virtual_time_s": run.virtual_time_ps}
    return row | {name: fields[name] for name in ("ended", "exit_status", "right", "data_lost", "digest")}


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

    def __init__(self, runs: Sequence[RecoveryRun]) -> None:
        self._bars = [
            (run, run.phases.summed() if run.phases.whole else run.phases) for run in runs if run.phases is not None
        ]
        every = [phase for _, phases in self._bars for phase in phases.phases]
        whole = any(phases.whole for _, phases in self._bars)
        self._long_ps = _long_from(every, _MAY_BE_LONG_IN_JOBS if whole else _MAY_BE_LONG)
        self._shortest_long_ps = min((p.time_ps for p in every if p.time_ps >= self._long_ps), default=1)
        to_scale = [
            sum(phase.time_ps for phase in phases.phases if phase.time_ps < self._long_ps) for _, phases in self._bars
        ]
        self._long_width = max(*to_scale, 1) * _LONG_SHARE
        self.width_ps = max(sum(map(self._width_of, phases.phases)) for _, phases in self._bars)

    def pieces(self) -> Iterator[PhasePiece]:
        """Yield the phases of all bars, with their positions."""
        for row, (_, phases) in enumerate(self._bars):
            left = 0.0
            for phase in phases.phases:
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
        codes = {run.case.failures for run, _ in self._bars}
        height = 1.5 + 0.34 * len(self._bars) + 0.18 * len(codes)
        return drawn(lambda figure, look: self._compose(figure, look, title), target, look, 10, height, rows=True)

    def _compose(self, figure: Figure, look: Look, title: str) -> None:
        axes = figure.subplots()
        names = [run.case.scheme for run, _ in self._bars]
        room = figure.get_size_inches()[0] - 0.09 * look.scale * max(map(len, names))
        share = min(0.75 * look.scale / room, 0.4)  # of the axis, for a total after the longest bar
        letter = look.scale / 15 * self.width_ps / ((1 - share) * room)
        at, places, before = 0.0, [], None
        for run, phases in self._bars:
            at += 1.0 if run.case.failures == before else 1.55
            before = run.case.failures
            places.append(at)
            self._draw_bar(axes, at, phases, look, letter)
        axes.set_yticks(places, names)
        for code in dict.fromkeys(run.case.failures for run, _ in self._bars):
            rows = [place for place, (run, _) in zip(places, self._bars, strict=True) if run.case.failures == code]
            victims = next(run.victims for run, _ in self._bars if run.case.failures == code)
            self._name_group(axes, min(rows) - 0.62, code, victims, look)
        axes.set_ylim(at + 1.0, places[0] - 1.25)
        right = self.width_ps / (1 - share)
        axes.set_xlim(0, right)
        look.describe(axes, title=title)
        axes.tick_params(length=0)
        axes.set_xticks([])
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        self._draw_scale(axes, at + 0.8, right, look)
        self._draw_legend(figure, look)

    def _draw_bar(self, axes: Axes, at: float, phases: Phases, look: Look, letter: float) -> None:
        """Draw the phases of a bar, with times that fit; `letter` is the width of a character."""
        left = 0.0
        for phase in phases.phases:
            width = self._width_of(phase)
            is_long = phase.time_ps >= self._long_ps
            axes.barh(
                at,
                width,
                left=left,
                height=0.74,
                color=PHASE_COLOURS[phase.name],
                edgecolor="white",
                linewidth=0.6,
                hatch="////" if is_long else None,
            )
            figure = format_time(phase.time_ps, digits=3)
            if is_long or width > letter * (len(figure) + 1):
                ink = "white" if _is_dark(PHASE_COLOURS[phase.name]) and not is_long else INK
                backing = {"facecolor": "white", "edgecolor": "none", "pad": 1.2} if is_long else None
                style: dict[str, Any] = {"ha": "center", "va": "center", "color": ink, "bbox": backing}
                axes.text(left + width / 2, at, figure, fontsize=7.5 * look.scale, **style)
            left += width
        total = format_time(phases.total_ps, digits=7)
        axes.text(left + 0.01 * self.width_ps, at, total, ha="left", va="center", fontsize=8.5 * look.scale, color=INK)

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
        if any(phase.time_ps >= self._long_ps for _, phases in self._bars for phase in phases.phases):
            label += " (hatched: not to scale)"
        style: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": 8.5 * look.scale, "color": INK}
        axes.text(right - length_ps - 0.01 * self.width_ps, at, label, **style)

    def _draw_legend(self, figure: Figure, look: Look) -> None:
        from matplotlib.patches import Patch

        there = {phase.name for _, phases in self._bars for phase in phases.phases}
        keys = [Patch(facecolor=PHASE_COLOURS[name], label=name) for name in PHASES if name in there]
        add_legend(figure, keys, replace(look, legend=look.legend or "below"), least=1, long=1.5)


def _long_from(phases: Sequence[Phase], may_be_long: Sequence[str]) -> float:
    """Return the time from which phases that may be long are not drawn to scale."""
    longest_ps = max((phase.time_ps for phase in phases if phase.name not in may_be_long), default=0)
    return max(_TIMES_LONGER * longest_ps, 1) if longest_ps else float("inf")


def _is_dark(colour: str) -> bool:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return 299 * red + 587 * green + 114 * blue < 140_000
