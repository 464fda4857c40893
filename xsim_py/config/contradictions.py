"""Contradictions in a machine description: keys that exclude or require each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from xsim_py.config.described import Contradiction
from xsim_py.config.description import MachineSpec
from xsim_py.config.layers import LayerSpec, PlacedLayerSpec, SegmentSpec
from xsim_py.config.topologies import ROUTINGS, TOPOLOGY_KEYS, TwistSpec
from xsim_py.config.value_kinds import options
from xsim_py.input_files import is_file

MOST_RANKS = 2**24  # half of the numbers in the engine, `engine.MAX_ORIGINS`: the others are for spawned ranks
_OTHER_FORMS = ", or one of shape, children and parents, arity, or radix"
_LARGEST_BLOCK = 2**30
MOST_TREE = 2**24
MOST_TORUS_NODES = 2**22  # a little more than 161 x 161 x 161, 26 times Fugaku: each takes some time and memory
_MOST_WAYS = 1_000
_MOST_TRIED = 2**26
_SPEEDS = (1e-9, 1e9)


def contradictions(spec: MachineSpec) -> Iterator[Contradiction]:
    """Yield all contradictions between keys of ``spec``, and all missing keys."""
    yield from _foreign_keys(spec)  # keys that do not belong there, whatever their values
    topologies = (_nodes, _placement, _host_ports, _torus, _fat_tree, _dragonfly, _routing)
    for rule in (*topologies, _layers, _twist, _names, _polls, _detector, _ftco, _compute, _trace, _storage):
        for path, message, involved in rule(spec):
            yield path, message, (path, *involved)


def _foreign_keys(spec: MachineSpec) -> Iterator[Contradiction]:
    """Yield keys of other topologies, which would be ignored silently."""
    kind = spec.topology.type
    for key in dict.fromkeys(key for keys in TOPOLOGY_KEYS.values() for key in keys):
        path = f"topology.{key}"
        if path in spec.places and key not in TOPOLOGY_KEYS[kind]:
            owners = " or a ".join(owner for owner, keys in TOPOLOGY_KEYS.items() if key in keys)
            yield path, f"cannot be combined with topology.type {kind}: only a {owners} has {key}", ("topology.type",)
    if kind == "single" and spec.network is not None:
        yield "network", "a single node has no network; use same_node", ("topology.type",)


def _nodes(spec: MachineSpec) -> Iterator[Contradiction]:
    topology, nodes = spec.topology, spec.machine.nodes
    involved = ("topology.type", "topology.dims")
    if topology.type == "single" and nodes not in (None, 1):
        yield "machine.nodes", f"expected 1 for topology.type single_node, got {nodes}", involved
    if topology.type == "torus" and topology.dims and nodes not in (None, math.prod(topology.dims)):
        shape = "x".join(map(str, topology.dims))
        yield "machine.nodes", f"a {shape} torus has {math.prod(topology.dims)} nodes, not {nodes}", involved
    if topology.type == "torus" and topology.dims is None and nodes is not None:
        yield "machine.nodes", "the size of a torus is given by topology.dims", involved
    if topology.type == "graph":
        if (topology.file is None) == (topology.edges is None):
            yield (
                "topology",
                "a graph needs either file or edges; give one of them",
                ("topology.file", "topology.edges"),
            )
        if nodes is not None:
            yield "machine.nodes", "a graph defines its number of nodes; drop machine.nodes", ("topology.type",)
        if topology.file is not None and not is_file(topology.file):
            yield "topology.file", f"cannot find the file {topology.file}", ()
        for index, edge in enumerate(topology.edges or ()):
            a, b = edge if isinstance(edge, tuple) else edge.ends
            if a == b:
                yield f"topology.edges[{index}]", f"a link cannot connect {a} to itself; drop it", ()


def _host_ports(spec: MachineSpec) -> Iterator[Contradiction]:
    """Yield the contradictions about sockets, NICs and memories."""
    machine, cores = spec.machine, spec.machine.cores_per_node
    for key, several in (("sockets_per_node", machine.sockets_per_node), ("nics_per_node", machine.nics_per_node)):
        if several is None:
            continue
        if cores is None:
            yield f"machine.{key}", "it divides the cores of a node; add machine.cores_per_node", ()
        elif several > cores or (key == "sockets_per_node" and cores % several):
            yield (
                f"machine.{key}",
                f"{cores} cores cannot be divided equally among {several}",
                ("machine.cores_per_node",),
            )
    if spec.memory is not None and spec.same_node is None:
        yield "memory", "missing key: same_node, the other costs of a message within a node", ("same_node",)
    if spec.nic is None:
        if machine.nics_per_node is not None:
            yield "machine.nics_per_node", "missing key: nic, the properties of a network interface", ("nic",)
        return
    if spec.network is None:
        yield "nic", "a single node has no network interface; drop it", ("topology.type",)
    elif spec.network.contention == "flows" and spec.nic.message_ps:
        yield "nic.message_rate", "cannot be combined with network.contention flows; drop one", ("network.contention",)
    if spec.nic.both_ways < 0.5:
        yield "nic.both_ways", "out of range: below 0.5 it is slower than half duplex", ()
    if spec.nic.duplex == "half" and "nic.both_ways" in spec.places:
        yield "nic.both_ways", "cannot be combined with duplex half; drop it", ("nic.duplex",)


def _placement(spec: MachineSpec) -> Iterator[Contradiction]:
    machine = spec.machine
    if machine.rank_file is not None:
        if not is_file(machine.rank_file):
            yield "machine.rank_file", f"cannot find the file {machine.rank_file}", ()
        if "machine.placement" in spec.places:
            yield "machine.placement", "cannot be combined with machine.rank_file; drop one", ("machine.rank_file",)


def _torus(spec: MachineSpec) -> Iterator[Contradiction]:
    dims, twist = spec.topology.dims, spec.topology.twist
    if spec.topology.type != "torus" or not dims:
        return
    if (nodes := math.prod(dims)) > MOST_TORUS_NODES:
        shape = "x".join(map(str, dims))
        yield "topology.dims", f"a {shape} torus has {nodes:,} nodes; the limit is {MOST_TORUS_NODES:,}", ()
    elif (windings := _count_windings(dims, twist)) > (most := min(_MOST_WAYS, _MOST_TRIED // nodes)):
        # Each is tried for every relative position of two nodes.
        message = (
            f"such twists make {windings:,} ways around a torus of {nodes:,} nodes, of which {most:,} can be tried"
        )
        yield "topology.twist", message, ("topology.dims",)


def _fat_tree(spec: MachineSpec) -> Iterator[Contradiction]:
    topology = spec.topology
    if topology.type != "fattree":
        return
    from xsim_py.config.fat_trees import FORMS, parse_shape, tree_shape  # most machines are not trees

    forms = [form for form in FORMS if getattr(topology, form[0]) is not None]
    first = FORMS[-1] if not forms else forms[0]
    if spec.machine.nodes is not None:
        sizes = ("leaves", *first) if first == FORMS[-1] else first
        keys = " and ".join(f"topology.{key}" for key in sizes)
        yield (
            "machine.nodes",
            f"the size of this fat tree is given by {keys}; drop machine.nodes",
            ("topology.type",),
        )
    needed = [key for key in first if key != "levels"]
    for key in needed:
        if getattr(topology, key) is None:
            yield (
                f"topology.{key}",
                "missing key of a fat tree" + ("" if first != FORMS[-1] else _OTHER_FORMS),
                ("topology.type",),
            )
            return
    if len(forms) > 1:
        message = f"the tree is defined twice, by {first[0]} and by {forms[1][0]}; drop one"
        yield f"topology.{forms[1][0]}", message, (f"topology.{first[0]}",)
        return
    own = {"shape": (), "children": ("parents", "parallel"), "arity": ("levels", "taper"), "radix": ("levels", "taper")}
    own["nodes_per_leaf"] = ("leaves", "spines", "taper")
    for key in ("parents", "parallel", "levels", "taper", "leaves", "spines"):
        if getattr(topology, key) is not None and key not in own[first[0]]:
            yield f"topology.{key}", f"{key} cannot be combined with {first[0]}; drop one", (f"topology.{first[0]}",)
    if first[0] == "shape":
        yield from _shape(spec, parse_shape)
    elif first[0] == "children":
        lengths = [len(each) for each in (topology.children, topology.parents, topology.parallel) if each]
        if len(set(lengths)) > 1:
            message = "children, parents and parallel have different numbers of levels"
            yield "topology.parents", message, ("topology.children", "topology.parallel")
            return
    if topology.radix is not None and topology.radix % 2:
        yield "topology.radix", f"expected an even number of ports, half of which lead up, got {topology.radix}", ()
    if topology.spines is not None and topology.taper is not None:
        yield (
            "topology.taper",
            "cannot be combined with a number of spines, which tapers the tree; drop one",
            ("topology.spines",),
        )
    if topology.shape is None or not list(_shape(spec, parse_shape)):
        children, parents, _ = tree_shape(topology, 1)
        if math.prod(map(max, children, parents)) > MOST_TREE:
            yield f"topology.{first[0]}", f"such a tree has more than {MOST_TREE:,} nodes or switches", ()


def _shape(spec: MachineSpec, parse: Callable[[str], object]) -> Iterator[Contradiction]:
    """Yield the errors in the text that defines a whole topology."""
    try:
        parse(spec.topology.shape or "")
    except ValueError as error:
        yield "topology.shape", str(error), ()


def _dragonfly(spec: MachineSpec) -> Iterator[Contradiction]:
    topology = spec.topology
    if topology.type not in ("dragonfly", "cascade", "hyperx"):
        return
    if spec.machine.nodes is not None:
        yield "machine.nodes", f"the size of a {topology.type} is given by its topology", ("topology.type",)
    if topology.type == "hyperx":
        if topology.dims is None:
            yield "topology.dims", "missing key of a HyperX", ("topology.type",)
        elif topology.parallel is not None and len(topology.parallel) != len(topology.dims):
            yield "topology.parallel", f"expected {len(topology.dims)} numbers, one per dimension", ("topology.dims",)
        if topology.dims and math.prod(topology.dims) * (topology.hosts_per_router or 1) > MOST_TREE:
            yield "topology.dims", f"such a HyperX has more than {MOST_TREE:,} nodes", ()
    elif topology.type == "cascade":
        yield from _cascade(spec)
    else:
        yield from _canonical(spec)


def _cascade(spec: MachineSpec) -> Iterator[Contradiction]:
    topology = spec.topology
    counts = (topology.groups, topology.chassis, topology.blades, topology.hosts_per_router)
    if topology.shape is not None:
        from xsim_py.config.fat_trees import parse_cascade

        yield from _shape(spec, parse_cascade)
        if any(each is not None for each in counts):
            yield (
                "topology.shape",
                "cannot be combined with other keys of the topology: it defines the whole machine",
                ("topology.blades",),
            )
        return
    groups, chassis, blades, hosts = (each or 1 for each in counts)
    if topology.blades is None:
        yield "topology.blades", "missing key of a cascade (or give its shape)", ("topology.type",)
    elif groups > blades:
        message = (
            f"{groups} groups are out of range: blade j links to group j, so {blades} blades allow at most {blades}"
        )
        yield "topology.groups", message, ("topology.blades",)
    elif groups * chassis * blades * hosts > MOST_TREE:
        yield "topology.groups", f"such a cascade has more than {MOST_TREE:,} nodes", ()


def _canonical(spec: MachineSpec) -> Iterator[Contradiction]:
    topology = spec.topology
    unit = topology.hosts_per_router or topology.global_links_per_router
    unit = unit or (topology.routers_per_group and -(-topology.routers_per_group // 2))
    between = topology.links_between_groups or 1
    if not unit:
        return
    hosts = topology.hosts_per_router or unit
    ports = (topology.routers_per_group or 2 * unit) * (topology.global_links_per_router or unit)
    groups = topology.groups or ports // between + 1
    if (groups - 1) * between > ports:
        message = f"{groups} groups need {(groups - 1) * between} global links each, and a group has {ports}"
        yield "topology.groups", message, ("topology.routers_per_group", "topology.global_links_per_router")
    elif groups * (topology.routers_per_group or 2 * unit) * hosts > MOST_TREE:
        yield "topology.groups", f"such a dragonfly has more than {MOST_TREE:,} nodes", ("topology.hosts_per_router",)


def _routing(spec: MachineSpec) -> Iterator[Contradiction]:
    topology = spec.topology
    known = ROUTINGS.get(topology.type, ())
    if topology.routing is not None and known and topology.routing not in known:
        message = f"expected {' or '.join(known)} on a {topology.type}, got {topology.routing}"
        yield "topology.routing", message, ("topology.type",)
    if topology.ties == "simgrid" and topology.twist != "none":
        yield "topology.ties", "SimGrid has no twisted torus", ("topology.twist",)
    links = topology.links or {}
    for layer, figures in links.items():
        if figures.ps_per_byte is None and figures.latency_ps is None and layer != "backbone":
            yield f"topology.links.{layer}", "missing key: bandwidth or latency", ()


def _count_windings(dims: Sequence[int], twist: str | Sequence[TwistSpec]) -> int:
    """Return the approximate number of ways to wrap around the twisted dimensions.

    See `Torus.steps`.
    """
    if isinstance(twist, str):
        shifts = dict.fromkeys(range(1, len(dims)), dims[0]) if twist == "half" else {}
    else:
        shifts = {}
        for each in twist:
            if max(each.wrap, each.shift) < len(dims):
                shifts[each.wrap] = shifts.get(each.wrap, 0) + dims[each.shift]
    return math.prod(2 + (shifted // dims[wrap]) for wrap, shifted in shifts.items())


def _layers(spec: MachineSpec) -> Iterator[Contradiction]:
    needed = "same_node" if spec.topology.type == "single" else "network"
    if getattr(spec, needed) is None:
        yield needed, f"missing key: message costs, needed by topology.type {spec.topology.type}", ("topology.type",)
    # Without any latency, a reply could arrive at the time of its query, and no two shards could ever run concurrently:
    # the minimum latency is the lookahead of a shard.
    if spec.network is not None:
        yield from _layer(spec, spec.network, "network", spec.network.per_hop_ps)
    if spec.same_node is not None:
        yield from _layer(spec, spec.same_node, "same_node", 0)
    for index, each in enumerate(spec.layers or ()):
        yield from _placed(spec, each, f"layers[{index}]")


def _placed(spec: MachineSpec, layer: PlacedLayerSpec, path: str) -> Iterator[Contradiction]:
    """Yield the contradictions in a layer whose costs depend on the placement of ranks."""
    machine = spec.machine
    yield from _layer(spec, layer, path, 0 if layer.nodes is None or spec.network is None else spec.network.per_hop_ps)
    if layer.name in ("network", "same_node") or [each.name for each in spec.layers or ()].count(layer.name) > 1:
        yield f"{path}.name", f"a second layer named {layer.name}; rename one", ()
    if layer.nodes is not None:
        if layer.cores is not None:
            yield f"{path}.cores", "cores cannot be combined with nodes; drop one", (f"{path}.nodes",)
        if spec.network is None:
            yield f"{path}.nodes", "a single node has no layers of nodes; drop it", ("topology.type",)
        return
    if machine.cores_per_node is None:
        yield f"{path}.cores", "it divides the cores of a node; add machine.cores_per_node", ()
    elif layer.cores is None and (layer.name != "socket" or machine.sockets_per_node is None):
        yield f"{path}.cores", "missing key: cores or nodes, the number that form one", ("machine.sockets_per_node",)
    elif layer.cores is not None and (layer.cores > machine.cores_per_node or machine.cores_per_node % layer.cores):
        message = f"{machine.cores_per_node} cores of a node cannot be divided into parts of {layer.cores}"
        yield f"{path}.cores", message, ("machine.cores_per_node",)
    elif layer.cores == machine.cores_per_node and spec.same_node is not None and spec.memory is None:
        message = f"no message uses it: the layer {layer.name} holds all {layer.cores} cores of a node"
        yield "same_node", message, (f"{path}.cores", "machine.cores_per_node")


def _layer(spec: MachineSpec, layer: LayerSpec, path: str, per_hop_ps: int) -> Iterator[Contradiction]:
    segments = layer.segments or ()
    at = f"{path}.latency"
    if at in spec.places:
        if layer.latency_ps + per_hop_ps == 0:
            zero = "latency and per_hop are both zero; a message time must be positive"
            yield (
                at,
                zero if path == "network" else "0 is out of range: a message time must be positive",
                (f"{path}.per_hop",),
            )
    elif layer.times is None and not (segments and segments[0].from_bytes == 0 and segments[0].latency_ps is not None):
        message = "missing key: time from the end of the injection to the arrival, without hops."
        yield at, message, (f"{path}.segments", f"{path}.times")
    if segments and layer.times is not None:
        yield f"{path}.times", "measured times cannot be combined with segments; drop one", (f"{path}.segments",)
    if segments and segments[0].from_bytes == 0:  # otherwise the smallest messages have the section's own values
        for name, key, *_ in options(SegmentSpec):
            if f"{path}.{key}" in spec.places and all(getattr(each, name) is not None for each in segments):
                message = f"no message uses it: each of the {len(segments)} segments has its own {key}"
                yield f"{path}.{key}", f"{message}; change all of them with {path}.scale", (f"{path}.segments",)
    if layer.times is not None and layer.scale is not None:
        yield f"{path}.scale", "measured times have no latency and bandwidth to scale", (f"{path}.times",)
    if layer.times is not None and not is_file(layer.times):
        yield f"{path}.times", f"cannot find the file {layer.times}", ()
    for index, each in enumerate(segments):
        if index and each.from_bytes <= segments[index - 1].from_bytes:
            yield f"{path}.segments[{index}].from", "segments must be in ascending order", (f"{path}.segments",)
        latency_ps = layer.latency_ps if each.latency_ps is None else each.latency_ps
        ps_per_byte = layer.ps_per_byte if each.ps_per_byte is None else each.ps_per_byte
        if latency_ps + per_hop_ps + int(each.from_bytes * ps_per_byte) == 0:
            yield f"{path}.segments[{index}].latency", "0 is out of range: a message time must be positive", (at,)


def _twist(spec: MachineSpec) -> Iterator[Contradiction]:
    twist, dims = spec.topology.twist, spec.topology.dims
    if isinstance(twist, str):
        if twist == "half" and dims and (len(dims) < 2 or dims[0] % 2):
            yield "topology.twist", "half of x needs an even length in x and a second dimension", ("topology.dims",)
        return
    if dims is None:
        yield "topology.twist", "a list of twists needs topology.dims", ("topology.dims",)
        return
    shifted = {entry.shift for entry in twist}
    for index, entry in enumerate(twist):
        path = f"topology.twist[{index}]"
        if max(entry.wrap, entry.shift) >= len(dims):
            yield path, f"out of range: this torus has {len(dims)} dimensions", ("topology.dims",)
        elif entry.wrap == entry.shift:
            yield path, "a dimension cannot be shifted along itself", ()
        elif entry.wrap in shifted:
            # With cyclic twists, the order of wrapping around would matter.
            yield path, "not supported: another twist shifts the dimension that this one wraps", ()
        elif entry.by >= dims[entry.shift]:
            yield (
                f"{path}.by",
                f"out of range: the shift must be less than the length {dims[entry.shift]}",
                ("topology.dims",),
            )


def _names(spec: MachineSpec) -> Iterator[Contradiction]:
    template = spec.machine.processor_name
    if template is not None:
        rest = template.replace("{node}", "")
        if "{" in rest or "}" in rest or not template:
            yield "machine.processor_name", "must not be empty, and may contain {node} but no other braces", ()


def _polls(spec: MachineSpec) -> Iterator[Contradiction]:
    if spec.mpi.poll_time_ps == 0:
        yield "mpi.poll_time", "0 is out of range: polling at no cost would stop the clock", ()


def _compute(spec: MachineSpec) -> Iterator[Contradiction]:
    if not _SPEEDS[0] <= spec.compute.speed <= _SPEEDS[1]:
        yield "compute.speed", f"{spec.compute.speed:g} is out of range ({_SPEEDS[0]:g} to {_SPEEDS[1]:g})", ()
    if spec.compute.times is not None:
        if spec.compute.mode == "measured":
            yield "compute.times", "compute.times cannot be combined with measured; drop one", ("compute.mode",)
        if not is_file(spec.compute.times):
            yield "compute.times", f"cannot find the file {spec.compute.times}", ()
    for index, each in enumerate(spec.compute.speeds or ()):
        if not _SPEEDS[0] <= each.speed <= _SPEEDS[1]:
            yield (
                f"compute.speeds[{index}].speed",
                f"{each.speed:g} is out of range ({_SPEEDS[0]:g} to {_SPEEDS[1]:g})",
                (),
            )
    noise = spec.compute.noise
    if noise is not None and noise.law != "lognormal" and "compute.noise.sigma" in spec.places:
        yield "compute.noise.sigma", "cannot be combined with an exponential law; drop sigma", ("compute.noise.law",)


def _detector(spec: MachineSpec) -> Iterator[Contradiction]:
    """Yield the contradictions except in time limits, checked once the network is known."""
    detector = spec.mpi.detector
    if detector.type != "heartbeat" and "mpi.detector.period" in spec.places:
        yield "mpi.detector.period", f"a {detector.type} detector has no period", ("mpi.detector.type",)
    elif detector.period_ps == 0:
        yield "mpi.detector.period", "0 is out of range: the heartbeat period must be positive", ()


def _ftco(spec: MachineSpec) -> Iterator[Contradiction]:
    if spec.mpi.ftco.timeout_ps == 0:
        yield "mpi.ftco.timeout", "0 is out of range: the timeout must be positive", ()


def _trace(spec: MachineSpec) -> Iterator[Contradiction]:
    trace = spec.failures.trace
    if trace is not None and not is_file(trace):
        yield "failures.trace", f"cannot find the file {trace}", ()


def _storage(spec: MachineSpec) -> Iterator[Contradiction]:
    storage = spec.storage
    if storage is None:
        return
    if storage.latency_ps == 0:  # as in the network, a reply must not arrive at the time of its query
        yield "storage.latency", "0 is out of range: an operation must take time", ()
    if not 1 <= storage.block_bytes <= _LARGEST_BLOCK:
        yield "storage.block", "out of range (1B to 1GiB)", ()
