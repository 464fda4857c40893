"""``xsim run``: one program on one machine."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TextIO, cast

from xsim_py import parameters
from xsim_py.cli.options import (
    PROGRAM_USAGE,
    add_check_options,
    add_parameter,
    add_parameters,
    add_report_option,
    check_report,
    exit_status,
    first_line,
    options_named,
    repeated_by,
    simulation_arguments,
)
from xsim_py.cli.output_errors import Patient, writing
from xsim_py.cli.output_files import check_outputs, listed, not_dash, simulation_inputs
from xsim_py.cli.progress import ProgressLine
from xsim_py.cli.views import add_view_option, picture_view
from xsim_py.errors import ConfigError, visible
from xsim_py.units import format_time, parse_exact_seconds, spans

if TYPE_CHECKING:
    from argparse import Action, ArgumentParser, Namespace
    from collections.abc import Callable, Container, Iterator

    from xsim_py.cli.options import Commands
    from xsim_py.report import Result
    from xsim_py.report.style import Look

_MOST_FAILURES = 8
_MANY_RANKS = 4_096
_TO_STDOUT = ("json", "timeline", "waits")
_BESIDES = {"timeline": "; or -, for text", "waits": "; or .csv, for a table; or -, for text"}
FILES = ("json", "out", "trace", "timeline", "waits", "pairs", "links", "report")
"""The options that name output files."""

_NOTES = """\
Everything after PROGRAM, -m MODULE or -c CODE is passed to the program, as with python itself.

exit status: the program's exit status; 2 bad input; 3 deadlock; 4 wall limit; 5 findings of --check; 74 output cannot
be written; 130 interrupted.

To shard a run over real MPI processes: mpiexec -n 2 xsim run ...
"""


def add_run_parser(commands: Commands) -> list[Action]:
    """Add the command, and return its options."""
    from argparse import RawDescriptionHelpFormatter

    parser = commands.add_parser(
        "run",
        usage=f"xsim run -n N [option ...] {PROGRAM_USAGE}",
        help="run a program on a simulated machine",
        description="Run an mpi4py program or an MPI executable on N virtual ranks of a machine, under virtual time.",
        epilog=_NOTES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.set_defaults(action=run)
    return [
        add_parameter(parser, "ranks"),
        add_parameter(parser, "machine"),
        *add_parameters(parser, "description", "simulation"),
        *add_check_options(parser),
        *add_parameters(parser, "run"),
        *_add_outputs(parser),
        *add_parameters(parser, "output"),
        parser.add_argument("--quiet", action="store_true", help="print only the program's output and errors"),
    ]


def _add_outputs(parser: ArgumentParser) -> list[Action]:
    """Add the output options, and return them."""
    add = parser.add_argument
    return [
        add(
            "--json",
            metavar="FILE",
            help="write the summary as JSON (-: standard output; the program's output goes to standard error)",
        ),
        add("--out", metavar="DIR", help="write result.json and a CSV file per table to a directory"),
        add("--trace", metavar="FILE", help="write a trace for https://ui.perfetto.dev as JSON"),
        add(
            "--timeline",
            metavar="FILE",
            help="draw the calls of each rank over time (.png, .svg, .pdf; -: as text)",
        ),
        add(
            "--waits",
            metavar="FILE",
            help="draw each rank's computation, transfer and wait times (.png, .svg, .pdf, .csv; -: as text)",
        ),
        add(
            "--pairs",
            metavar="FILE",
            help="draw the communication matrix, bytes per pair of ranks (.png, .svg, .pdf; table in --out)",
        ),
        add(
            "--links",
            metavar="FILE",
            help="write the bytes carried by each link as CSV, for xsim models draw --loads",
        ),
        add_view_option(parser, parts=True),
        add_report_option(parser, of="the run"),
    ]


def run(args: Namespace) -> int:
    """Run the program, print and write the results, and return the exit status."""
    _check_outputs(args)
    picture_view(args)
    simulate = load_simulator()
    from xsim_py.process.ranks.fiber import keep_idle
    from xsim_py.process.ranks.memory import release_large_blocks

    if args.last:
        keep_idle()
        if args.ranks >= _MANY_RANKS:
            release_large_blocks()
    line = ProgressLine(sys.stderr, wanted=not args.quiet)
    sinks = [line.above(sys.stderr if args.json == "-" else sys.stdout), line.above(sys.stderr)]
    patient = [Patient(sink) for sink in sinks] if _to_files(args) else []
    stdout, stderr = cast("list[TextIO]", patient) or sinks
    reporter = _Reporter(args, stderr)
    try:
        with options_named(), _input(args):
            result = simulate(
                **simulation_arguments(args),
                ranks=args.ranks,
                machine=args.machine,
                trace=any(given is not None for given in (args.trace, args.timeline, args.waits, args.report)),
                links=args.links is not None,
                stdout=stdout,
                stderr=stderr,
                progress=line.callback,
                started=reporter.started,
            )
    finally:
        line.clear()
    stdout.flush()
    reporter.ended(result)
    for sink in patient:
        if sink.error is not None:
            raise sink.error
    return exit_status(result.ended, result.exit_status)


def _input(args: Namespace) -> AbstractContextManager[None]:
    """Return a context for the ranks' input; ranks in processes read lines in turn."""
    if args.isolation == "greenlets":
        return nullcontext()
    from .stdin import line_by_line

    return line_by_line()


def load_simulator() -> Callable[..., Result]:
    """Import `simulate` without garbage collection, which takes a tenth of the start-up time."""
    gc.disable()
    try:
        from xsim_py.run import simulate
    finally:
        gc.freeze()
        gc.unfreeze()  # all objects count as old now: the next collection would scan them
        gc.enable()
    return simulate


class _Reporter:
    """Prints the start and the outcome of a run, in the one process notified of the start.

    Under ``mpiexec`` every process has the same command line, and only the first is notified.
    """

    def __init__(self, args: Namespace, stderr: TextIO) -> None:
        self._args = args
        self._stderr = stderr
        self._told = False
        self._view = picture_view(args)

    def started(self, provenance: dict[str, Any]) -> None:
        """Print the first line of a run, with everything needed to reproduce it."""
        self._told = True
        if not self._args.quiet:
            print(first_line(provenance), file=self._stderr, flush=True)

    def ended(self, result: Result) -> None:
        """Print and write the results."""
        if not self._told:
            return
        if not self._args.quiet:
            print_failures(result, self._stderr)
        print_findings(result, self._stderr)
        if not self._args.quiet:
            counts = f"{result.events:,} events, {result.messages:,} messages, digest {result.digest}"
            again = f" after {result.restarts:,} restart{'s' * (result.restarts > 1)}" if result.restarts else ""
            print(f"xsim: {result.ended}{again}: virtual time {result.times()}, {counts}", file=self._stderr)
        if self._args.profile:
            print_profile(result, self._stderr)
        self._stderr.flush()
        try:
            with writing():
                self._write(result)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("while writing the results: existing files are complete") from None

    def _write(self, result: Result) -> None:
        if self._args.command == "run" and (self._args.report is not None or self._args.out is not None):
            result.set_origin(command=repeated_by("run", self._args.own, self._args.program))
        if self._args.json not in (None, "-"):
            result.to_json(self._args.json, tables=False)
        if self._args.out is not None:
            result.save(self._args.out)
        if self._args.trace is not None:
            self._write_trace(result)
        if self._args.links is not None:
            result.tables["links"].to_csv(self._args.links)
        undrawn: dict[str, str] = {}
        if self._args.timeline not in (None, "-"):
            with _later("--timeline", undrawn):
                result.draw_timeline(self._args.timeline, view=self._view)
        if self._args.pairs is not None:
            with _later("--pairs", undrawn):
                result.draw_pairs(self._args.pairs, look=self._look())
        if self._args.waits not in (None, "-"):
            with _later("--waits", undrawn):
                result.draw_waits(self._args.waits, look=self._look())
        if self._args.report is not None:
            with _later("--report", undrawn):
                result.to_html(self._args.report)
        if not self._args.quiet:
            self._say_where(undrawn)
        # Files first, so that they exist even if standard output fails.
        if self._args.json == "-":
            result.to_json(sys.stdout, tables=False)
        if self._args.timeline == "-":
            with _later("--timeline", undrawn):
                print(result.timeline_text(width=get_terminal_size((100, 24)).columns, view=self._view))
        if self._args.waits == "-":
            print(result.tables["waits"])
        if undrawn:
            raise ConfigError("; ".join(f"{option}: {reason}" for option, reason in undrawn.items()))

    def _say_where(self, undrawn: Container[str]) -> None:
        """Print the names of the written files."""
        given = {name: vars(self._args)[name] for name in FILES if f"--{name}" not in undrawn}
        if given["out"] is not None:
            given["out"] = os.path.join(given["out"], "")
        names = [name for name in (_recorded(self._args), *given.values()) if name not in (None, "-")]
        if names:
            print(f"xsim: wrote {listed(names)}", file=self._stderr, flush=True)

    def _look(self) -> Look | None:
        return None if self._view is None else self._view.look

    def _write_trace(self, result: Result) -> None:
        left_out = result.to_perfetto(self._args.trace)
        if left_out:
            said = f"{left_out:,} calls, messages and marks at the end of the run are omitted: the trace is full"
            print(f"xsim: warning: {self._args.trace}: {said}", file=self._stderr)


@contextmanager
def _later(option: str, undrawn: dict[str, str]) -> Iterator[None]:
    """Record an error of drawing until the other results of a long run are written."""
    try:
        yield
    except ConfigError as error:
        undrawn[option] = str(error)


def print_failures(result: Result, file: TextIO) -> None:
    """Print the first process failures, and all other faults.

    Ranks that have failed together, such as those of a node, share a line. The report names the failure that has ended
    the job, so it is omitted here.
    """
    from xsim_py.config import FAULTS

    together: dict[tuple[str, str], list[int]] = {}
    for failure in result.failures:
        when = format_time(parse_exact_seconds(failure["time_exact_s"]), digits=None)
        if not result.report.startswith(f"rank {failure['rank']} ended the job at {when}: {failure['cause']}"):
            together.setdefault((when, failure["cause"]), []).append(failure["rank"])
    for (when, cause), ranks in islice(together.items(), _MOST_FAILURES):
        print(f"xsim: rank{'s' * (len(ranks) > 1)} {spans(ranks)} failed at {when}: {visible(cause)}", file=file)
    more = sum(map(len, islice(together.values(), _MOST_FAILURES, None)))
    if more:
        print(f"xsim: ... and {more:,} more failures", file=file)
    for name in [name for name in reversed(FAULTS) if name in result.tables]:
        from xsim_py.failure import fault_kinds  # most runs have none

        columns = {**result.tables[name].columns, **result.tables[name].picoseconds}
        for cells in zip(*columns.values(), strict=True):
            if line := fault_kinds()[name].line(dict(zip(columns, cells, strict=True))):
                print(f"xsim: {line}", file=file)


def print_profile(result: Result, file: TextIO) -> None:
    """Print one line per shard with the shares of its wall time."""
    table = result.tables["profile"]
    for shard in sorted(set(table["shard"])):
        parts = {p: s for n, p, s in zip(table["shard"], table["part"], table["wall_s"], strict=True) if n == shard}
        whole = sum(parts.values()) or 1.0
        shares = ", ".join(f"{part} {seconds / whole:.0%}" for part, seconds in parts.items())
        print(f"xsim: profile of shard {shard}: {shares} of {sum(parts.values()):.3g} s", file=file)


def print_findings(result: Result, file: TextIO) -> None:
    """Print the warnings, the report and the findings."""
    for warning in result.warnings:
        print(f"xsim: warning: {warning}", file=file)
    if result.report:
        print(result.report, file=file)
    for finding in result.findings:
        print(finding.report(), file=file)


def _to_files(args: Namespace) -> bool:
    """Return True if results of the run are written to files."""
    files = (_recorded(args), *(vars(args)[name] for name in FILES))
    return args.out is not None or any(name not in (None, "-") for name in files)


def _recorded(args: Namespace) -> str | None:
    """Return the file to which computing times are recorded, if any."""
    asked = args.compute or ""
    return asked.removeprefix(parameters.RECORD) if asked.startswith(parameters.RECORD) else None


def _check_outputs(args: Namespace) -> None:
    """Check before the run that the results can be written."""
    dashes = [f"--{name} -" for name in _TO_STDOUT if getattr(args, name) == "-"]
    if len(dashes) > 1:
        raise ConfigError(f"{' and '.join(dashes)}: only one option can write to standard output")
    drawn = {"timeline": args.timeline, "pairs": args.pairs}
    if args.waits is not None and not args.waits.lower().endswith(".csv"):
        drawn["waits"] = args.waits
    if any(name not in (None, "-") for name in drawn.values()):
        from xsim_py.report.style import check_picture

        for option, name in drawn.items():
            if name not in (None, "-"):
                check_picture(name, besides=_BESIDES.get(option, ""))
    check_report(args.report)
    if _to_files(args):
        from xsim_py.report.table import every_table

        check_outputs(
            {
                "compute": _recorded(args),
                **{name: vars(args)[name] for name in ("trace", "pairs", "links", "report")},
                **not_dash(args, *_TO_STDOUT),
            },
            folder=args.out,
            holds=["result.json", "trace.json.gz", *(f"{table}.csv" for table in every_table())],
            inputs=lambda: simulation_inputs(args, [args.machine]),
        )
