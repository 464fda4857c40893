"""``xsim check``: MPI usage errors, and dependence on state that ranks share."""

from __future__ import annotations

import ctypes
import io
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xsim_py import __version__
from xsim_py.cli.options import (
    CHOSEN,
    PROGRAM_USAGE,
    Commands,
    add_parameter,
    add_parameters,
    options_named,
    simulation_arguments,
)
from xsim_py.cli.progress import ProgressLine
from xsim_py.errors import ConfigError
from xsim_py.findings import RACES
from xsim_py.parameters import RECORD

if TYPE_CHECKING:
    from argparse import Action, Namespace
    from collections.abc import Iterator

    from xsim_py.report.difference import TracedRun

_GREENLETS, _FORKED, _SPAWNED = "greenlets", "process", "spawn"

_NOTES = """\
Without an option this is `xsim run --quiet --check`: each MPI usage error is reported on standard error as
`file:line: class: text`. If the program is correct, only its own output appears.

--against-isolation runs the program twice in the current directory, with each rank in its own interpreter (--isolation
spawn) and with all ranks in one, and reports the first difference in virtual time. A difference means that the program
depends on state that its ranks share, which may be Python's hash seed. The output of the program is compared but not
shown; the output of its child processes is ignored.

exit status: 5 if an MPI usage error was found, otherwise as for xsim run; with --against-isolation 0 if the runs agree,
1 if they differ, 2 bad input, 4 wall limit, 130 interrupted.
"""


def add_check_parser(commands: Commands) -> list[Action]:
    """Add the command, and return its options."""
    from argparse import RawDescriptionHelpFormatter

    parser = commands.add_parser(
        "check",
        usage=f"xsim check -n N [option ...] {PROGRAM_USAGE}",
        help="find MPI usage errors in a program",
        description="Run a program and report each MPI usage error by file and line.",
        epilog=_NOTES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.set_defaults(action=check, check=True)
    add = parser.add_argument
    return [
        add_parameter(parser, "ranks"),
        add_parameter(parser, "machine"),
        add(
            "--races",
            action="store_const",
            const=RACES,
            dest="check",
            help="also list message races that do not change the result",
        ),
        add(
            CHOSEN,
            action="store_const",
            const=CHOSEN,
            dest="check",
            help="report only these classes, or all except -CLASS (races: as --races)",
        ),
        add(
            "--against-isolation",
            action="store_true",
            help="compare ranks in one process with ranks in separate processes",
        ),
        *add_parameters(parser, "description", "simulation"),
    ]


def check(args: Namespace) -> int:
    """Run the program and report MPI usage errors, or compare two isolation modes."""
    if args.against_isolation:
        args.check = False
        return _compare(args)
    from xsim_py.cli.run import FILES, run

    vars(args).update(dict.fromkeys(FILES), profile=False, quiet=True, view=[])
    return run(args)


def _compare(args: Namespace) -> int:
    """Run the program in two isolation modes and report differences; return 1 if there are any."""
    from xsim_py.report.difference import differences

    if args.compute is not None and args.compute.startswith(("measured", RECORD)):
        raise ConfigError("check: --against-isolation cannot be combined with --compute measured; drop one")
    print(f"xsim: version {__version__}, seed {args.seed}", file=sys.stderr)
    # First the mode that leaves no state in this process.
    usual = _SPAWNED if args.restart is None else _FORKED
    processes = _run(args, usual if args.isolation == _GREENLETS else args.isolation)
    greenlets = _run(args, _GREENLETS)
    if greenlets.result.ended == processes.result.ended == "wall limit":
        print("xsim: check: both runs reached the wall limit; nothing was compared", file=sys.stderr)
        return 4
    found = differences(greenlets, processes, start=os.getcwd())
    if not found:
        result = greenlets.result
        print(f"no difference: {result.ranks:,} ranks, {result.messages:,} messages, digest {result.digest}")
        return 0
    print("the program depends on state that its ranks share; first difference:")
    for difference in found:
        print(
            f"{difference.where}\n    with greenlets: {difference.sides[0]}\n    with processes: {difference.sides[1]}"
        )
    for warning in greenlets.result.warnings:
        print(f"xsim: warning: {warning}", file=sys.stderr)
    return 1


def _run(args: Namespace, isolation: str) -> TracedRun:
    """Run the program in one isolation mode, keeping its output."""
    from xsim_py.report.difference import TracedRun
    from xsim_py.run import simulate

    line = ProgressLine(sys.stderr, plain=f"xsim: {isolation}: ")
    printed = io.StringIO(), io.StringIO()
    parameters = {**simulation_arguments(args), "isolation": isolation, "compute": args.compute or "none"}
    if isolation != _GREENLETS:
        parameters["shards"] = 1  # each process is one
    try:
        with options_named(), _children_silent():
            result = simulate(
                **parameters,
                ranks=args.ranks,
                machine=args.machine,
                label=True,
                trace=True,
                stdout=printed[0],
                stderr=printed[1],
                progress=line.callback,
            )
    finally:
        line.clear()
    if result.ended == "interrupted":
        raise KeyboardInterrupt
    said = f"{result.ended}, virtual time {result.virtual_time()}, digest {result.digest}"
    print(f"xsim: {isolation}: {said} ({result.wall_s:.2f} s wall clock)", file=sys.stderr)
    return TracedRun(result, tuple(text.getvalue() for text in printed))


@contextmanager
def _children_silent() -> Iterator[None]:
    """Discard output of child processes and compiled code; ours has other descriptors."""
    from xsim_py.process.output.simulator_descriptors import SeparateStream, high_number

    ours = [stream.stands_for for stream in (sys.stdout, sys.stderr) if isinstance(stream, SeparateStream)]
    kept = {number: high_number(number) for number in ours}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in ours:
        os.dup2(nowhere, number)
    os.close(nowhere)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
