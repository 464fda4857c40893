"""``xsim compare``: one program on several machines and rank counts."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from xsim_py import __version__
from xsim_py.cli.options import (
    PROGRAM_USAGE,
    Commands,
    add_parameters,
    add_report_option,
    add_sizes_option,
    check_report,
    exit_status,
    machine_labels,
    names,
    options_named,
    repeated_by,
    simulation_arguments,
)
from xsim_py.cli.output_errors import writing
from xsim_py.cli.output_files import check_outputs, simulation_inputs
from xsim_py.cli.progress import ProgressLine
from xsim_py.cli.run import print_findings
from xsim_py.cli.views import add_view_option, picture_look
from xsim_py.errors import ConfigError

if TYPE_CHECKING:
    from argparse import Action, Namespace
    from collections.abc import Mapping

    from xsim_py.report import Comparison, Result
    from xsim_py.report.style import Look


def add_compare_parser(commands: Commands) -> list[Action]:
    """Add the command, and return its options."""
    parser = commands.add_parser(
        "compare",
        usage=f"xsim compare --machines A,B,... -n N,M,... [option ...] {PROGRAM_USAGE}",
        help="compare machines and rank counts for a program",
        description="Run an mpi4py program on each machine with each rank count and print one table.",
    )
    parser.set_defaults(action=compare)
    add = parser.add_argument
    return [
        add("--machines", required=True, type=names, metavar="A,B,...", help="run on these presets or YAML files"),
        add_sizes_option(parser),
        *add_parameters(parser, "description", "simulation"),
        add(
            "--out",
            metavar="DIR",
            help="write comparison.csv, comparison.png and all results and outputs to a directory",
        ),
        add_view_option(parser),
        add_report_option(parser, of="the comparison"),
    ]


def compare(args: Namespace) -> int:
    """Run all cases, print the table, and return the first non-zero exit status."""
    from xsim_py.report import Comparison

    labels = machine_labels(args.machines)
    folder = None if args.out is None else Path(args.out)
    runs = [f"{label}-{ranks}" for label in labels for ranks in args.ranks]
    holds = ["comparison.csv", "comparison.png", *(f"{run}{end}" for run in runs for end in (".json", ".txt"))]
    check_report(args.report)
    look = picture_look(args)
    files = {"report": args.report}
    check_outputs(files, folder=args.out, holds=holds, inputs=lambda: simulation_inputs(args, args.machines))
    _check_all(args, labels)
    results: dict[tuple[str, int], Result] = {}
    print(f"xsim: version {__version__}, seed {args.seed}", file=sys.stderr)
    for ranks in args.ranks:
        for label, machine in labels.items():
            result, output = _run(args, label, machine, ranks)
            results[label, ranks] = result
            if folder is not None:
                _keep(result, output, folder / f"{label}-{ranks}")
    comparison = Comparison(results, title=" ".join([args.program.name, *args.program.args]))
    print(comparison)
    if folder is not None:
        with writing():
            _write(comparison, folder, look)
    if args.report is not None:
        with writing():
            comparison.to_html(args.report, command=repeated_by("compare", args.own, args.program))
    statuses = (exit_status(result.ended, result.exit_status) for result in results.values())
    return next((status for status in statuses if status), 0)


def _check_all(args: Namespace, labels: Mapping[str, str]) -> None:
    """Reject invalid input of any run before the first one starts."""
    from xsim_py.run import refuse_wrong_input

    for label, machine in labels.items():
        for ranks in args.ranks:
            try:
                with options_named():
                    refuse_wrong_input(**simulation_arguments(args), ranks=ranks, machine=machine)
            except ConfigError as error:
                raise ConfigError(*(f"{label}, {ranks:,} ranks: {problem}" for problem in error.problems)) from None


def _run(args: Namespace, label: str, machine: str, ranks: int) -> tuple[Result, str]:
    """Return a run's result and the program's output; print a line on standard error at its end."""
    from xsim_py.run import simulate

    line = ProgressLine(sys.stderr, plain=f"xsim: {label}, {ranks:,} ranks: ")
    output = io.StringIO()
    try:
        with options_named():
            result = simulate(
                **simulation_arguments(args),
                ranks=ranks,
                machine=machine,
                stdout=output,
                stderr=line.above(sys.stderr),
                progress=line.callback,
            )
    finally:
        line.clear()
    said = f"{result.ended}, virtual time {result.virtual_time()}, config {result.config_hash}"
    print(f"xsim: {label}, {ranks:,} ranks: {said} ({result.wall_s:.2f} s wall clock)", file=sys.stderr)
    print_findings(result, sys.stderr)
    if result.ended == "interrupted":
        raise KeyboardInterrupt
    return result, output.getvalue()


def _keep(result: Result, output: str, name: Path) -> None:
    """Write a run's result and the program's output."""
    from xsim_py.atomic_files import atomic_file

    with writing():
        with atomic_file(f"{name}.json", follow=False) as file:
            result.to_json(file)
        with atomic_file(f"{name}.txt", follow=False) as file:
            file.write(output)


def _write(comparison: Comparison, folder: Path, look: Look | None) -> None:
    """Write the table and the figure, and print their names."""
    from xsim_py.atomic_files import atomic_file, atomic_path

    paths = [folder / "comparison.csv", folder / "comparison.png"]
    with atomic_file(paths[0], follow=False) as file:
        comparison.table().to_csv(file)
    try:
        with atomic_path(paths[1], follow=False) as path:
            comparison.draw(path, look=look)
    except ConfigError as error:
        print(f"xsim: no figure: {error}", file=sys.stderr)
        del paths[1]
    print(f"xsim: wrote {' and '.join(map(str, paths))}", file=sys.stderr)
