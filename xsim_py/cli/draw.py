"""``xsim draw``: figures, tables and HTML reports of saved results."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final

from xsim_py.cli.options import Commands, add_report_option, check_report, repeated_by
from xsim_py.cli.output_errors import writing
from xsim_py.cli.output_files import check_outputs, not_dash
from xsim_py.cli.views import add_view_option, picture_view
from xsim_py.errors import ConfigError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from xsim_py.report import Comparison, Result
    from xsim_py.report.chart import Series
    from xsim_py.report.style import Look
    from xsim_py.report.view import PictureView
    from xsim_py.study.condition import Condition

_SCALED: Final = ("speedup", "efficiency")
_OF_ONE: Final = ("timeline", "waits", "pairs", "trace")
_TO_STDOUT: Final = ("timeline", "waits", *_SCALED)
_TABLES: Final = ("waits", "pairs", *_SCALED)  # which may be written as CSV

_NOTES = """\
SAVED is a directory written by xsim run --out, xsim compare --out or xsim study, or the JSON file of one result. For
--timeline, --waits and --trace the run must have recorded a trace: xsim run --out with --report, --timeline, --waits
or --trace.
"""


def add_draw_parser(commands: Commands) -> None:
    """Add the command to the sub-parsers of the top level."""
    from argparse import RawDescriptionHelpFormatter

    parser = commands.add_parser(
        "draw",
        help="draw saved results: speed-up, matrix, waits, timeline, HTML report",
        description="Write figures, tables and HTML reports of saved results, without a new run.",
        epilog=_NOTES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.set_defaults(action=draw)
    add = parser.add_argument
    add("saved", nargs="+", metavar="SAVED", help="read these result directories or files")
    ways = "(.png, .svg, .pdf, .csv; -: as text)"
    add("--speedup", metavar="FILE", help=f"draw the speed-up against the rank count {ways}")
    add("--efficiency", metavar="FILE", help=f"draw the parallel efficiency {ways}")
    add(
        "--pairs",
        metavar="FILE",
        help="draw the communication matrix, bytes per pair of ranks (.png, .svg, .pdf, .csv)",
    )
    add("--waits", metavar="FILE", help=f"draw each rank's computation, transfer and wait times {ways}")
    add("--timeline", metavar="FILE", help="draw the calls of each rank over time (.png, .svg, .pdf; -: as text)")
    add("--trace", metavar="FILE", help="write a trace for https://ui.perfetto.dev as JSON")
    add_report_option(parser, of="one run, or several as a comparison")
    add(
        "--only",
        action="append",
        default=[],
        metavar="CONDITION",
        help="draw results with e.g. ranks<=64 or machine=gige,shmem; of a study, any of its variables; repeatable",
    )
    add_view_option(parser, parts=True)


def draw(args: Namespace) -> int:
    """Draw the selected figures, and return the exit status."""
    asked = [name for name in (*_SCALED, *_OF_ONE, "report") if getattr(args, name) is not None]
    if not asked:
        raise ConfigError(
            f"draw: nothing to draw; add one of {', '.join(f'--{name}' for name in (*_SCALED, *_OF_ONE))}, --report"
        )
    view = picture_view(args)
    _check_outputs(args, asked)
    saved = _Saved(args.saved, _conditions(args.only))
    with writing():
        for name in asked:
            if name in _SCALED:
                _draw_scaled(saved.lines(), name, getattr(args, name), None if view is None else view.look)
            elif name == "report":
                saved.write_page(args)
            else:
                _draw_one(saved.only(name), name, getattr(args, name), view)
    return 0


def _check_outputs(args: Namespace, asked: list[str]) -> None:
    dashes = [f"--{name} -" for name in _TO_STDOUT if getattr(args, name) == "-"]
    if len(dashes) > 1:
        raise ConfigError(f"{' and '.join(dashes)}: only one option can write to standard output")
    for name in asked:
        target = getattr(args, name)
        is_picture = name not in ("trace", "report") and target != "-"
        if is_picture and not (name in _TABLES and target.endswith(".csv")):
            from xsim_py.report.style import check_picture

            check_picture(target)
    check_report(args.report)
    from xsim_py.clashes import InputFile

    results = [InputFile("a result", name) for name in args.saved if Path(name).is_file()]
    check_outputs({**not_dash(args, *asked)}, inputs=lambda: results)


class _Saved:
    """The results named on the command line."""

    def __init__(self, names: list[str], only: list[Condition]) -> None:
        self.results: list[tuple[str, Result]] = []
        self._studies: list[tuple[str, dict[str, Any]]] = []
        self._only = only
        for name in names:
            self._read(Path(name))
        found = [each for each in self.results if _holds(only, _columns_of(each[1]))]
        if self.results and not found:
            raise ConfigError(f"--only: no result fulfils {' and '.join(each.text for each in only)}")
        self.results = found

    def _read(self, path: Path) -> None:
        from xsim_py.report import Result

        study = path / "results.json" if path.is_dir() else path
        if study.name == "results.json" and study.is_file():
            self._studies.append((str(path), _study(study)))
        elif path.is_dir() and not (path / "result.json").exists():
            files = sorted(path.glob("*-[0-9]*.json")) if (path / "comparison.csv").exists() else []
            if not files:
                raise ConfigError(f"{path}: expected result.json, results.json or comparison.csv in this directory")
            self.results += [(str(file), Result.load(file)) for file in files]
        else:
            self.results.append((str(path), Result.load(path)))

    def only(self, name: str) -> Result:
        """Return the single run, for figures that need exactly one."""
        if len(self.results) != 1 or self._studies:
            many = f"{len(self.results):,} runs" if self.results else "a study, without tables of its runs"
            raise ConfigError(f"--{name}: expected one run, got {many}; name the directory or file of one run")
        where, result = self.results[0]
        if name == "waits" and name not in result.tables:
            raise ConfigError(f"--waits: {where}: this run was not traced; run it with xsim run --out DIR --waits FILE")
        if name in ("timeline", "trace") and result.trace is None:
            raise ConfigError(
                f"--{name}: {where}: no trace was saved; run it with xsim run --out DIR --report FILE.html"
            )
        return result

    def lines(self) -> list[Series]:
        """Return virtual times over rank counts, per machine and program or study combination."""
        from xsim_py.report.page.comparison_pages import time_lines

        lines = [line for _, data in self._studies for line in _study_lines(data, self._only)]
        if self.results:
            lines += time_lines(self._comparison())
        if not any(len(line.x) > 1 for line in lines):
            raise ConfigError("speed-up and efficiency need runs with different rank counts; name several")
        return [replace(line, colour=number) for number, line in enumerate(lines)]

    def _comparison(self) -> Comparison:
        from xsim_py.report import Comparison

        programs = {result.program for _, result in self.results}
        found: dict[tuple[str, int], Result] = {}
        for name, result in self.results:
            machine = result.machine.partition(":")[0]
            label = f"{machine}, {result.program}" if len(programs) > 1 else machine
            if (label, result.ranks) in found:
                raise ConfigError(f"{name}: a second result of {label} with {result.ranks:,} ranks; name one of them")
            found[label, result.ranks] = result
        return Comparison(found, title=programs.pop() if len(programs) == 1 else "")

    def write_page(self, args: Namespace) -> None:
        """Write the HTML report of one run or of a comparison."""
        if self._studies:
            raise ConfigError(
                "--report: expected runs, got a study; use xsim study FILE --report, which reruns nothing"
            )
        if len(self.results) == 1:
            self.results[0][1].to_html(args.report)
        else:
            self._comparison().to_html(args.report, command=repeated_by("draw", args.own))


def _study(path: Path) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        assert data["tables"]["summary"]
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise ConfigError(f"{path}: not the results of a study ({type(error).__name__}: {error})") from error
    return data


def _conditions(texts: list[str]) -> list[Condition]:
    from xsim_py.study.condition import Condition

    try:
        return [Condition(text) for text in texts]
    except ValueError as error:
        raise ConfigError(f"--only: {error}") from None


def _holds(only: list[Condition], row: Mapping[str, Any]) -> bool:
    """Return True if a row fulfils all conditions; a missing column is invalid input."""
    try:
        for condition in only:
            condition.check(row)
    except ValueError as error:
        raise ConfigError(f"--only: {error}") from None
    return all(condition.holds(row) for condition in only)


def _columns_of(result: Result) -> dict[str, Any]:
    return {"ranks": result.ranks, "machine": result.machine.partition(":")[0], "program": result.program}


def _study_lines(data: dict[str, Any], only: list[Condition]) -> list[Series]:
    """Return the mean virtual times per combination of parameters except ranks, from the means."""
    from xsim_py.report import Table
    from xsim_py.report.chart import Series

    table = Table.from_dict("summary", data["tables"]["summary"])
    if "ranks" not in table or "virtual_time_s" not in table:
        raise ConfigError(f"study {data.get('study', '')}: no virtual times per rank count to draw")
    names = list(table)[: list(table).index("runs")]
    chosen = [row for row in range(len(table)) if _holds(only, {name: table[name][row] for name in names})]
    keys = [name for name in names if name != "ranks" and len({str(table[name][row]) for row in chosen}) > 1]
    lines: dict[str, list[tuple[int, float, float]]] = {}
    for row in chosen:
        if table["virtual_time_s"][row] is not None:
            label = ", ".join(str(table[name][row]) for name in keys)
            error = table["virtual_time_s_stderr"][row] or 0.0
            lines.setdefault(label, []).append((table["ranks"][row], table["virtual_time_s"][row], error))
    series = []
    for number, (label, points) in enumerate(lines.items()):
        ranks, times, errors = (list(column) for column in zip(*sorted(points), strict=True))
        series.append(Series(label, ranks, times, errors, number, 0))
    return series


def _draw_scaled(lines: list[Series], show: str, target: str, look: Look | None) -> None:
    from xsim_py.report.chart import Chart
    from xsim_py.report.scaling import LABELS, against_fewest, scaling_table

    scaled = against_fewest(lines, show)
    table = scaling_table(scaled, show)
    if target == "-":
        print(table.to_text(max_rows=None))
    elif target.endswith(".csv"):
        table.to_csv(target)
    else:
        y_scale = "log2" if show == "speedup" else "linear"
        chart = Chart(title="", x_label="ranks", y_label=LABELS[show], lines=scaled, x_scale="log2", y_scale=y_scale)
        chart.draw(target, look=look)


def _draw_one(result: Result, name: str, target: str, view: PictureView | None) -> None:
    look = None if view is None else view.look
    if name == "timeline" and target == "-":
        print(result.timeline_text(width=get_terminal_size((100, 24)).columns, view=view))
    elif name == "timeline":
        result.draw_timeline(target, view=view)
    elif name == "waits" and target == "-":
        print(result.tables["waits"].to_text(max_rows=None))
    elif name == "waits":
        result.draw_waits(target, look=look)
    elif name == "pairs" and target.endswith(".csv"):
        result.tables["pairs"].to_csv(target)
    elif name == "pairs":
        result.draw_pairs(target, look=look)
    elif left_out := result.to_perfetto(target):
        said = f"{left_out:,} calls, messages and marks at the end of the run are omitted: the trace is full"
        print(f"xsim: warning: {target}: {said}", file=sys.stderr)
