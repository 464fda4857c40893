"""``xsim failures``: the failures of a run, without running it."""

from __future__ import annotations

import json
import sys
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from xsim_py import __version__
from xsim_py.cli.options import Commands, add_parameter, first_line, time_ps
from xsim_py.cli.output_files import check_outputs, not_dash, simulation_inputs, write_text
from xsim_py.units import PS_PER_S, exact_seconds, format_time, spans

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from xsim_py.failure import CallSite, Failure, Fault

_SHOWN_ROWS = 100


def add_failures_parser(commands: Commands) -> None:
    """Add the command to the sub-parsers of the top level."""
    parser = commands.add_parser(
        "failures",
        help="list the failures injected into a run",
        description="Print the time and cause of each rank's first failure in a run with the same options.",
    )
    parser.set_defaults(action=show_failures)
    add = parser.add_argument
    for name in ("ranks", "machine", "seed", "set", "fail"):
        add_parameter(parser, name)
    add(
        "--until", type=time_ps, metavar="TIME", help="omit failures after this virtual time, e.g. 10ms (default: none)"
    )
    add("--json", metavar="FILE", help="write the failures as JSON (-: standard output, no table)")


def show_failures(args: Namespace) -> int:
    """Run the command and return the exit status."""
    from xsim_py.config import config_hash, load_machine
    from xsim_py.failure import FailureModel
    from xsim_py.machine import Machine
    from xsim_py.mpi.failures.settings import detector_settings
    from xsim_py.mpi4py.door import known_calls
    from xsim_py.network import make_network

    check_outputs(not_dash(args, "json"), inputs=lambda: simulation_inputs(args, [args.machine]))
    spec = load_machine(args.machine, overrides=dict(args.set))
    machine = Machine(spec, ranks=args.ranks)
    model = FailureModel(
        spec,
        extra=args.fail,
        ranks=args.ranks,
        node_of=machine.node_of,
        cores_per_node=machine.cores_per_node,
        seed=args.seed,
        known_calls=known_calls(),
    )
    detector_settings(spec, make_network(spec, places=machine))
    schedule = model.schedule()
    timed = [failure for failure in schedule.timed if args.until is None or failure.time_ps <= args.until]
    faults = {
        name: [fault for fault in every if args.until is None or fault.at_ps <= args.until]
        for name, every in schedule.faults.items()
    }
    provenance = {
        "version": __version__,
        "seed": args.seed,
        "config_hash": config_hash(spec),
        "ranks": args.ranks,
        "machine": f"{spec.name}: {machine}",
    }
    print(first_line(provenance), file=sys.stderr)
    if args.json != "-":
        print(_table(timed, schedule.sites, [*chain(*faults.values())]))
    if len(timed) < len(schedule.timed):
        later = len(schedule.timed) - len(timed)
        ranks = f"{later:,} more rank{'s' * (later > 1)}"
        print(f"xsim: after {format_time(args.until)}: failures of {ranks}", file=sys.stderr)
    if args.json is not None:
        from xsim_py.report.result import failure_entry

        sites = [
            {"rank": site.rank, "when": site.when, "count": site.ordinal, "call": site.name, "cause": site.cause}
            for site in schedule.sites
        ]
        plain = provenance | {"failures": [failure_entry(*failure) for failure in timed], "call_sites": sites}
        plain |= {name: [_plain_fault(fault) for fault in each] for name, each in faults.items()}
        write_text(args.json, json.dumps(plain, indent=2) + "\n")
    return 0


def _table(timed: Sequence[Failure], sites: Sequence[CallSite], faults: Sequence[Fault]) -> str:
    """Return a line per set of ranks failing for one cause at one time, and per other fault."""
    from xsim_py.report import Table

    timed = sorted(timed, key=attrgetter("time_ps", "cause", "rank"))
    rows = [
        (format_time(died_ps, digits=7), spans((failure.rank for failure in together), most=None), cause)
        for (died_ps, cause), together in groupby(timed, key=attrgetter("time_ps", "cause"))
    ]
    rows += [("at a call", str(site.rank), site.cause) for site in sites]
    rows += [(format_time(fault.at_ps, digits=7), str(fault.rank), str(fault)) for fault in faults]
    if not rows:
        return "no failures"
    when, who, why = zip(*rows, strict=True)
    return Table("failures", {"time": when, "ranks": who, "cause": why}).to_text(max_rows=_SHOWN_ROWS)


def _plain_fault(fault: Fault) -> dict[str, Any]:
    """Return a fault's values by their keys; a time in seconds, ``at`` as ``time_s``."""
    from xsim_py.config.value_kinds import TIME, options

    plain: dict[str, Any] = {}
    for key in options(type(fault)):
        value, name = getattr(fault, key.name), "time" if key.key == "at" else key.key
        if key.kind is TIME and value is not None:
            plain |= {f"{name}_s": value / PS_PER_S, f"{name}_exact_s": exact_seconds(value)}
        else:
            plain[name] = value
    return plain
