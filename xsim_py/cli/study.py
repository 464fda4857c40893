"""``xsim study``: the many runs described in a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xsim_py import __version__
from xsim_py.cli.options import Commands, add_parameter, add_report_option, check_report, positive, repeated_by
from xsim_py.cli.output_errors import writing
from xsim_py.cli.output_files import check_outputs, listed
from xsim_py.cli.progress import ProgressLine
from xsim_py.cli.views import add_view_option, picture_look

if TYPE_CHECKING:
    from argparse import Namespace

    from xsim_py.report.style import Look
    from xsim_py.study import StudyResults, StudySpec

_NOTES = """\
Results are written to a directory: runs.jsonl (one line per run, written as it completes), runs.csv (one row per run),
summary.csv (means over repetitions), results.json (everything) and the figures. The same command resumes an unfinished
study.

exit status: 0 if all runs succeeded, 1 if some failed or lack a value whose search took too long, 2 bad input, 130
interrupted.
"""


def add_study_parser(commands: Commands) -> None:
    """Add the command to the sub-parsers of the top level."""
    from argparse import RawDescriptionHelpFormatter

    parser = commands.add_parser(
        "study",
        help="run the many simulations of a study file; tables and figures",
        description="Run the unfinished part of a study on all cores, print its tables and draw its figures.",
        epilog=_NOTES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.set_defaults(action=study)
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="run this YAML file or preset (default: list the presets)")
    add("-j", "--jobs", type=positive, metavar="N", help="run N simulations in parallel (default: one per core)")
    add(
        "--only",
        action="append",
        default=[],
        metavar="CONDITION",
        help="select runs, e.g. ranks<=64, machine=gige,shmem or repetition=0 (repeatable)",
    )
    every = "network.latency=5us, or an option of the study's command, e.g. runs=10000"
    add_parameter(parser, "set", help=f"override one key of every machine, e.g. {every} (repeatable)")
    add("--out", metavar="DIR", help="write results to this directory (default: NAME-results)")
    add("--fresh", action="store_true", help="discard existing results and start over")
    add_view_option(parser)
    add_report_option(parser, of="the study")
    add("--list", action="store_true", help="list all runs and their state, without running them")
    add("--quiet", action="store_true", help="print only the table and errors")
    add("--schema", action="store_true", help="print the JSON Schema of studies, for editors")
    add("--markdown", action="store_true", help="print the keys of a study as a Markdown table")


def study(args: Namespace) -> int:
    """Run the command and return the exit status."""
    if args.schema or args.markdown:
        from xsim_py.study.loader import json_schema, markdown_table

        print(markdown_table() if args.markdown else json.dumps(json_schema(), indent=2))
        return 0
    if args.file is None:
        _list_presets()
        return 0
    from xsim_py.clashes import InputFile
    from xsim_py.study import load_study

    spec = load_study(args.file)
    check_report(args.report)
    look = picture_look(args)
    check_outputs({"report": args.report}, inputs=lambda: [InputFile("the study", spec.places[""].name)])
    return _list_runs(spec, args) if args.list else _run(spec, args, look)


def _list_presets() -> None:
    from xsim_py.study import load_study
    from xsim_py.study.loader import presets

    width = max(map(len, presets()), default=0) + 2
    for name in presets():
        print(f"{name:<{width}}{load_study(name).description}")


def _list_runs(spec: StudySpec, args: Namespace) -> int:
    """Print a table of the runs, with the outcomes of completed ones."""
    from xsim_py.report import Table
    from xsim_py.study import plan_runs
    from xsim_py.study.conduct import conditions, results_folder
    from xsim_py.study.store import read_outcomes

    runs = plan_runs(spec, only=conditions(args.only), overrides=dict(args.set))
    outcomes = read_outcomes(results_folder(spec, args.out))
    columns: dict[str, list[Any]] = {name: [run.columns[name] for run in runs] for name in runs[0].columns}
    columns["state"] = [outcomes[run.key]["ended"] if run.key in outcomes else "" for run in runs]
    print(Table("runs", columns).to_text(max_rows=None))
    return 0


def _run(spec: StudySpec, args: Namespace, look: Look | None) -> int:
    """Run the missing runs, print the table, and list the written files."""
    from xsim_py.study import run_study
    from xsim_py.study.conduct import StudyInterrupted, results_folder

    folder = results_folder(spec, args.out)
    begun = args.quiet

    def progress(done: int, planned: int, failed: int, left_s: float | None) -> None:
        nonlocal begun
        if not begun:
            before = f", {done:,} already finished" if done else ""
            text = f"xsim: version {__version__}, study {spec.name}: {planned:,} runs{before}; in {folder}"
            print(text, file=sys.stderr)
            begun = True
        line.count(done, planned, failed, left_s)

    try:
        with writing(folder), ProgressLine(sys.stderr, wanted=not args.quiet, plain="xsim: ") as line:
            results = run_study(
                spec,
                out=folder,
                jobs=args.jobs,
                only=args.only,
                overrides=dict(args.set),
                fresh=args.fresh,
                progress=progress,
                look=look,
            )
    except StudyInterrupted as interrupt:
        planned, missing = len(interrupt.results.planned), interrupt.results.missing
        print(f"xsim: interrupted: {planned - missing:,} of {planned:,} runs are saved", file=sys.stderr)
        print("xsim: the same command resumes the study", file=sys.stderr)
        return 130
    print(results.shown().to_text(max_rows=None))
    if args.report is not None:
        with writing():
            results.to_html(args.report, command=repeated_by("study", args.own))
    for text, details in results.problems():
        print(f"xsim: {text}", *details, sep="\n", file=sys.stderr)
    if not args.quiet:
        _say_where(results, folder, args.report)
    return 1 if results.failed or results.given_up else 0


def _say_where(results: StudyResults, folder: Path, page: str | None) -> None:
    besides = "" if page is None else f", and {page}"
    print(f"xsim: wrote {listed([path.name for path in results.written])} in {folder}{besides}", file=sys.stderr)
    if results.not_drawn:
        print(f"xsim: no figure: {results.not_drawn}", file=sys.stderr)
    for remark in results.remarks:
        print(f"xsim: {remark}", file=sys.stderr)
