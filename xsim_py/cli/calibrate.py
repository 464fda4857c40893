"""``xsim calibrate``: fit a machine description to a real machine, and validate it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xsim_py import __version__
from xsim_py.cli.options import Commands, positive, reader
from xsim_py.cli.output_files import check_outputs, not_dash, write_text
from xsim_py.cli.views import add_view_option, picture_look
from xsim_py.errors import ConfigError
from xsim_py.units import PS_PER_S, format_size, format_time, parse_size_bytes

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator, Sequence

    from xsim_py.calibrate.layers import FittedLayer
    from xsim_py.calibrate.measured import Measured
    from xsim_py.clashes import InputFile
    from xsim_py.report.fitted_times import FittedTimes
    from xsim_py.report.style import Look

_SIZE = reader(parse_size_bytes)
_EPILOG = """
FILE is output of the OSU micro-benchmarks (latency, bw, collectives) or IMB-MPI1, netgauge's loggp table, CSV with a
header (op,bytes,median_s), or raw lines operation,bytes,start_s,duration_s. The format is detected from the content.
"""


def add_calibrate_parser(commands: Commands) -> None:
    """Add the command to the sub-parsers of the top level."""
    parser = commands.add_parser(
        "calibrate",
        help="fit a machine description to measurements, or validate one against them",
        description="Fit message costs to measurements of a real machine and write a machine description.",
        epilog=_EPILOG,
    )
    parser.set_defaults(action=calibrate)
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="read measurements between two nodes from FILE")
    add("--same-node", nargs="+", default=[], metavar="FILE", help="read measurements within a node from FILE")
    add("-o", "--out", metavar="MACHINE.yaml", help="write the machine description to this file (-: standard output)")
    add("--name", help="name the machine (default: the file's name)")
    add("--source", default="", metavar="TEXT", help="record the source: machine, library, benchmarks and date")
    add("--like", metavar="MACHINE", help="copy everything except message costs (topology, nodes, ...) from MACHINE")
    add("--eager-threshold", type=_SIZE, metavar="SIZE", help="set the largest eager message (default: detected)")
    add("--same-node-eager-threshold", type=_SIZE, metavar="SIZE", help="set the largest eager message within a node")
    add("--draw", metavar="FILE", help="plot measured and fitted times (.png, .svg, .pdf; needs the extra [plot])")
    add_view_option(parser)
    add(
        "--probe",
        metavar="COMMAND",
        help="measure with COMMAND and also write MACHINE.csv, e.g. 'mpiexec -n 3 --host a:2,b:1 python'",
    )
    add("--largest", type=_SIZE, metavar="SIZE", help="set the largest message of --probe (default: 4MiB)")
    add("--repetitions", type=positive, metavar="N", help="measure each size N times with --probe (default: 20)")
    add("--machine", metavar="MACHINE", help="validate this preset or YAML file instead of fitting one")
    add("--judge", nargs="+", default=[], metavar="FILE", help="simulate the benchmarks in these files and compare")
    add("-n", "-np", "--ranks", type=positive, metavar="N", help="set the number of ranks for collectives in --judge")
    add("--ranks-per-node", type=positive, metavar="N", help="set the number of ranks per node (default: its cores)")
    add("--quiet", action="store_true", help="omit the table of fitted costs")


def calibrate(args: Namespace) -> int:
    """Run the command and return the exit status."""
    _machine_file(args)
    fits = bool(args.files or args.same_node or args.probe)
    if fits and args.machine is not None:
        raise ConfigError("calibrate: --machine cannot be combined with measurements to fit; drop one")
    if fits and args.out is None:
        raise ConfigError("calibrate: missing option: -o MACHINE.yaml, the description to write")
    if not fits and args.machine is None and args.judge:
        raise ConfigError(
            "calibrate: --judge needs a machine; add --machine with a preset or a file, e.g. MACHINE.yaml"
        )
    if not fits and args.machine is None:
        raise ConfigError("calibrate: no measurements; name files or add --probe COMMAND (see xsim calibrate --help)")
    if not fits and not args.judge:
        raise ConfigError("calibrate: --machine needs measurements to compare with; add --judge FILE")
    if args.judge and args.out == "-":
        raise ConfigError("calibrate: --judge cannot be combined with -o -; name a file with -o")
    _check_outputs(args)
    look = picture_look(args)
    judging = _measurements_to_validate(args.judge)
    if fits:
        _fit(args, look)
    if judging:
        _validate(args, judging, args.machine or args.out)
    return 0


def _machine_file(args: Namespace) -> None:
    """Use a single file to validate that is a machine description as the machine."""
    if args.judge and len(args.files) == 1 and args.machine is None and Path(args.files[0]).suffix in (".yaml", ".yml"):
        args.machine, args.files = args.files[0], []


def _check_outputs(args: Namespace) -> None:
    if args.probe and (args.out == "-" or Path(args.out).suffix == ".csv"):
        raise ConfigError("calibrate: --probe needs -o FILE.yaml; the measurements are written to FILE.csv")

    def inputs() -> Iterable[InputFile]:
        from xsim_py.clashes import InputFile

        yield from (InputFile("a measurement", file) for file in (*args.files, *args.same_node, *args.judge))
        if args.like is not None:
            yield InputFile("--like", args.like)

    files = not_dash(args, "out", "draw")
    if args.probe:
        files["probe"] = _residuals_file(args.out)
    check_outputs(files, inputs=inputs)


def _residuals_file(out: str) -> str:
    return str(Path(out).with_suffix(".csv"))


def _read(files: Sequence[str], layer: str | None = None) -> list[Measured]:
    """Read files of measurements; `layer` applies where a file does not give one."""
    from dataclasses import replace

    from xsim_py.calibrate.formats import read_measurements

    found = [each for file in files for each in read_measurements(file)]
    return [replace(each, layer=each.layer or layer) for each in found]


def _fit(args: Namespace, look: Look | None) -> None:
    """Fit, write the description, and print the errors."""
    from xsim_py.calibrate.layers import fit_layer
    from xsim_py.calibrate.machine_file import default_sections, machine_text, other_sections_of
    from xsim_py.calibrate.measured import NETWORK, SAME_NODE

    files = [*args.files]
    if args.probe:
        files.append(_probe(args))
    series = [*_read(files, NETWORK), *_read(args.same_node, SAME_NODE)]
    thresholds = {NETWORK: args.eager_threshold, SAME_NODE: args.same_node_eager_threshold}
    layers = {
        layer: fit_layer(of_it, threshold_bytes=threshold, what=layer)
        for layer, threshold in thresholds.items()
        if (of_it := [each for each in series if each.layer == layer])
    }
    for line in _unused(series):
        print(f"xsim: {line}", file=sys.stderr)
    frame = default_sections([*layers]) if args.like is None else other_sections_of(args.like, args.out, [*layers])
    name = args.name or ("calibrated" if args.out == "-" else Path(args.out).stem)
    said = f"xsim calibrate {__version__}"
    names = [Path(file).name for file in (*files, *args.same_node)]
    text = machine_text(name, layers, frame, files=names, command=said, source=args.source)
    if not args.quiet and args.out != "-":
        for layer, fitted in layers.items():
            _print_times(layer, fitted)
    write_text(args.out, text)
    if args.draw is not None:
        from xsim_py.report.fitted_times import draw_fitted_times

        draw_fitted_times([_picture(layer, fitted) for layer, fitted in layers.items()], args.draw, look=look)
    for fitted in layers.values():
        for note in fitted.notes:
            print(f"xsim: {note}", file=sys.stderr)


def _unused(series: Iterable[Measured]) -> Iterator[str]:
    """Yield the measurements in files that message costs are not fitted to."""
    from xsim_py.calibrate.measured import ISEND, PINGPONG, RECV, STREAM

    rest: dict[str, list[str]] = {}
    for each in series:
        if each.operation not in (PINGPONG, ISEND, RECV, STREAM):
            rest.setdefault(each.file, []).append(each.operation)
    for file, operations in rest.items():
        yield f"{file}: ignored by the fit: {', '.join(dict.fromkeys(operations))}"


def _probe(args: Namespace) -> str:
    """Run the probe, and return the file of its measurements."""
    from xsim_py.calibrate.probe import run_probe

    options = []
    if args.largest is not None:
        options += ["--largest", str(args.largest)]
    if args.repetitions is not None:
        options += ["--repetitions", str(args.repetitions)]
    csv = _residuals_file(args.out)
    write_text(csv, run_probe(args.probe, options=options))
    return csv


def _print_times(layer: str, fitted: FittedLayer) -> None:
    """Print measured and fitted times."""
    from xsim_py.calibrate.machine_file import residual_columns
    from xsim_py.report import Table

    limit = fitted.threshold_bytes
    eager = "no eager threshold" if limit is None else f"eager up to {limit:,} B ({fitted.threshold_why})"
    print(f"{layer}: {_summary(fitted)}; {eager}")
    print(Table(layer, residual_columns(fitted)).to_text(max_rows=26), end="\n\n")


def _summary(fitted: FittedLayer) -> str:
    import numpy as np

    errors = 100 * fitted.errors()
    worst = int(np.argmax(errors))
    return (
        f"{_plural(len(errors), 'size')}, {_plural(len(fitted.figures), 'segment')}; "
        f"error of the fit: mean {errors.mean():.2f} %, 95th "
        f"percentile {np.percentile(errors, 95):.1f} %, largest {errors[worst]:.1f} % at {int(fitted.sizes[worst]):,} B"
    )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _picture(layer: str, fitted: FittedLayer) -> FittedTimes:
    from xsim_py.report.fitted_times import FittedTimes

    starts = [each.from_bytes for each in fitted.figures]
    ends = [*(start - 1 for start in starts[1:]), max(int(fitted.sizes[-1]), starts[-1])]
    line = []
    for start, end in zip(starts, ends, strict=True):
        least, steps = max(start, 1), range(33)  # even on the logarithmic axis
        sizes = sorted({start, *(round(least * (max(end, 1) / least) ** (step / 32)) for step in steps), end})
        line.append((sizes, [fitted.one_way_s(size) for size in sizes]))
    mean = 100 * fitted.errors().mean()
    title = f"{layer.replace('_', ' ')}: {_plural(len(starts), 'segment')}, mean error {mean:.2f} %"
    times = list(map(float, fitted.fitted()))
    return FittedTimes(title, list(fitted.sizes), list(fitted.seconds), times, line, fitted.threshold_bytes)


def _measurements_to_validate(files: Sequence[str]) -> list[Measured]:
    """Return the measurements that can be validated, and report the others."""
    if not files:
        return []
    from xsim_py.calibrate.judge import reproducible

    known, rest = reproducible(_read(files))
    if rest:
        print(f"xsim: not validated: {'; '.join(rest)}", file=sys.stderr)
    return known


def _validate(args: Namespace, series: Sequence[Measured], machine: str) -> None:
    """Run the measured benchmarks on the machine, and print measured and predicted times."""
    from xsim_py.calibrate.judge import Judged, lines_of, predict
    from xsim_py.report import Table

    rows: list[Judged] = []
    for each in series:
        found, left_out = predict(each, machine, ranks=args.ranks, ranks_per_node=args.ranks_per_node)
        rows += found
        if left_out:
            sizes = ", ".join(map(format_size, left_out))
            print(f"xsim: {each.file}: skipped sizes whose buffers exceed memory: {sizes}", file=sys.stderr)
    columns: dict[str, list[Any]] = {
        "benchmark": [row.benchmark for row in rows],
        "ranks": [row.ranks for row in rows],
        "bytes": [row.size_bytes for row in rows],
        "measured": [format_time(round(row.measured_s * PS_PER_S)) for row in rows],
        "predicted": [format_time(round(row.predicted_s * PS_PER_S)) for row in rows],
        "error_%": [f"{100 * row.error:+.1f}" for row in rows],
    }
    print(Table("judged", columns).to_text(max_rows=None))
    print("\n".join(lines_of(rows)))
