"""``xsim models``: the machine presets, and tools for writing machine descriptions."""

from __future__ import annotations

import json
import sys
import textwrap
from argparse import ArgumentTypeError, Namespace
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from xsim_py.cli.options import Commands, add_parameter, positive
from xsim_py.cli.views import add_view_option, picture_look
from xsim_py.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xsim_py.config import LayerSpec, MachineSpec
    from xsim_py.machine import Topology

_MANY_NODES = 4096  # above this, the distances in a graph take too long for a check

_MANY_LAYERS = 8  # a graph may have as many as edges
_INDENT = 11  # of a machine's properties in the list


def add_models_parser(commands: Commands) -> None:
    """Add the command to the sub-parsers of the top level."""
    parser = commands.add_parser("models", help="list, show and check machine descriptions")
    parser.set_defaults(action=run_models, models="list")
    actions = parser.add_subparsers(dest="models", metavar="ACTION")
    actions.add_parser("list", help="list the presets with their parameters and sources (default)")
    show = actions.add_parser("show", help="print the YAML file of a preset")
    show.add_argument("name", metavar="NAME")
    check = actions.add_parser("check", help="validate a machine description and print its properties")
    check.add_argument("file", metavar="FILE", help="read this YAML file or preset")
    check.add_argument(
        "-n", "--ranks", type=positive, metavar="N", help="also check that N ranks fit and that failing parts exist"
    )
    add_parameter(check, "set")
    times = actions.add_parser("times", help="print one-way message times between two ranks as CSV")
    times.add_argument("file", metavar="MACHINE", help="read this YAML file or preset")
    times.add_argument(
        "--bytes", type=_sizes, required=True, metavar="SIZES", help="set the message sizes, e.g. 1,64,4KiB"
    )
    times.add_argument("--layer", metavar="NAME", help="use this layer: network (default if present) or same_node")
    add_parameter(times, "set")
    flows = actions.add_parser("flows", help="print the completion times of max-min fair flows as JSON")
    flows.add_argument("file", metavar="FILE", help="read a topology or links, and flows, from this JSON file")
    flows.add_argument(
        "--routes",
        choices=("given", "own"),
        help="use the routes of the file (default if present) or of the topology",
    )
    draw = actions.add_parser("draw", help="draw nodes, switches and links of a small machine")
    draw.add_argument("file", metavar="FILE", help="read this YAML file or preset")
    draw.add_argument(
        "-n", "--ranks", type=positive, default=1, metavar="N", help="draw a machine for N ranks (default: 1)"
    )
    draw.add_argument("--loads", metavar="CSV", help="colour links by load, from a CSV file of xsim run --links")
    draw.add_argument("-o", "--out", metavar="PICTURE", help="write the figure to this file (default: MACHINE.png)")
    add_view_option(draw)
    add_parameter(draw, "set")
    schema = actions.add_parser("schema", help="print the JSON Schema of machine descriptions, for editors")
    schema.add_argument("--markdown", action="store_true", help="print a Markdown table instead")


def run_models(args: Namespace) -> int:
    """Run the command and return the exit status: 2 if `check` found an error."""
    if args.models == "show":
        from xsim_py.config import preset_path

        print(preset_path(args.name).read_text(encoding="utf-8"), end="")
    elif args.models == "check":
        return _check(args)
    elif args.models == "times":
        _times(args)
    elif args.models == "flows":
        from xsim_py.cli.flow_sets import FlowSet

        print(json.dumps(FlowSet(Path(args.file)).solve(args.routes)))
    elif args.models == "draw":
        _draw(args)
    elif args.models == "schema":
        from xsim_py.config.schema import json_schema, markdown_table

        print(markdown_table() if args.markdown else json.dumps(json_schema(), indent=2))
    else:
        _list()
    return 0


def _list() -> None:
    from xsim_py.config import load_machine, presets

    for spec in map(load_machine, presets()):
        print(f"{spec.name:<{_INDENT - 2}}  {spec.description}")
        for line in _figures(spec, short=True):
            print(" " * _INDENT + line)
        source = textwrap.wrap(f"source: {spec.source}", width=100 - _INDENT, break_on_hyphens=False)
        print(textwrap.indent("\n".join(source), " " * _INDENT), end="\n\n")


def _check(args: Namespace) -> int:
    from xsim_py.config import config_hash, load_machine
    from xsim_py.failure import FailureModel, check_failures
    from xsim_py.machine import Machine
    from xsim_py.mpi.failures.settings import detector_settings
    from xsim_py.mpi4py.door import known_calls
    from xsim_py.network import make_network

    try:
        spec = load_machine(args.file, overrides=dict(args.set))
        machine = Machine(spec, ranks=args.ranks or 1)
        if args.ranks is None:
            check_failures(spec)
        else:
            FailureModel(
                spec,
                ranks=args.ranks,
                node_of=machine.node_of,
                cores_per_node=machine.cores_per_node,
                seed=0,
                known_calls=known_calls(),
            )
        detector_settings(spec, make_network(spec, places=machine))
    except ConfigError as error:
        print(error, file=sys.stderr)  # bare lines, which editors understand
        return 2
    print(f"{args.file}: good; configuration {config_hash(spec)}")
    for line in (str(machine), *_figures(spec), *_links(spec, machine.topology)):
        print(f"  {line}")
    for line in _distances(spec, machine.topology):
        print(f"  {line}")
    return 0


def _links(spec: MachineSpec, topology: Topology) -> Iterator[str]:
    """Yield a line with bandwidth and latency per layer of links that has separate values."""
    from xsim_py.units import format_bandwidth, format_time

    names = topology.layers[: len(topology.layers) - topology.host_ports]
    plain = None if spec.network is None else (spec.network.ps_per_byte, spec.network.per_hop_ps)
    parameters = topology.link_parameters or ()
    if set(parameters[: len(names)]) - {plain} and len(names) <= _MANY_LAYERS:
        parts = zip(names, parameters, strict=False)
        each = [f"{name} {format_bandwidth(costs)} and {format_time(latency)}" for name, (costs, latency) in parts]
        yield f"links:     {', '.join(each)}"


def _distances(spec: MachineSpec, topology: Topology) -> Iterator[str]:
    """Yield distances between nodes and routers and the bisection bandwidth, if quick to find."""
    if topology.nodes == 1 or (topology.nodes > _MANY_NODES and not topology.closed_form) or spec.network is None:
        return
    switches = f" and {topology.switches} switch{'es' if topology.switches > 1 else ''}" if topology.switches else ""
    yield (
        f"{topology.nodes} nodes{switches}, diameter {topology.diameter()}, "
        f"mean distance {topology.mean_distance():.4f}"
    )
    if topology.switches > 1 and (hops := topology.router_hops()) is not None:
        yield f"hops between routers: at most {hops[0]}, mean {hops[1]:.4f}"
    each = topology.link_parameters or ((spec.network.ps_per_byte, 0),) * len(topology.layers)
    bisection = topology.bisection([float(10**12 / ps_per_byte) if ps_per_byte else inf for ps_per_byte, _ in each])
    if bisection is not None and bisection < inf:
        from xsim_py.units import format_bandwidth

        halves = " (first half of the nodes to the second)" if spec.topology.type == "graph" else ""
        yield f"bisection bandwidth {format_bandwidth(Fraction(10**12) / Fraction(bisection))}{halves}"


def _times(args: Namespace) -> None:
    """Print the time of a message of each size, between the first two nodes or within one."""
    from xsim_py.config import load_machine
    from xsim_py.machine import Machine
    from xsim_py.network import make_network

    spec = load_machine(args.file, overrides=dict(args.set))
    layers = [name for name in ("network", "same_node") if getattr(spec, name) is not None]
    layers += [each.name for each in spec.layers or ()]
    layer = args.layer or layers[0]
    if layer not in layers:
        raise ConfigError(f"--layer: {spec.name} has no figures for {layer!r}; it has {' and '.join(layers)}")
    machine = Machine(spec, ranks=1)
    ranks = machine.cores_per_node * max([each.nodes or 1 for each in spec.layers or ()], default=1) + 1
    machine = Machine(spec, ranks=ranks if machine.open else min(ranks, machine.universe))
    network = make_network(spec, places=machine)
    # Ranks on that layer; on a single full node, no two ranks use the network.
    links = (network.link(0, other) for other in reversed(range(machine.ranks)))
    link = next((link for link in links if link.layer == layer), network.longest())
    print("bytes,seconds")
    for size_bytes in args.bytes:
        print(f"{size_bytes},{Decimal(link.one_way_ps(size_bytes)) / 10**12:f}")


def _draw(args: Namespace) -> None:
    """Draw the topology, and print the figure's name."""
    from xsim_py.cli.machine_pictures import machine_picture
    from xsim_py.cli.output_files import check_outputs
    from xsim_py.config import load_machine
    from xsim_py.machine import Machine
    from xsim_py.report.machine_picture import draw_machine, read_loads
    from xsim_py.report.style import check_picture

    spec = load_machine(args.file, overrides=dict(args.set))
    target = args.out or f"{spec.name}.png"
    check_picture(target)
    look = picture_look(args)
    check_outputs({"--out": target})
    topology = Machine(spec, ranks=args.ranks).topology
    loads = None if args.loads is None else read_loads(Path(args.loads))
    draw_machine(machine_picture(topology, title=f"{spec.name}: {topology}", loads=loads), target, look=look)
    print(f"xsim: wrote {target}", file=sys.stderr)


def _sizes(text: str) -> list[int]:
    """Parse sizes separated by commas."""
    from xsim_py.units import parse_size_bytes

    try:
        return [parse_size_bytes(each.strip()) for each in text.split(",")]
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _figures(spec: MachineSpec, *, short: bool = False) -> Iterator[str]:
    """Yield the parameters of each layer; `short`: only the first and the last size range."""
    if spec.network is not None:
        yield from _layer("network:   ", spec.network, per_hop_ps=spec.network.per_hop_ps, short=short)
    if spec.same_node is not None:
        yield from _layer("same node: ", spec.same_node, per_hop_ps=0, short=short)
    for each in spec.layers or ():
        per_hop_ps = spec.network.per_hop_ps if each.nodes and spec.network is not None else 0
        yield from _layer(f"{each.name}: ".ljust(11), each, per_hop_ps=per_hop_ps, short=short)
    yield from _shared(spec)


def _shared(spec: MachineSpec) -> Iterator[str]:
    """Yield the parameters of resources shared by a node's ranks."""
    from xsim_py.units import format_bandwidth, format_time

    nic, memory, machine = spec.nic, spec.memory, spec.machine
    if nic is not None and spec.network is not None:
        several = machine.nics_per_node or 1
        parts = [format_bandwidth(spec.network.ps_per_byte if nic.ps_per_byte is None else nic.ps_per_byte)]
        parts += [f"a message each {format_time(nic.message_ps)}"] if nic.message_ps else []
        parts += [f"{nic.duplex} duplex" + (f", {nic.both_ways:g} of it both ways" if nic.both_ways < 1 else "")]
        yield f"NIC:       {several} a node, " + ", ".join(parts)
    if memory is not None:
        several = machine.sockets_per_node or 1
        yield f"memory:    {several} a node, {format_bandwidth(memory.ps_per_byte)}"


def _layer(name: str, layer: LayerSpec, *, per_hop_ps: int, short: bool) -> Iterator[str]:
    """Yield a line per size range, and the common threshold in the first."""
    from xsim_py.network.link import by_size

    ranges = list(zip(*by_size(layer), strict=True))
    for index, (from_bytes, figures) in enumerate(ranges):
        if short and 0 < index < len(ranges) - 1:
            if index == 1:
                yield f"{' ' * len(name)}... {len(ranges) - 2} more ..."
            continue
        sizes = f"from {_size(from_bytes)}: " if index or (len(ranges) > 1 and not short) else ""
        parts = figures if index == 0 else replace(figures, eager_threshold_bytes=None)
        yield f"{name if index == 0 else ' ' * len(name)}{sizes}{_costs(parts, per_hop_ps=per_hop_ps)}"


def _costs(layer: LayerSpec, *, per_hop_ps: int) -> str:
    from xsim_py.units import format_bandwidth, format_time

    hops = f" + {format_time(per_hop_ps)} a hop" if per_hop_ps else ""
    if layer.times is not None:
        parts = [f"times of {layer.times.name}{hops}"]
    else:
        parts = [f"latency {format_time(layer.latency_ps)}{hops}", f"bandwidth {format_bandwidth(layer.ps_per_byte)}"]
    if layer.send_overhead_ps or layer.recv_overhead_ps:
        parts.append(f"overhead {format_time(layer.send_overhead_ps)} / {format_time(layer.recv_overhead_ps)}")
    if layer.gap_ps:
        parts.append(f"gap {format_time(layer.gap_ps)}")
    if layer.eager_threshold_bytes is not None:
        parts.append(f"rendezvous above {_size(layer.eager_threshold_bytes)}")
    return ", ".join(parts)


def _size(size_bytes: int) -> str:
    from xsim_py.units import format_size

    return format_size(size_bytes) if size_bytes % 1024 == 0 else f"{size_bytes} B"
