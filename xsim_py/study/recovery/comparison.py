"""Comparison of recovery schemes: tables of the phases of each run, and their timelines.

A figure has a bar for each scheme and failure, as in figure 5 of the FTCO paper. Waits of seconds appear next to work
of microseconds, so very long phases are not to scale, which hatching and a label show. Everything else has one common
scale.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from xsim_py.atomic_files import atomic_file, atomic_path
from xsim_py.errors import ConfigError
from xsim_py.report.chart import Chart, Series
from xsim_py.report.phase_bars import PhaseBar, PhaseBars
from xsim_py.report.phases import PHASES, Phases
from xsim_py.report.style import Look
from xsim_py.report.table import Table
from xsim_py.units import PS_PER_S, exact_seconds, format_time


class Case(NamedTuple):
    """The machine, ranks, failures and scheme that identify a run."""

    machine: str
    ranks: int
    failures: str
    """Short name; see `xsim_py.study.recovery.victims`."""
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

    @property
    def outcome(self) -> str:
        """How the run ended, for messages."""
        lost = f", lost: {self.data_lost}" if self.data_lost else ""
        return f"{self.case}: {self.ended}, exit status {self.exit_status}{lost}"

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
        """Write a self-contained HTML report; see `page`."""
        from xsim_py.report.page.document import check_page
        from xsim_py.study.recovery.page import write_recovery_page

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
                    phase_bars(runs).draw(path, title=f"{self.title} on {machine}, {ranks:,} ranks".strip(), look=look)
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


def phase_bars(runs: Sequence[RecoveryRun]) -> PhaseBars:
    """Return the timelines of runs whose phases could be measured."""
    kept = [(run.case, run.victims, run.phases) for run in runs if run.phases is not None]
    return PhaseBars([PhaseBar(case.scheme, case.failures, victims, phases) for case, victims, phases in kept])


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
