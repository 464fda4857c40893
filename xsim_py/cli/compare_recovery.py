"""``xsim compare-recovery``: several recovery schemes under the same failures, by phase."""

from __future__ import annotations

import sys
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from xsim_py import __version__
from xsim_py.cli.options import (
    PROGRAM_USAGE,
    Commands,
    add_parameter,
    add_parameters,
    add_report_option,
    add_sizes_option,
    check_report,
    machine_labels,
    names,
    options_named,
    positive,
    repeated_by,
    time_ps,
)
from xsim_py.cli.output_errors import writing
from xsim_py.cli.output_files import check_outputs, not_dash, simulation_inputs
from xsim_py.cli.progress import ProgressLine
from xsim_py.cli.views import add_view_option, picture_look
from xsim_py.errors import ConfigError
from xsim_py.units import PS_PER_S

if TYPE_CHECKING:
    from xsim_py.report.style import Look
    from xsim_py.study.recovery.comparison import RecoveryComparison
    from xsim_py.study.recovery.experiment import Experiment

_NOTES = """\
schemes:
  ftco     fault-tolerant collectives: no change to the program
  ulfm     the program catches the error, revokes, shrinks and retries
  legio    a layer under the program does the same: no change to the program
  restart  the error aborts the program and the job is restarted
A program with an option --recovery defines its own schemes, the choices of that option: it runs as under ulfm with
--recovery SCHEME, and the whole job is measured.

failures, joined by +:
  none                       no failure
  1                          a child of the root of FTCO's tree
  2p                         two of them, in different subtrees (parallel)
  2s                         a parent and its child, detected in turn (serial)
  3m                         2s and one more child of the root (mixed)
  5@1.2ms, 5@before, 5@half  rank 5 at a time, before the call, or at half of the failure-free time
  node=1@half                another component
  exponential:node,mtbf=10ms a failure law
Ranks without a time fail right before the call.

Without PROGRAM, apps/allreduce_loop.py runs. Each run takes place in a separate empty directory; in the program's
arguments {scheme} stands for the scheme and {folder} for the directory in which the command was started.

exit status: 0 if all programs finished with status 0, or, after failures, with status 1 and a line `lost: WHAT`; 1 if
one did not, or printed `right: False`; 2 bad input; 130 interrupted.
"""


def add_compare_recovery_parser(commands: Commands) -> list[Action]:
    """Add the command, and return its options."""
    from argparse import RawDescriptionHelpFormatter

    parser = commands.add_parser(
        "compare-recovery",
        usage=f"xsim compare-recovery -n N,M,... [option ...] [{PROGRAM_USAGE}]",
        help="compare recovery schemes (FTCO, ULFM, Legio, restart) under the same failures",
        description="Run a program under several recovery schemes with the same failures and measure each phase.",
        epilog=_NOTES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.set_defaults(action=compare_recovery, program=None)
    add = parser.add_argument
    return [
        *_add_cases(parser),
        *_add_failing(parser),
        *add_parameters(parser, "description"),
        add_parameter(parser, "shards", help="simulate each run in K shards (default: 1)"),
        add_parameter(parser, "isolation"),
        add_parameter(parser, "wall_limit", help="end a run after this wall-clock time, e.g. 60s (default: none)"),
        add("-j", "--jobs", type=positive, metavar="N", help="run N simulations in parallel (default: one per core)"),
        add("--json", metavar="FILE", help="write all results as JSON (-: standard output, no tables)"),
        add(
            "--out",
            metavar="DIR",
            help="write recovery.csv, recovery.json, the figures and all outputs to a directory",
        ),
        add_view_option(parser),
        add_report_option(parser, of="the comparison"),
    ]


def _add_cases(parser: ArgumentParser) -> list[Action]:
    """Add the options that select what is compared, and return them."""
    add = parser.add_argument
    return [
        add(
            "--machine",
            "--machines",
            dest="machines",
            type=names,
            default=["gige"],
            metavar="A,B,...",
            help="run on these presets or YAML files (default: gige)",
        ),
        add_sizes_option(parser),
        add(
            "--failures",
            type=_failures,
            default=["none", "1", "2p", "2s", "3m"],
            metavar="F,G,...",
            help="inject these failures, see below (default: none,1,2p,2s,3m)",
        ),
        add(
            "--schemes",
            type=_schemes,
            metavar="S,T,...",
            help="compare these schemes (default: the choices of the program's --recovery except none, or"
            " ftco,ulfm,legio,restart)",
        ),
        add(
            "--whole",
            action="store_true",
            help="measure the whole job, not one call (default for programs with --recovery)",
        ),
    ]


def _add_failing(parser: ArgumentParser) -> list[Action]:
    """Add the options for failures and their detection, and return them."""
    add = parser.add_argument
    return [
        add(
            "--timeout",
            type=_positive_time,
            default=2 * PS_PER_S,
            metavar="TIME",
            help="set the failure-detection timeout (default: 2s, as in the FTCO paper)",
        ),
        add(
            "--restart-delay",
            type=time_ps,
            default=10 * PS_PER_S,
            metavar="TIME",
            help="set the time from an abort to the restart (default: 10s)",
        ),
        add(
            "--call",
            type=_call,
            metavar="'NTH NAME'",
            help="inject failures at this call, e.g. '2nd Allreduce' (default: the middle call of the program's most"
            " frequent collective; for a whole job with few calls, half of its time)",
        ),
        add(
            "--after",
            type=time_ps,
            metavar="TIME",
            help="inject failures TIME after the failure-free start of the call (default: before it)",
        ),
    ]


def compare_recovery(args: Namespace) -> int:
    """Run all cases and print tables; return 0 if each was correct or reported its lost data."""
    from xsim_py.study.recovery.experiment import compare_recovery, plan_recovery

    check_report(args.report)
    look = picture_look(args)
    experiment = _experiment(args)
    with options_named():
        planned = plan_recovery(experiment)
    check_outputs(
        {"report": args.report, **not_dash(args, "json")},
        folder=args.out,
        holds=["recovery.csv", "recovery.json", *(f"{case.name}.txt" for case in planned)],
        inputs=lambda: simulation_inputs(args, args.machines),
    )
    folder = None if args.out is None else Path(args.out)
    print(f"xsim: version {__version__}, seed {args.seed}, {experiment.title}", file=sys.stderr)
    kept = nullcontext() if folder is None else writing(folder)
    with ProgressLine(sys.stderr, plain="xsim: ") as line, kept:
        comparison = compare_recovery(experiment, jobs=args.jobs, out=folder, progress=line.count)
    if args.json == "-":
        comparison.to_json(sys.stdout)
    else:
        print(comparison)
    if args.json not in (None, "-"):
        with writing():
            comparison.to_json(args.json)
    if args.report is not None:
        with writing():
            _report(comparison, experiment, args)
    if comparison.is_all_communication:
        print("xsim: computation costs no virtual time: total and lost cover communication and waits", file=sys.stderr)
    for run in comparison.runs:
        if run.is_clean_loss:
            print(f"xsim: data lost: {run.case}: {run.data_lost}", file=sys.stderr)
        elif not run.is_good:
            print(f"xsim: failed: {run.outcome}", file=sys.stderr)
        for text in run.said.splitlines():
            print(f"    {text}", file=sys.stderr)
    if folder is not None:
        with writing():
            _write(comparison, folder, look)
    return 0 if all(run.is_good or run.is_clean_loss for run in comparison.runs) else 1


def _experiment(args: Namespace) -> Experiment:
    from xsim_py.study.recovery.experiment import Experiment

    program = {}
    if args.program is not None:
        program = {"program": args.program.target, "kind": args.program.kind, "args": args.program.args}
    return Experiment(
        **program,
        machines=machine_labels(args.machines),
        ranks=args.ranks,
        failures=args.failures,
        schemes=args.schemes or (),
        whole=args.whole,
        timeout_ps=args.timeout,
        restart_delay_ps=args.restart_delay,
        call=args.call,
        after_ps=args.after,
        overrides=dict(args.set),
        seed=args.seed,
        shards=args.shards,
        isolation=args.isolation,
        wall_limit_s=args.wall_limit,
    )


def _report(comparison: RecoveryComparison, experiment: Experiment, args: Namespace) -> None:
    """Write the HTML report."""
    from xsim_py.config import description_text

    command = repeated_by("compare-recovery", args.own, args.program)
    overrides = dict(args.set)
    comparison.to_html(
        args.report,
        facts={"command": command, "seed": str(args.seed), "version": f"xsim_py {__version__}"},
        descriptions={
            name: description_text(machine, overrides=overrides) for name, machine in experiment.machines.items()
        },
    )


def _write(comparison: RecoveryComparison, folder: Path, look: Look | None) -> None:
    """Write the table and the figures, and print their names."""
    from xsim_py.atomic_files import atomic_file

    with atomic_file(folder / "recovery.csv", follow=False) as file:
        comparison.table().to_csv(file)
    with atomic_file(folder / "recovery.json", follow=False) as file:
        comparison.to_json(file)
    written = [folder / "recovery.csv", folder / "recovery.json"]
    try:
        written += comparison.draw(folder, look=look)
    except ConfigError as error:
        print(f"xsim: no figure: {error}", file=sys.stderr)
    print(f"xsim: wrote {', '.join(path.name for path in written)} in {folder}", file=sys.stderr)


def _schemes(text: str) -> list[str]:
    return list(dict.fromkeys(names(text)))


def _failures(text: str) -> list[str]:
    """Return the failures separated by commas; ``mtbf=1ms`` after a comma belongs to its law."""
    found: list[str] = []
    for word in names(text):
        if found and ":" in found[-1] and "=" in word and not {"@", ":"} & {*word}:
            found[-1] += f",{word}"
        else:
            found.append(word)
    return found


def _positive_time(text: str) -> int:
    found = time_ps(text)
    if found <= 0:
        raise ArgumentTypeError(f"expected a positive time, got {text!r}")
    return found


def _call(text: str) -> tuple[str, int]:
    from xsim_py.study.recovery.experiment import parse_call

    try:
        return parse_call(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
