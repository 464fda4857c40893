"""``xsim explore``: all executions of one program."""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any, Final

from xsim_py import __version__
from xsim_py.cli.options import PROGRAM_USAGE, add_parameter, add_parameters, positive, reader, simulation_arguments
from xsim_py.cli.output_files import check_outputs, not_dash, simulation_inputs, write_text
from xsim_py.cli.progress import ProgressLine
from xsim_py.cli.views import add_view_option, picture_look
from xsim_py.schedules import inline, text_of

if TYPE_CHECKING:
    from argparse import Action, ArgumentParser, Namespace
    from collections.abc import Sequence

    from xsim_py.cli.options import Commands
    from xsim_py.explore.input_space import Inputs
    from xsim_py.explore.matchings import Matchings, OutcomeClass
    from xsim_py.explore.repetitions import NoisyRuns
    from xsim_py.report.failure_space import FailureSpace

FOUND: Final = 5
_SAID_LINES: Final = 12
_KINDS: Final = {
    "result": "a different result",
    "exception": "an exception",
    "deadlock": "a deadlock",
    "finding": "a finding",
}
_USUAL: Final = {"result": "a result"}
_NOTES: Final = """\
exit status: 0 if no failing run was found, 5 if one was, 2 bad input, 130 interrupted.
"""


def add_explore_parser(commands: Commands) -> list[Action]:
    """Add the command, and return the options of all its modes."""
    parser = commands.add_parser(
        "explore",
        help="explore executions of a program: failures, message matches, network jitter, inputs",
        description="Run a program repeatedly, in all executions that a real machine may produce.",
    )
    modes = parser.add_subparsers(dest="way", metavar="WAY", required=True)
    return [*_add_failures(modes), *_add_wildcards(modes), *_add_noise(modes), *_add_inputs(modes)]


def _add_mode(
    modes: Commands, name: str, help: str, description: str, ranks: object = positive
) -> tuple[ArgumentParser, list[Action]]:
    """Add a mode of exploration, with the options common to all."""
    from argparse import RawDescriptionHelpFormatter

    parser: ArgumentParser = modes.add_parser(
        name,
        usage=f"xsim explore {name} -n N [option ...] {PROGRAM_USAGE}",
        help=help,
        description=description,
        epilog=_NOTES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    return parser, [
        add_parameter(parser, "ranks", type=ranks),
        add_parameter(parser, "machine"),
        *add_parameters(parser, "description", "simulation"),
        add("-j", "--jobs", type=positive, metavar="N", help="run N simulations in parallel (default: one per core)"),
        add(
            "--here",
            action="store_true",
            help="run in the current directory (default: a separate empty directory per run)",
        ),
        add("--json", metavar="FILE", help="write all results as JSON (-: standard output, no tables)"),
        add("--quiet", action="store_true", help="print only the result"),
    ]


def _add_failures(modes: Commands) -> list[Action]:
    parser, options = _add_mode(
        modes,
        "failures",
        "inject a failure at each MPI call of each rank",
        "Kill each rank before, in (at half of its virtual duration) and after each of its MPI calls, and report the"
        " outcome: the program survives, gives a wrong result, is aborted, or stalls.",
    )
    parser.set_defaults(action=explore_failures)
    add = parser.add_argument
    return [
        *options,
        add("--deaths", type=positive, default=1, metavar="K", help="inject up to K failures per run (default: 1)"),
        add(
            "--accept",
            metavar="REGEX",
            help="count a result as correct if an output line matches (default: if the surviving ranks print the lines"
            " of the failure-free run)",
        ),
        add(
            "--budget", type=positive, metavar="N", help="draw N cases per number of failures, by --seed (default: all)"
        ),
        add("--picture", metavar="FILE", help="draw the outcomes by rank and call (.png, .svg, .pdf)"),
        add_view_option(parser),
        add("--resume", metavar="FILE", help="checkpoint to FILE and resume from it"),
    ]


def _add_wildcards(modes: Commands) -> list[Action]:
    parser, options = _add_mode(
        modes,
        "wildcards",
        "explore the legal matches of wildcard receives, probes and waits",
        "Run a program with each match that MPI allows for its wildcard receives and probes and its waits for any of"
        " several requests, and report which match changes the outcome.",
    )
    parser.set_defaults(action=explore_wildcards)
    add = parser.add_argument
    return [
        *options,
        add(
            "--budget",
            type=positive,
            default=1000,
            metavar="N",
            help="make at most N runs, half of them random if not exhaustive (default: 1000)",
        ),
        add("--accept", metavar="REGEX", help="count all results with a matching output line as equal"),
        add(
            "--failures",
            type=positive,
            default=0,
            dest="points",
            metavar="K",
            help="repeat the exploration with each of K failures, drawn by --seed (default: 0)",
        ),
        add("--out", metavar="DIR", help="write a schedule for each kind of outcome to a directory"),
    ]


def _add_noise(modes: Commands) -> list[Action]:
    from xsim_py.parameters import part

    parser, options = _add_mode(
        modes,
        "noise",
        "repeat a run with network jitter, by seeds",
        "Run a program repeatedly with different network jitter and report its run times and any other change of the"
        " outcome.",
    )
    parser.set_defaults(action=explore_noise)
    add = parser.add_argument
    of = "set the median jitter of"
    return [
        *options,
        add(
            "--runs",
            type=positive,
            default=100,
            metavar="N",
            help="make N runs with seeds from --seed on (default: 100)",
        ),
        add("--latency", type=reader(part), metavar="PART", help=f"{of} message latencies, as a fraction, e.g. 0.1"),
        add("--bandwidth", type=reader(part), metavar="PART", help=f"{of} transfer times, as a fraction, e.g. 0.1"),
        add("--nodes", type=reader(part), metavar="PART", help=f"{of} both per node, as a fraction"),
        add(
            "--sigma", type=reader(part), metavar="X", help="set the standard deviation of the logarithm of the jitter"
        ),
        add("--accept", metavar="REGEX", help="count all results with a matching output line as equal"),
    ]


def _add_inputs(modes: Commands) -> list[Action]:
    parser, options = _add_mode(
        modes,
        "inputs",
        "run with different rank counts and arguments",
        "Run a program, with checks, for each rank count (-n 2,3,4) and each value of its arguments, and report the"
        " faults that only some of them have.",
        reader(_numbers),
    )
    parser.set_defaults(action=explore_inputs)
    return [
        *options,
        parser.add_argument(
            "--same",
            metavar="REGEX",
            help="require that the match in the output, or its first group, is the same for all rank counts",
        ),
        parser.add_argument(
            "--with",
            action="append",
            type=reader(_values),
            default=[],
            dest="values",
            metavar="NAME=V,...",
            help="run with each of these values for {NAME} in the program's arguments (repeatable)",
        ),
    ]


def _numbers(text: str) -> list[int]:
    return [positive(word) for word in text.split(",")]


def _values(text: str) -> tuple[str, list[str]]:
    name, sign, values = text.partition("=")
    if not (name and sign):
        raise ValueError("expected NAME=VALUE,VALUE,...")
    return name, values.split(",")


def explore_failures(args: Namespace) -> int:
    """Explore failures, print and write the results, and return the exit status."""
    _check_outputs(args, "picture")
    look = picture_look(args)
    from xsim_py.explore import failures
    from xsim_py.explore.journal import ExplorationJournal

    arguments = _arguments(args)
    identity = {**arguments, "accept": args.accept, "here": args.here}
    with ExplorationJournal.opened(args.resume, identity) as journal:
        try:
            with _line(args) as line:
                space = failures(
                    **arguments,
                    deaths=args.deaths,
                    accept=args.accept,
                    budget=args.budget,
                    jobs=args.jobs,
                    folder="." if args.here else None,
                    done=journal.done,
                    keep=journal.add,
                    progress=line.count,
                )
        except KeyboardInterrupt:
            advice = "--resume FILE keeps finished runs" if args.resume is None else "the same command resumes"
            raise KeyboardInterrupt(f"({advice})") from None
    if args.picture is not None:
        space.draw(args.picture, look=look)
    if args.json is not None:
        write_text(args.json, json.dumps(space.to_dict(), indent=2) + "\n")
    if args.json != "-":
        _print_failures(space, args)
    return FOUND if space.smallest() else 0


def _print_failures(space: FailureSpace, args: Namespace) -> None:
    from xsim_py.explore import runs

    counts = space.counts()
    if not args.quiet:
        never = f"; {space.never_came:,} more combinations cannot occur" if space.never_came else ""
        print(
            f"xsim: version {__version__}, seed {args.seed}: {len(space.cases):,} cases on {args.ranks:,} ranks{never}",
            file=sys.stderr,
        )
    print(", ".join(f"{count:,} {name}" for name, count in counts.items()))
    if not space.recovers and counts["aborted"]:
        print("the program has no recovery: each failure ends the job unless no other rank depends on the failed rank")
    else:
        print(space.table().to_text(max_rows=None))
        print(space.text())
    for name, case in space.smallest().items():
        place = case.places[-1]
        print(f"\n{name}, the smallest of {counts[name]:,}: {' and '.join(case.fail)} ({_relative_paths(place.line)})")
        _print_said(case.said)
        polls = args.wall_limit is None and case.said.startswith("the wall limit was reached")
        limit = ["--wall-limit", f"{runs.LEAST_LIMIT_S:g}s"] if polls else []
        print(f"  reproduce: {_command(args, [*limit, *(word for text in case.fail for word in ('--fail', text))])}")


def _print_said(said: str) -> None:
    lines = said.splitlines()
    more = [f"... {len(lines) - _SAID_LINES:,} more lines"] if len(lines) > _SAID_LINES else []
    for line in [*lines[:_SAID_LINES], *more]:
        print(f"  | {_relative_paths(line)}")


def _relative_paths(text: str) -> str:
    """Return a text with file names relative to this directory; runs use absolute paths."""
    return text.replace(os.path.join(os.getcwd(), ""), "")


# -------------------------------------------------------------------------------------------------------- wildcards


def explore_wildcards(args: Namespace) -> int:
    """Explore matchings, print and write the results, and return the exit status."""
    _check_outputs(args)
    from xsim_py.explore.matchings import with_failures

    with _line(args) as line:
        found = with_failures(
            **_arguments(args),
            failures=args.points,
            budget=args.budget,
            accept=args.accept,
            jobs=args.jobs,
            folder="." if args.here else None,
            progress=line.count,
        )
    if args.json is not None:
        write_text(args.json, json.dumps([_matchings_as_json(each) for each in found], indent=2) + "\n")
    if args.out is not None:
        _write_schedules(found, args.out)
    if args.json != "-":
        if not args.quiet:
            print(f"xsim: version {__version__}, seed {args.seed}: {found[0].runs:,} runs", file=sys.stderr)
        for each in found:
            _print_matchings(each, args)
    return FOUND if any(len(each.classes) > 1 or each.usual_is_bad for each in found) else 0


def _print_matchings(found: Matchings, args: Namespace) -> None:
    from xsim_py.explore.matchings import explained

    if found.fail:
        print(f"\nwith {found.fail}:")
    all_told = "exhaustive" if found.is_complete else "not exhaustive"
    print(f"{_matchings(found.found)}, {all_told}")
    if found.polls:
        print("a rank polls: outcomes of Test, Iprobe ... are not explored; see xsim explore noise")
    answer = {True: "yes, for this input", False: "no, for this input", None: "unknown"}[found.is_deterministic]
    print(f"communication-deterministic: {answer}")
    usual = found.classes[0]
    print(f"as usual ({_USUAL.get(usual.outcome.kind, _KINDS[usual.outcome.kind])}): {usual.matchings:,}")
    if found.usual_is_bad:
        _print_said(usual.summary.report)
    for kind, said in _KINDS.items():
        alike = [each for each in found.classes[1:] if each.outcome.kind == kind]
        if not alike:
            continue
        first = alike[0]
        different = f", {len(alike):,} distinct" if len(alike) > 1 else ""
        print(f"\n{said}: {_matchings(sum(each.matchings for each in alike))}{different}; smallest schedule:")
        for line in explained(first.difference) or ["see the schedule below"]:
            print(f"  {_relative_paths(line)}")
        _print_said(_difference(usual, first) if kind == "result" else first.summary.report)
        fail = [word for text in filter(None, [found.fail]) for word in ("--fail", text)]
        print(f"  reproduce: {_command(args, ['--schedule', inline(first.least), *fail])}")


def _matchings(count: int) -> str:
    return f"{count:,} {'matching' if count == 1 else 'matchings'}"


def _difference(usual: OutcomeClass, other: OutcomeClass) -> str:
    """Return the lines in which two outcomes differ."""
    before, after = usual.outcome.detail.splitlines(), other.outcome.detail.splitlines()
    lines = [f"- {line}" for line in before if line not in after] + [
        f"+ {line}" for line in after if line not in before
    ]
    return "\n".join(lines) or "the same lines in a different order"


def _write_schedules(found: Sequence[Matchings], folder: str) -> None:
    """Write the minimal and the full schedule of each kind of outcome."""
    from pathlib import Path

    Path(folder).mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(found):
        start = f"failure-{number}-" if number else ""
        kinds = set()
        for other in each.classes[1:]:
            if other.outcome.kind not in kinds:
                kinds.add(other.outcome.kind)
                choices = sorted(
                    other.summary.choices, key=lambda choice: (choice.begun_ps, choice.rank, choice.number)
                )
                remarks = {at: f"{made.kind} at {_relative_paths(made.place)}" for at, made in enumerate(choices)}
                write_text(f"{folder}/{start}{other.outcome.kind}.schedule", text_of(other.schedule, remarks))
                write_text(f"{folder}/{start}{other.outcome.kind}-least.schedule", text_of(other.least))


def _matchings_as_json(found: Matchings) -> dict[str, Any]:
    return {
        "fail": found.fail,
        "matchings": found.found,
        "complete": found.is_complete,
        "polls": found.polls,
        "runs": found.runs,
        "communication_deterministic": found.is_deterministic,
        "outcomes": [
            {
                "kind": each.outcome.kind,
                "detail": each.outcome.detail,
                "matchings": each.matchings,
                "schedule": each.schedule,
                "least": each.least,
            }
            for each in found.classes
        ],
    }


# ------------------------------------------------------------------------------------------------------------ noise


def explore_noise(args: Namespace) -> int:
    """Repeat a run with network jitter, print and write the results, and return the exit status."""
    _check_outputs(args)
    from xsim_py.explore import noise

    names = ("latency", "bandwidth", "nodes", "sigma")
    with _line(args) as line:
        found = noise(
            **_arguments(args),
            **{name: getattr(args, name) for name in names},
            runs=args.runs,
            accept=args.accept,
            jobs=args.jobs,
            folder="." if args.here else None,
            progress=line.count,
        )
    if args.json is not None:
        plain = {**found._asdict(), "classes": [(each.outcome, each.seeds) for each in found.classes]}
        write_text(args.json, json.dumps(plain, indent=2) + "\n")
    if args.json != "-":
        _print_noise(found, args)
    return FOUND if len(found.classes) > 1 or found.classes[0].outcome.kind != "result" else 0


def _print_noise(found: NoisyRuns, args: Namespace) -> None:
    if not args.quiet:
        said = ", ".join(f"{name} {value:g}" for name, value in found.noise.items()) or "as described by the machine"
        runs = f"{args.runs:,} runs, seeds from {args.seed}"
        print(f"xsim: version {__version__}, {runs}, network jitter: {said}", file=sys.stderr)
    print(found.table().to_text())
    entries = [f"network.noise.{name}={value:g}" for name, value in found.noise.items()]
    settings = [word for entry in entries for word in ("--set", entry)]
    for number, each in enumerate(found.classes):
        said = _KINDS[each.outcome.kind] if number else f"as usual ({_USUAL.get(each.outcome.kind, 'no result')})"
        print(f"{said}: {len(each.seeds):,} run{'s' * (len(each.seeds) > 1)}")
        if number or each.outcome.kind != "result":
            _print_said(each.outcome.detail)
            print(f"  reproduce: {_command(args, [*settings, '--seed', str(each.seeds[0])])}")


# ----------------------------------------------------------------------------------------------------------- inputs


def explore_inputs(args: Namespace) -> int:
    """Run with all inputs, print and write the results, and return the exit status."""
    _check_outputs(args)
    from xsim_py.explore import inputs

    with _line(args) as line:
        found = inputs(
            **_arguments(args),
            values=dict(args.values),
            same=args.same,
            jobs=args.jobs,
            folder="." if args.here else None,
            progress=line.count,
        )
    if args.json is not None:
        plain = [{**each.finding()._asdict(), "what": each.what, "inputs": each.inputs} for each in found.found]
        write_text(args.json, json.dumps({"inputs": found.inputs, "findings": plain}, indent=2) + "\n")
    if args.json != "-":
        _print_inputs(found, args)
    return FOUND if found.found else 0


def _print_inputs(found: Inputs, args: Namespace) -> None:
    if not args.quiet:
        print(f"xsim: version {__version__}, seed {args.seed}: {len(found.inputs):,} inputs", file=sys.stderr)
    for each in found.found:
        print(_relative_paths(each.finding().report()))
        for case in each.smallest:
            print(f"    reproduce: {_command(args, ['-n', str(case.ranks), '--check'], case.args)}")


# ---------------------------------------------------------------------------------------------- common to all modes


def _arguments(args: Namespace) -> dict[str, Any]:
    """Return the arguments of `simulate` that all runs have."""
    return {**simulation_arguments(args), "ranks": args.ranks, "machine": args.machine}


def _line(args: Namespace) -> ProgressLine:
    return ProgressLine(sys.stderr, wanted=not args.quiet, plain="xsim: ")


def _check_outputs(args: Namespace, *pictures: str) -> None:
    """Check before the runs that the results can be written."""
    for name in pictures:
        if getattr(args, name) is not None:
            from xsim_py.report.style import check_picture

            check_picture(getattr(args, name))
    check_outputs(not_dash(args, "json", *pictures), inputs=lambda: simulation_inputs(args, [args.machine]))


_OWN: Final = (
    "-j", "--jobs", "--json", "--deaths", "--accept", "--budget", "--picture", "--view", "--resume", "--failures",
    "--out", "--runs", "--latency", "--bandwidth", "--nodes", "--sigma", "--with", "--same"
)  # fmt: skip
_RANKS: Final = ("-n", "-np", "--ranks")
_OWN_FLAGS: Final = ("--here", "--quiet")


def _command(args: Namespace, more: Sequence[str], program_args: Sequence[str] | None = None) -> str:
    """Return the command that reproduces one run: the common options, and those of this run."""
    words, own = [], list(args.own)
    own_options = _OWN if program_args is None else (*_OWN, *_RANKS)
    while own:
        word = own.pop(0)
        if word in own_options:
            own.pop(0)
        elif word not in _OWN_FLAGS and word.partition("=")[0] not in own_options:
            words.append(word)
    program = args.program
    target = {"module": ["-m", program.target], "code": ["-c", program.target]}.get(program.kind, [str(program.target)])
    return shlex.join(
        ["xsim", "run", *words, *more, *target, *(program.args if program_args is None else program_args)]
    )
