"""``xsim ftco``: the formal model of fault-tolerant tree collectives, in steps."""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from xsim_py import __version__
from xsim_py.cli.options import Commands, positive, seed, time_ps
from xsim_py.cli.output_errors import writing
from xsim_py.cli.output_files import check_outputs, not_dash, write_text
from xsim_py.cli.progress import ProgressLine
from xsim_py.cli.views import add_view_option, picture_look
from xsim_py.errors import ConfigError
from xsim_py.units import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xsim_py.ftco.model import Configuration
    from xsim_py.ftco.summary import Statistic, Summary
    from xsim_py.report import Table

_OVERHEAD_PS = 130_000
_SAMPLINGS = ("plain", "strata")
_OPTIONS = (
    "nodes", "tree", "roots", "L", "o", "inactive", "failures", "window", "imbalance", "operation", "algorithm",
    "group", "service", "timeout",
)  # fmt: skip
_NOTES = """\
Most options take comma-separated lists, and every combination is run: --nodes 1024,2048 --inactive 1,10,100.

Values are means over the runs, +- their standard errors. A run that never ends (possible under the reference rules)
is counted as hung and excluded from the means.

exit status: 0, 2 bad input, 130 interrupted.
"""


def add_ftco_parser(commands: Commands) -> None:
    """Add the command to the sub-parsers of the top level."""
    parser = commands.add_parser(
        "ftco",
        help="run fault-tolerant tree collectives in the formal step model",
        description="Run FTCO's Allreduce, Reduce or Bcast many times in the formal model of its authors.",
        epilog=_NOTES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.set_defaults(action=run_ftco)
    _add_configuration(parser)
    add = parser.add_argument
    add("--runs", type=positive, default=100, metavar="N", help="run each configuration N times (default: 100)")
    add(
        "--sampling",
        choices=_SAMPLINGS,
        default="plain",
        help="draw failures at random (plain) or stratified by the topmost tree level hit, for smaller errors (strata;"
        " default: plain)",
    )
    add("--seed", type=seed, default=0, metavar="S", help="seed every random draw (default: 0)")
    add("-j", "--jobs", type=positive, metavar="N", help="use N processes (default: one per core)")
    add(
        "--json",
        metavar="FILE",
        help="write all results as JSON, one object per configuration (-: standard output)",
    )
    add("--csv", metavar="FILE", help="write all results as CSV, one row per configuration (-: standard output)")
    add(
        "--trace",
        nargs="?",
        const="-",
        metavar="FILE",
        help="print the messages of one run step by step, or draw them to FILE (.png, .svg, .pdf)",
    )
    add_view_option(parser)
    add(
        "--kill",
        action="append",
        type=_failure_place,
        metavar="NODE[@STEP]",
        help="with --trace: fail this node, initially or in that step (repeatable)",
    )
    add("--quiet", action="store_true", help="print only the table")


def _add_configuration(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--nodes", required=True, metavar="N,...", help="set the number of nodes, e.g. 1024,2048")
    add("--tree", metavar="KIND:K,...", help="set the tree, knomial or kary, and its radix (default: knomial:auto)")
    add("--roots", metavar="ROOTS,...", help="use a single root, or multi: one per radix, connected (default: multi)")
    add("--L", metavar="N,...", help="set the network latency, a multiple of --o (default: 10)")
    add("--o", metavar="N,...", help="set the message overhead, one step, in the unit of --L (default: 1)")
    add("--inactive", metavar="N,...", help="set the number of initially failed nodes (default: 0)")
    add("--failures", metavar="N,...", help="set the number of nodes failing at run time (default: 0)")
    add("--window", metavar="A..B", help="set the steps of these failures (default: 0..L/o (1 + floor(log10 N)))")
    add(
        "--imbalance", metavar="KIND:S,...", help="delay node starts: none, uniform:S or normal:S steps (default: none)"
    )
    add("--operation", metavar="NAME,...", help="run allreduce, reduce or bcast (default: allreduce)")
    add(
        "--algorithm",
        metavar="NAME,...",
        help="run tree (FTCO, the default) or a baseline: recursive_doubling, hierarchical, gossip, rerouting,"
        " lookup_avoiding, rebalancing",
    )
    add("--group", metavar="N,...", help="set the nodes that share memory, for hierarchical (default: 16)")
    add(
        "--rules",
        action="append",
        metavar="NAME[,KEY=VALUE...]",
        help="use the rules of the authors' simulator (reference) or paper, with changes, e.g. keepalive=not_arrived"
        " (default: reference; repeatable)",
    )
    add("--service", metavar="NAME", help="set the service distance: rsd, disd or none (default: rsd)")
    add("--timeout", metavar="N", help="set the failure-detection timeout in steps (default: the paper's function)")
    add(
        "--overhead-time",
        type=time_ps,
        default=_OVERHEAD_PS,
        metavar="TIME",
        help="set the duration of a step, for latencies in seconds (default: 0.13us, as in the paper)",
    )


def run_ftco(args: Namespace) -> int:
    """Run the command and return the exit status."""
    from xsim_py.ftco.options import configurations

    given = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None}
    try:
        made = configurations(given, rules=args.rules or ())
    except ConfigError as error:
        raise ConfigError(*(f"--{problem}" for problem in error.problems)) from None
    check_outputs(not_dash(args, "json", "csv", "trace"))
    if args.json == args.csv == "-":
        raise ConfigError("--json - and --csv -: only one option can write to standard output")
    _check_trace(made, args)
    if args.trace is not None:
        return _trace(made, args)
    summaries = _measure(made, args)
    if "-" not in (args.json, args.csv):
        print(_table(summaries).to_text(max_rows=None))
    plain = [summary.to_dict() for summary in summaries]
    if args.json is not None:
        write_text(args.json, json.dumps(plain, indent=2) + "\n")
    if args.csv is not None:
        write_text(args.csv, _as_csv(plain))
    return 0


def _measure(made: Sequence[Configuration], args: Namespace) -> list[Summary]:
    """Run the simulations, and report progress."""
    from xsim_py.ftco.backend import about
    from xsim_py.ftco.ensemble import run_ensemble

    if not args.quiet:
        noun = "configuration" if len(made) == 1 else "configurations"
        header = f"xsim: version {__version__}, seed {args.seed}, {len(made):,} {noun}, {args.runs:,} runs of each"
        print(header, file=sys.stderr)
        for said in about(made, args.runs):
            print(f"xsim: {said}", file=sys.stderr)
    with ProgressLine(sys.stderr, wanted=not args.quiet, plain="xsim: ") as line:
        return run_ensemble(
            made,
            runs=args.runs,
            seed=args.seed,
            jobs=args.jobs,
            overhead_s=args.overhead_time / PS_PER_S,
            sampling=args.sampling,
            progress=line.count,
        )


def _table(summaries: Sequence[Summary]) -> Table:
    """Return the parameters in which configurations differ, and means with standard errors."""
    from xsim_py.report import Table

    rows = [_parameters_of(summary.configuration) for summary in summaries]
    with_tree = [summary.configuration.has_tree for summary in summaries]
    always = ["nodes", *["tree"] * any(with_tree), *["algorithm"] * (not all(with_tree))]
    varying = [name for name in rows[0] if name in always or len({row[name] for row in rows}) > 1]
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in varying}
    for name, (label, scale) in _SHOWN.items():
        found = [summary[name] for summary in summaries]
        if any(each is not None and each.max for each in found):
            columns[label] = _means(found, scale, with_errors=name in _WITH_ERROR)
    columns["queue_max"] = [None if each is None else round(each.max) for each in (s["max_queue"] for s in summaries)]
    if any(summary.hung for summary in summaries):
        columns["hung"] = [summary.hung for summary in summaries]
    return Table("ftco", columns)


_SHOWN = {
    "latency_steps": ("latency", 1.0),
    "latency_s": ("time_us", 1e6),
    "penalty_steps_per_fault": ("penalty", 1.0),
    "work": ("work", 1.0),
    "input_spread": ("in_spread", 1.0),
    "output_spread": ("out_spread", 1.0),
    "max_queue": ("queue", 1.0),
}
_WITH_ERROR = ("latency_steps", "penalty_steps_per_fault", "work")


def _means(found: Sequence[Statistic | None], scale: float, *, with_errors: bool) -> list[Any]:
    """Return the cells of a column: numbers, or aligned text if there are errors."""
    means = [None if each is None else float(f"{each.mean * scale:.5g}") for each in found]
    errors = [each.stderr * scale if each is not None and each.stderr else 0.0 for each in found]
    if not with_errors or not any(errors):
        return means
    left = ["" if mean is None else f"{mean:.5g}" for mean in means]
    right = [f" +- {error:.2g}" if error else "" for error in errors]
    widths = max(map(len, left)), max(map(len, right))
    return [f"{mean:>{widths[0]}}{error:<{widths[1]}}" for mean, error in zip(left, right, strict=True)]


def _parameters_of(made: Configuration) -> dict[str, Any]:
    """Return a configuration's parameters, named like the options."""
    from xsim_py.ftco.options import rules_text

    return {
        "nodes": made.nodes,
        "tree": f"{made.tree}:{made.radix} {made.roots}" if made.has_tree else "",
        "L": made.L,
        "o": made.o,
        "inactive": made.inactive,
        "failures": made.failures,
        "window": "" if made.window is None else f"{made.window[0]}..{made.window[1]}",
        "imbalance": made.imbalance,
        "operation": made.operation,
        "algorithm": made.algorithm,
        "group": made.group,
        "rules": rules_text(made.rules),
    }


def _as_csv(plain: Sequence[Mapping[str, Any]]) -> str:
    """Return a row per configuration; a statistic takes four columns."""
    from io import StringIO

    from xsim_py.report import Table

    rows = [dict(_flat(each)) for each in plain]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = StringIO()
    Table("ftco", {name: [row.get(name) for row in rows] for name in names}).to_csv(text)
    return text.getvalue()


def _flat(plain: Mapping[str, Any]) -> list[tuple[str, Any]]:
    from xsim_py.ftco.summary import UNITS, Statistic

    cells: list[tuple[str, Any]] = []
    for name, value in plain.items():
        if name in UNITS:
            found = value or dict.fromkeys(Statistic._fields)
            cells += [(name if key == "mean" else f"{name}_{key}", number) for key, number in found.items()]
        else:
            cells.append((name, "..".join(map(str, value)) if isinstance(value, list) else value))
    return cells


def _trace(made: Sequence[Configuration], args: Namespace) -> int:
    """Trace one run."""
    from xsim_py.ftco.trace import trace_run

    deaths = dict(args.kill) if args.kill else None
    try:
        outcome, flow = trace_run(made[0], seed=args.seed, deaths=deaths)
    except ConfigError as error:
        raise ConfigError(*(f"--kill {problem}" for problem in error.problems)) from None
    if args.trace == "-":
        print(flow.text(width=get_terminal_size((100, 24)).columns))
    else:
        with writing():
            flow.draw(args.trace, look=picture_look(args))
    if not args.quiet:
        ended = "hangs" if outcome.hung else f"latency {outcome.latency_steps:,} steps"
        kinds = f"DATA {outcome.data:,}, KEEPALIVE {outcome.keepalives:,}, ACK {outcome.acks:,}"
        print(f"xsim: {ended}, {outcome.messages:,} messages: {kinds}", file=sys.stderr)
    return 0


def _check_trace(made: Sequence[Configuration], args: Namespace) -> None:
    """Check that the requested run can be traced."""
    from xsim_py.ftco.model import TREE
    from xsim_py.mpi.ftco.doubling import RECURSIVE_DOUBLING

    problems = []
    if args.trace is None:
        if args.kill:
            problems.append("--kill needs --trace; for random failures in many runs use --inactive or --failures")
    else:
        shown = (TREE, RECURSIVE_DOUBLING)
        others = dict.fromkeys(each.algorithm for each in made if each.algorithm not in shown)
        problems += [f"--trace: cannot show --algorithm {name}; expected {' or '.join(shown)}" for name in others]
        if len(made) > 1:
            problems.append(f"--trace: expected one configuration, got {len(made):,}")
        if args.trace != "-":
            from xsim_py.report.messageflow import MOST_NODES_DRAWN
            from xsim_py.report.style import check_picture

            check_picture(args.trace)
            picture_look(args)
            if made[0].nodes > MOST_NODES_DRAWN:
                nodes = f"{made[0].nodes:,} nodes are too many for a figure"
                problems.append(f"--trace: {nodes}; draw at most {MOST_NODES_DRAWN}")
        killed = [node for node, _ in args.kill or ()]
        twice = sorted({node for node in killed if killed.count(node) > 1})
        problems += [f"--kill: node {node} is given more than once; drop one" for node in twice]
        if args.kill and (made[0].inactive or made[0].failures):
            problems.append("--kill cannot be combined with --inactive or --failures; drop one")
    if problems:
        raise ConfigError(*problems)


def _failure_place(text: str) -> tuple[int, int]:
    """Return node and step of ``3@12``, or of ``3``, which has failed initially."""
    found = re.fullmatch(r"([0-9]{1,18})(?:@([0-9]{1,18}))?", text)
    if found is None:
        raise ArgumentTypeError(f"expected NODE or NODE@STEP, got {text!r}")
    return int(found[1]), int(found[2] or 0)
