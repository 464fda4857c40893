"""``xsim models``: the machines that come with xsim_py, and help with writing others."""

from __future__ import annotations

import json
import sys
import textwrap
from argparse import ArgumentTypeError
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from xsim_py.cli.options import assignment, positive
from xsim_py.errors import ConfigError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from xsim_py.config import LayerSpec, MachineSpec

_MANY_NODES = 4096  # above this, the distances in a graph take too long for a check


def add_models_parser(commands: Any) -> None:
    """Add the command to the sub-parsers of the top level."""
    parser = commands.add_parser("models", help="list, show and check machine descriptions")
    parser.set_defaults(action=run_models, models="list")
    actions = parser.add_subparsers(dest="models", metavar="ACTION")
    actions.add_parser("list", help="list the presets with their figures and sources (the default)")
    show = actions.add_parser("show", help="print the file of a preset, as a start for your own")
    show.add_argument("name", metavar="NAME")
    check = actions.add_parser("check", help="check a machine description and print what it means")
    check.add_argument("file", metavar="FILE", help="a YAML file, or a preset")
    check.add_argument("-n", "--ranks", type=positive, default=1, metavar="N", help="and whether that many ranks fit")
    check.add_argument("--set", action="append", type=assignment, metavar="PATH=VALUE", help="change a value")
    times = actions.add_parser("times", help="print what one-way messages take between two ranks, as CSV")
    times.add_argument("file", metavar="MACHINE", help="a YAML file, or a preset")
    times.add_argument(
        "--bytes", type=_sizes, required=True, metavar="SIZES", help="how long the messages are, such as 1,64,4KiB"
    )
    times.add_argument("--layer", metavar="NAME", help="network (the default, if there is one) or same_node")
    times.add_argument("--set", action="append", type=assignment, metavar="PATH=VALUE", help="change a value")
    schema = actions.add_parser("schema", help="print the JSON Schema of machine descriptions, for editors")
    schema.add_argument("--markdown", action="store_true", help="print a table for people instead")


def run_models(args: Namespace) -> int:
    """Run the command and return the exit status: 2 when `check` found something wrong."""
    if args.models == "show":
        from xsim_py.config import preset_path

        print(preset_path(args.name).read_text(encoding="utf-8"), end="")
    elif args.models == "check":
        return _check(args)
    elif args.models == "times":
        _times(args)
    elif args.models == "schema":
        from xsim_py.config.schema import json_schema, markdown_table

        print(markdown_table() if args.markdown else json.dumps(json_schema(), indent=2))
    else:
        _list()
    return 0


def _list() -> None:
    from xsim_py.config import load_machine, presets

    specs = [load_machine(name) for name in presets()]
    width = max(len(spec.name) for spec in specs) + 2
    for spec in specs:
        print(f"{spec.name:<{width}}{spec.description}")
        for line in _figures(spec, short=True):
            print(" " * width + line)
        source = textwrap.wrap(f"source: {spec.source}", width=100 - width)
        print(textwrap.indent("\n".join(source), " " * width), end="\n\n")


def _check(args: Namespace) -> int:
    from xsim_py.config import config_hash, load_machine
    from xsim_py.failure import check_failures
    from xsim_py.machine import Machine
    from xsim_py.mpi.failures.settings import detector_settings
    from xsim_py.network import make_network

    try:
        spec = load_machine(args.file, overrides=dict(args.set or ()))
        machine = Machine(spec, ranks=args.ranks)
        check_failures(spec)
        detector_settings(spec, make_network(spec, places=machine))
    except ConfigError as error:
        print(error, file=sys.stderr)  # bare lines, which editors understand
        return 2
    print(f"{args.file}: good; configuration {config_hash(spec)}")
    for line in (str(machine), *_figures(spec)):
        print(f"  {line}")
    if 1 < machine.nodes <= _MANY_NODES:
        topology = machine.topology
        print(f"  {machine.nodes} nodes, diameter {topology.diameter()}, mean distance {topology.mean_distance():.4f}")
    return 0


def _times(args: Namespace) -> None:
    """Print the time of a message of each size, between the first two nodes or within one."""
    from xsim_py.config import load_machine
    from xsim_py.machine import Machine
    from xsim_py.network import make_network

    spec = load_machine(args.file, overrides=dict(args.set or ()))
    layers = [name for name in ("network", "same_node") if getattr(spec, name) is not None]
    layer = args.layer or layers[0]
    if layer not in layers:
        raise ConfigError(f"--layer: {spec.name} has no figures for {layer!r}; it has {' and '.join(layers)}")
    machine, other = Machine(spec, ranks=1), 0
    if layer == "network":
        with suppress(ConfigError):  # there is one node, which is full
            machine = Machine(spec, ranks=machine.cores_per_node + 1)
            other = next(rank for rank, node in enumerate(machine.node_of) if node)
    link = make_network(spec, places=machine).link(0, other)
    print("bytes,seconds")
    for size_bytes in args.bytes:
        print(f"{size_bytes},{Decimal(link.one_way_ps(size_bytes)) / 10**12:f}")


def _sizes(text: str) -> list[int]:
    """Read sizes that are parted by commas."""
    from xsim_py.units import parse_size_bytes

    try:
        return [parse_size_bytes(each.strip()) for each in text.split(",")]
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _figures(spec: MachineSpec, *, short: bool = False) -> Iterator[str]:
    """Yield lines for each layer that has figures; in short the first and the last range of sizes."""
    if spec.network is not None:
        yield from _layer("network:   ", spec.network, per_hop_ps=spec.network.per_hop_ps, short=short)
    if spec.same_node is not None:
        yield from _layer("same node: ", spec.same_node, per_hop_ps=0, short=short)


def _layer(name: str, layer: LayerSpec, *, per_hop_ps: int, short: bool) -> Iterator[str]:
    """Yield a line for each range of sizes that has figures, and the threshold that all have where it is first told."""
    from xsim_py.network.link import by_size

    ranges = list(zip(*by_size(layer), strict=True))
    for index, (from_bytes, figures) in enumerate(ranges):
        if short and 0 < index < len(ranges) - 1:
            if index == 1:
                yield f"{' ' * len(name)}... {len(ranges) - 2} more ..."
            continue
        sizes = f"from {_size(from_bytes)}: " if index or (len(ranges) > 1 and not short) else ""
        told = figures if index == 0 else replace(figures, eager_threshold_bytes=None)
        yield f"{name if index == 0 else ' ' * len(name)}{sizes}{_costs(told, per_hop_ps=per_hop_ps)}"


def _costs(layer: LayerSpec, *, per_hop_ps: int) -> str:
    from xsim_py.units import format_bandwidth, format_time

    hops = f" + {format_time(per_hop_ps)} a hop" if per_hop_ps else ""
    if layer.times is not None:
        told = [f"times of {layer.times.name}{hops}"]
    else:
        told = [f"latency {format_time(layer.latency_ps)}{hops}", f"bandwidth {format_bandwidth(layer.ps_per_byte)}"]
    if layer.send_overhead_ps or layer.recv_overhead_ps:
        told.append(f"overhead {format_time(layer.send_overhead_ps)} / {format_time(layer.recv_overhead_ps)}")
    if layer.gap_ps:
        told.append(f"gap {format_time(layer.gap_ps)}")
    if layer.eager_threshold_bytes is not None:
        told.append(f"rendezvous above {_size(layer.eager_threshold_bytes)}")
    return ", ".join(told)


def _size(size_bytes: int) -> str:
    from xsim_py.units import format_size

    return format_size(size_bytes) if size_bytes % 1024 == 0 else f"{size_bytes} B"
