"""The result of a run: summary, tables, report and trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from xsim_py.atomic_files import atomic_file
from xsim_py.errors import FOUND, NOT_WRITTEN, ConfigError, InternalError, visible
from xsim_py.report.table import Table, html_facts
from xsim_py.units import PS_PER_S, exact_seconds, format_size, format_time, parse_exact_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from matplotlib.figure import Figure

    from xsim_py.findings import Finding
    from xsim_py.report.style import Look
    from xsim_py.report.timeline import Timeline
    from xsim_py.report.view import PictureView
    from xsim_py.schedules import MadeChoice
    from xsim_py.trace import Trace

ENDINGS = ("finished", "aborted", "stalled", "wall limit", "interrupted")


def failure_entry(rank: int, time_ps: int, cause: str) -> dict[str, Any]:
    """Return the JSON entry of a process failure."""
    return {"rank": rank, "time_s": time_ps / PS_PER_S, "time_exact_s": exact_seconds(time_ps), "cause": cause}


class Result:
    """The outcome of a run: its summary, tables, report and warnings.

    Each entry of the summary is also an attribute.

    Parameters
    ----------
    summary : mapping
        One value for each name in `SUMMARY`.
    tables : iterable of Table, or mapping of str to Table, optional
        Counts, such as ``ranks``, ``pairs`` (messages per pair and size class), ``collectives``.
    report : str, optional
        The deadlock report of a run that stalled or was stopped, or the reason for an abort.
    warnings : iterable of str, optional
        One sentence each, such as a message that was never received.
    machine, program : str, optional
        One line each: the program, and the machine it ran on.

    Attributes
    ----------
    virtual_time_s : float
        Virtual time at which the last rank ended, in seconds.
    virtual_time_exact_s : str
        The same with all digits, as a decimal number: a float is off by some picoseconds from 8,192 s on.
    virtual_time_ps : int
        The same in whole picoseconds; not in the summary.
    ranks_end_s : dict
        ``min``, ``mean`` and ``max`` of the times at which ranks ended or failed, in seconds; empty if none has.
    ranks, shards, seed : int
        The parameters of the run. If ranks are in separate processes, `shards` is the initial number of processes.
    isolation : str
        How ranks were isolated: ``greenlets``, ``process``, or ``process:8``.
    config_hash, digest, version : str
        Fingerprints of the machine and of the run, and the simulator's version. Runs of a program with the same ranks,
        config_hash, seed and version have the same digest.
    events, messages, bytes : int
        Simulated events, messages and their bytes; messages include those inside collectives.
    cpu_s, wall_s : float
        Host cost, in seconds.
    peak_rss_bytes : int
        Peak memory of the simulator.
    exit_status : int
        The program's own; 3 for a deadlock, 4 for the wall limit, 130 for an interrupt; 74 if some of the program's
        files could not be written back from a simulated storage (see `warnings`).
    ended : str
        One of `ENDINGS`.
    aborted : bool
        Whether the launcher ended the job.
    restarts : int
        Number of restarts after aborts.
    failures : list of dict
        Processes that failed, in all starts: ``rank``, ``time_s``, ``time_exact_s``, ``cause``. More is in the
        tables ``failures``, ``learned`` (which rank learnt of which failure, when and how) and ``starts``.
    values : list
        Return value of a callable on each rank; in memory only.
    findings : tuple of Finding
        Findings of a checked run, by file and line.
    is_checked : bool
        Whether the run was checked; if so, the JSON includes the findings.
    trace : Trace or None
        Every call, message and mark of a traced run; in memory only. See `to_perfetto` and `timeline`.
    never_came : dict of str to str
        Injected failures that did not occur, as given, each with the calls of its rank instead, or ""; in memory only.
    polls : bool
        True if a rank has polled unsuccessfully (``Test``, ``Iprobe``); in memory only.
    choices : list of MadeChoice
        Nondeterministic choices of each rank, of a run with a schedule; in memory only.
    """

    virtual_time_s: float
    virtual_time_exact_s: str
    ranks_end_s: dict[str, float]
    ranks: int
    shards: int
    isolation: str
    seed: int
    config_hash: str
    digest: str
    events: int
    messages: int
    bytes: int
    cpu_s: float
    wall_s: float
    peak_rss_bytes: int
    exit_status: int
    version: str
    ended: str
    aborted: bool
    restarts: int
    failures: list[dict[str, Any]]

    def __init__(
        self,
        summary: Mapping[str, Any],
        *,
        tables: Mapping[str, Table] | Iterable[Table] = (),
        report: str = "",
        warnings: Iterable[str] = (),
        machine: str = "",
        program: str = "",
    ) -> None:
        if summary.keys() != set(SUMMARY):
            raise InternalError(f"a summary lacks or has too much: {sorted(summary.keys() ^ set(SUMMARY))}")
        if summary["ended"] not in ENDINGS:
            raise InternalError(f"a run cannot have ended {summary['ended']!r}")
        self.summary = {name: summary[name] for name in SUMMARY}
        vars(self).update(self.summary)
        self.virtual_time_ps = parse_exact_seconds(self.virtual_time_exact_s)
        listed = tables.values() if hasattr(tables, "values") else tables
        self.tables: dict[str, Table] = {table.name: table for table in listed}
        self.report = visible(report)
        self.warnings = list(map(visible, warnings))
        self.machine = machine
        self.program = program
        self.values: list[Any] = []
        self.trace: Trace | None = None
        self._origin: dict[str, Any] = {}
        self.findings: tuple[Finding, ...] = ()
        self.is_checked = False
        self._unchecked_status = 0
        self.never_came: dict[str, str] = {}
        self.choices: list[MadeChoice] = []
        self.polls = False

    def set_trace(self, trace: Trace | None) -> None:
        """Take the recorded trace, and derive the table ``waits`` from it."""
        self.trace = trace
        if trace is not None:
            from xsim_py.report.waits import waits_table  # not above: most runs are not traced

            self.tables["waits"] = waits_table(trace, self.lives())

    @property
    def origin(self) -> dict[str, str]:
        """Return the origin of the run as text: ``command``, and ``machine`` with its overrides."""
        from xsim_py.config.document import yaml_text

        entries = self._origin.items()
        return {name: each if isinstance(each, str) else yaml_text(each) for name, each in entries}

    def set_origin(self, *, command: str | None = None, machine: Mapping[str, Any] | None = None) -> None:
        """Take the given parts of the run's origin."""
        given: dict[str, Any] = {"command": command, "machine": machine}
        self._origin |= {name: each for name, each in given.items() if each is not None}

    def set_findings(self, findings: Iterable[Finding]) -> None:
        """Take the findings of the checks, which override other exit statuses."""
        if self.is_checked:  # earlier ones no longer count
            self.exit_status = self.summary["exit_status"] = self._unchecked_status
        self._unchecked_status = self.exit_status
        self.findings = tuple(findings)
        self.is_checked = True
        mistakes = any(finding.is_mistake for finding in self.findings)
        if mistakes and self.ended in ("finished", "aborted", "stalled") and self.exit_status != NOT_WRITTEN:
            self.exit_status = self.summary["exit_status"] = FOUND

    def __repr__(self) -> str:
        return f"Result({self.program or 'program'}, {self.ranks} ranks, {self.ended}, {self.virtual_time()})"

    def __str__(self) -> str:
        """Return the main facts, the warnings and the report as text."""
        facts = self._facts()
        width = max(map(len, facts))
        lines = [self._title(), *(f"  {name:<{width}}  {value}" for name, value in facts.items())]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join([*lines, self.report] if self.report else lines)

    def _repr_html_(self) -> str:
        """Return the same as HTML for a notebook, with the tables folded below."""
        from html import escape

        said = "".join(f"<p><b>warning:</b> {escape(warning)}</p>" for warning in self.warnings)
        said += f"<pre>{escape(self.report)}</pre>" if self.report else ""
        tables = "".join(
            f"<details><summary>{escape(table.name)}: {len(table):,} rows</summary>{table._repr_html_()}</details>"
            for table in self.tables.values()
        )
        return f"<table><caption>{escape(self._title())}</caption>{html_facts(self._facts())}</table>{said}{tables}"

    def virtual_time(self) -> str:
        """Return the virtual time exactly, to the picosecond, with its unit: ``34.914 us``."""
        return format_time(self.virtual_time_ps, digits=None)

    def times(self) -> str:
        """Return the virtual time, with the minimum and the mean of the times at which ranks ended."""
        spread = {name: format_time(round(end_s * PS_PER_S)) for name, end_s in self.ranks_end_s.items()}
        if self.ranks == 1 or not spread:
            return self.virtual_time()
        if spread["max"] == format_time(self.virtual_time_ps):
            del spread["max"]
        return f"{self.virtual_time()} ({', '.join(f'{name} {time}' for name, time in spread.items())})"

    def _title(self) -> str:
        where = f" on {self.machine}" if self.machine else ""
        return f"{self.program or 'program'}: {self.ranks:,} ranks{where}"

    def _facts(self) -> dict[str, str]:
        """Return the labelled lines of the summary."""
        simulated = f"{self.events:,} events, {self.messages:,} messages"
        apart = f"shards {self.shards}"
        if self.isolation != "greenlets":
            apart = f"isolation {self.isolation}"
        return {
            "virtual time": self.times(),
            "ended": f"{self.ended}, exit status {self.exit_status}",
            "simulated": f"{simulated}, {format_size(self.bytes)}",
            "host cost": f"{self.cpu_s:.3g} s CPU, {self.wall_s:.3g} s wall, {format_size(self.peak_rss_bytes)} memory",
            "made by": f"xsim_py {self.version}, seed {self.seed}, config {self.config_hash}, {apart}",
            "digest": self.digest,
        }

    def to_dict(self, *, tables: bool = True) -> dict[str, Any]:
        """Return the result as plain data: the summary's entries, and optionally ``tables``."""
        data: dict[str, Any] = {
            **self.summary,
            "program": self.program,
            "machine": self.machine,
            "warnings": self.warnings,
            "report": self.report,
        }
        if self.is_checked:
            data["findings"] = [finding._asdict() for finding in self.findings]
        if tables:
            data["origin"] = self.origin
            data["tables"] = {name: table.to_dict() for name, table in self.tables.items()}
        return data

    def to_json(self, target: str | Path | IO[str], *, tables: bool = True) -> None:
        """Write the result as JSON to a path or an open text file; `load` reads it again.

        Raises
        ------
        OSError
            When the path cannot be written.
        """
        text = json.dumps(self.to_dict(tables=tables), indent=2, allow_nan=False) + "\n"
        with atomic_file(target) as file:
            file.write(text)

    def to_csv(self, folder: str | Path) -> list[Path]:
        """Write each table to ``NAME.csv`` in a directory, and return the paths."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        paths = [Path(folder) / f"{name}.csv" for name in self.tables]
        for path, table in zip(paths, self.tables.values(), strict=True):
            with atomic_file(path, follow=False) as file:
                table.to_csv(file)
        return paths

    def save(self, folder: str | Path) -> None:
        """Write the tables, ``result.json`` and any trace into a directory.

        Raises
        ------
        OSError
            When one of the files cannot be written.
        """
        self.to_csv(folder)
        with atomic_file(Path(folder) / "result.json", follow=False) as file:
            self.to_json(file)
        if self.trace is not None:
            from xsim_py.trace.saved import NAME, save_trace

            save_trace(self.trace, Path(folder) / NAME, digest=self.digest)

    def to_perfetto(self, target: str | Path | IO[str]) -> int:
        """Write the trace for ui.perfetto.dev; return the number of entries beyond its limit.

        Raises
        ------
        ConfigError
            When the run was not traced.
        OSError
            When the path cannot be written.
        """
        from xsim_py.report.perfetto import write_perfetto  # not above: most runs are not traced

        facts = {
            name: getattr(self, name) for name in ("program", "machine", "version", "seed", "config_hash", "digest")
        }
        return write_perfetto(
            self._traced(), target, nodes=self.tables["ranks"]["node"], end_ps=self.virtual_time_ps, facts=facts
        )

    def draw_timeline(
        self, target: str | Path | None = None, *, messages: bool | None = None, view: PictureView | None = None
    ) -> Figure:
        """Return a figure of the trace, or of the part that `view` shows, and write it if there is a target.

        See `Timeline.draw`.

        Raises
        ------
        ConfigError
            When the run was not traced, no figure has such a name, or matplotlib is not installed.
        """
        return self._timeline(view).draw(target, messages=messages)

    def draw_waits(self, target: str | Path | None = None, *, look: Look | None = None) -> Figure | None:
        """Return a figure of the compute and wait times of each rank, and write it if there is a target.

        If the name ends with ``.csv``, the values are written, and nothing is drawn.

        Raises
        ------
        ConfigError
            When the run was not traced, no figure has such a name, or matplotlib is not installed.
        """
        from xsim_py.report.waits import draw_waits

        if "waits" not in self.tables:
            raise ConfigError("no table waits: the run was not traced; use simulate(..., trace=True)")
        if target is not None and Path(target).suffix.lower() == ".csv":
            self.tables["waits"].to_csv(target)
            return None
        return draw_waits(self.tables["waits"], target, title=self._title(), look=look)

    def draw_pairs(
        self, target: str | Path | None = None, *, of: str = "bytes", nodes: bool = False, look: Look | None = None
    ) -> Figure:
        """Return a figure of the communication matrix (per pair of ranks), and write it if there is a target.

        See `report.pairs.draw_pairs`.

        Raises
        ------
        ConfigError
            When pairs were not counted, no figure has such a name, or matplotlib is not installed.
        """
        from xsim_py.report.pairs import draw_pairs

        node_of = self.tables["ranks"]["node"]
        ranks, chosen = len(node_of), node_of if nodes else None
        return draw_pairs(
            self.tables["pairs"], target, ranks=ranks, of=of, node_of=chosen, title=self._title(), look=look
        )

    def to_html(self, target: str | Path) -> None:
        """Write a self-contained HTML report of the run; see `report.page.run_page`.

        Raises
        ------
        ConfigError
            When the name does not end with ``.html``, or plotly is not installed.
        OSError
            When the file cannot be written.
        """
        from xsim_py.report.page.document import check_page
        from xsim_py.report.page.run_page import write_run_page

        check_page(target)
        write_run_page(self, target)

    def timeline_text(self, *, width: int = 100, view: PictureView | None = None) -> str:
        """Return the trace, or the part that `view` shows, as lines of text; see `Timeline.text`.

        Raises
        ------
        ConfigError
            When the run was not traced.
        """
        return self._timeline(view).text(width=width)

    def _timeline(self, view: PictureView | None) -> Timeline:
        from xsim_py.report.timeline import Timeline

        trace, lives = self._traced(), self.lives()
        return Timeline(trace, ranks=max(life[0] for life in lives) + 1, lives=lives, title=self._title(), view=view)

    def lives(self) -> list[tuple[int, int, int]]:
        """Return the lifetime of each rank, from its start to its end, failure, or the job's end.

        Returns
        -------
        list of (int, int, int)
            Rank, begin and end in picoseconds, one entry per lifetime, ordered by starts of the job.
        """
        starts, failures = self.tables["starts"], self.tables["failures"]
        died = zip(failures["start"], failures["rank"], failures.picoseconds["time_s"], strict=True)
        until_ps = {(start, rank): died_ps for start, rank, died_ps in died}
        ends_ps = enumerate(self.tables["ranks"].picoseconds["end_s"])
        until_ps |= {(len(starts) - 1, rank): end_ps for rank, end_ps in ends_ps if end_ps is not None}
        begun = [(start, at_ps, range(self.ranks)) for start, at_ps in enumerate(starts.picoseconds["start_s"])]
        if "worlds" in self.tables:
            worlds = self.tables["worlds"]
            columns = (worlds["start"], worlds.picoseconds["born_s"], worlds["first_rank"], worlds["size"])
            begun += [
                (start, at_ps, range(first, first + size)) for start, at_ps, first, size in zip(*columns, strict=True)
            ]
        return [
            (rank, at_ps, until_ps.get((start, rank), starts.picoseconds["end_s"][start]))
            for start, at_ps, ranks in begun
            for rank in ranks
        ]

    def _traced(self) -> Trace:
        if self.trace is None:
            raise ConfigError("the run was not traced; use simulate(..., trace=True)")
        return self.trace

    def _load_findings(self, listed: Iterable[Mapping[str, Any]]) -> None:
        from xsim_py.findings import Finding

        lists = ("ranks", "details")
        found = [{**each, **{name: tuple(each[name]) for name in lists}} for each in listed]
        self.findings, self.is_checked = tuple(Finding(**each) for each in found), True

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a result written by `to_json`, or a directory written by `save`, with its trace.

        Raises
        ------
        ConfigError
            When the file does not exist or is not a result.
        """
        if is_folder := Path(path).is_dir():
            path = Path(path) / "result.json"
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            if "virtual_time_exact_s" not in data:  # missing in early results of 0.1
                data["virtual_time_exact_s"] = exact_seconds(round(float(data["virtual_time_s"]) * PS_PER_S))
            data.setdefault("isolation", "greenlets")  # missing there, too
            data.setdefault("ranks_end_s", {})  # also missing
            summary = {name: data[name] for name in SUMMARY}
            listed = data.get("tables", {}).items()
            tables = [Table.from_dict(name, table) for name, table in listed]
            said = {name: data[name] for name in ("report", "warnings", "machine", "program")}
            result = cls(summary, tables=tables, **said)
            result._origin = {name: str(text) for name, text in data.get("origin", {}).items()}
            if "findings" in data:
                result._load_findings(data["findings"])
            if is_folder:
                from xsim_py.trace.saved import NAME, load_trace

                ranks = len(result.tables["ranks"])
                result.trace = load_trace(Path(path).parent / NAME, digest=result.digest, ranks=ranks)
            return result
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        except (ArithmeticError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path}: not a result that xsim_py wrote ({type(error).__name__}: {error})") from error


SUMMARY = tuple(Result.__annotations__)
"""The names of the summary's entries, in order."""
