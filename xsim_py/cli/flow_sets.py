"""Sets of flows in JSON files, with their topology or links, and max-min fair end times.

The keys are ``topology`` (parameters, which depend on ``type``), ``links`` (name to bandwidth in bytes per second and
latency in seconds), and ``flows`` with ``src``, ``dst``, ``bytes``, ``start_s`` and optionally ``route`` (names of
links in order) and ``via_group``. A flow that starts at t reaches its links after the sum of their latencies.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xsim_py.errors import ConfigError, advice
from xsim_py.input_files import MIB, read_input

if TYPE_CHECKING:
    from xsim_py.machine import Topology

_MOST_BYTES: Final = 256 * MIB
_MISSING: Final = object()

Links = dict[str, tuple[float, float]]
"""Bandwidth and latency of links, by name."""


@dataclass
class JsonSection:
    """A section of the file, and its location."""

    file: Path
    at: str
    values: Mapping[str, Any]

    def wrong(self, key: str, message: str) -> ConfigError:
        """Return an error about one of its keys."""
        return ConfigError(f"{self.file}: {self.at}{key}: {message}")

    def number(self, key: str, default: object = _MISSING, *, least: float = 0.0) -> float:
        """Return a finite number of at least `least`."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < math.inf:
            raise self.wrong(key, f"expected a number of at least {least:g}, got {value!r}")
        return float(value)

    def integer(self, key: str, default: object = _MISSING, *, least: int = 0) -> int:
        """Return an integer of at least `least`."""
        number = self.number(key, default, least=least)
        if not number.is_integer():
            raise self.wrong(key, f"expected an integer, got {number!r}")
        return int(number)

    def bandwidth(self, key: str, default: object = _MISSING) -> float:
        """Return a positive number."""
        value = self.number(key, default)
        if not value:
            raise self.wrong(key, "0 is out of range: expected a positive bandwidth")
        return value

    def counts(self, key: str, default: object = _MISSING) -> list[int]:
        """Return a list of positive integers."""
        values = self._value(key, default)
        if not isinstance(values, list) or not values:
            raise self.wrong(key, f"expected a list of integers, got {values!r}")
        each = JsonSection(self.file, f"{self.at}{key}", {f"[{index}]": value for index, value in enumerate(values)})
        return [each.integer(index, least=1) for index in each.values]

    def word(self, key: str, *words: str) -> str:
        """Return one of some words; the first is the default."""
        value = self.values.get(key, words[0])
        if value not in words:
            raise self.wrong(key, f"unknown value {value!r}; {advice(str(value), words)}")
        return str(value)

    def by_layer(self, key: str, layers: Sequence[str]) -> list[float]:
        """Return a number per layer, from a section, a list in their order, or a single value."""
        value = self._value(key, _MISSING)
        if isinstance(value, list) and len(value) == len(layers):
            value = dict(zip(layers, value, strict=True))
        elif not isinstance(value, (dict, list)):
            value = dict.fromkeys(layers, value)
        if not isinstance(value, dict):
            raise self.wrong(key, f"expected one number per link layer ({len(layers)}), got {len(value)}")
        each = JsonSection(self.file, f"{self.at}{key}.", value)
        return [each.bandwidth(layer) if key.startswith("bandwidth") else each.number(layer) for layer in layers]

    def _value(self, key: str, default: object) -> object:
        value = self.values.get(key, default)
        if value is _MISSING:
            raise self.wrong(key, "missing")
        return value


class FlowSet:
    """The flows of a file, with their links or topology."""

    def __init__(self, file: Path) -> None:
        try:
            section = json.loads(read_input(file, most_bytes=_MOST_BYTES))
        except OSError as error:
            raise ConfigError(f"cannot read {file}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{file}: not valid JSON: {error}") from None
        self._root = _section(file, "", section)
        flows = self._root.values.get("flows")
        if not isinstance(flows, list):
            raise self._root.wrong("flows", "missing key; add a list of flows")
        self._flows = [_section(file, f"flows[{index}].", flow) for index, flow in enumerate(flows)]

    def solve(self, routes: str | None) -> dict[str, Any]:
        """Return the end time and the route of each flow.

        Routes are ``given`` or ``own``; None: the given routes, if every flow has one.
        """
        if routes == "own":
            self._topology()
        given = all("route" in flow.values for flow in self._flows)
        of_graph = self._root.values.get("topology") is None or self._topology().values["type"] == "given"
        if routes is None:
            routes = "given" if given else "own"
        # Without a topology, only the given routes are available.
        links, ways = self._given() if routes == "given" or (of_graph and given) else self._own()
        return {"finish_s": self._ends(links, ways), "routes": ways}

    def _ends(self, links: Links, ways: list[list[str]]) -> list[float]:
        from xsim_py.network.flows import FairFlows

        account = FairFlows()
        numbers = {name: account.add_link(bandwidth) for name, (bandwidth, _) in links.items()}
        for number, (flow, way) in enumerate(zip(self._flows, ways, strict=True)):
            begin = flow.number("start_s", 0.0) + math.fsum(links[name][1] for name in way)
            account.add(number, begin, flow.number("bytes"), [numbers[name] for name in way])
        found = {number: time for time, number in account.advance(math.inf)}
        return [found[number] for number in range(len(ways))]

    def _given(self) -> tuple[Links, list[list[str]]]:
        """Return the links of the file, and the routes of its flows."""
        section = self._root.values.get("links")
        if not isinstance(section, dict):
            raise self._root.wrong("links", "missing key; add name: [bytes per second, seconds of latency]")
        links: Links = {}
        for name, figures in section.items():
            if not isinstance(figures, list) or len(figures) != 2:
                raise self._root.wrong(f"links.{name}", "expected [bytes per second, seconds of latency]")
            each = JsonSection(self._root.file, f"links.{name}", {"[0]": figures[0], "[1]": figures[1]})
            links[name] = each.bandwidth("[0]"), each.number("[1]")
        ways = []
        for flow in self._flows:
            way = flow.values.get("route")
            if not isinstance(way, list):
                raise flow.wrong("route", "missing key; add the names of its links, or use --routes own")
            for name in way:
                if not isinstance(name, str) or name not in links:
                    raise flow.wrong("route", f"unknown link {name!r}")
            ways.append(way)
        return links, ways

    def _topology(self) -> JsonSection:
        section = self._root.values.get("topology")
        if section is None:
            raise self._root.wrong("topology", "missing key; --routes own needs a topology")
        section = _section(self._root.file, "topology.", section)
        kind = section.values.get("type")
        if kind not in (*_KINDS, "given"):
            raise section.wrong("type", f"unknown value {kind!r}; {advice(str(kind), (*_KINDS, 'given'))}")
        return section

    def _own(self) -> tuple[Links, list[list[str]]]:
        """Return the links and the routes of the flows over the topology of the file."""
        section = self._topology()
        if section.values["type"] == "given":
            raise section.wrong("type", "a topology of links needs a route in each flow; add the missing routes")
        topology, figures = _KINDS[section.values["type"]](section)
        if section.values["type"] != "switch" and section.word("duplex", "full", "half") == "half":
            raise section.wrong("duplex", "'half' is only for links of a switch and for ports")
        per_node = section.integer("ranks_per_node", 1, least=1)
        links: Links = {}
        ways = []
        for flow in self._flows:
            ends = []
            for key in ("src", "dst"):
                rank = flow.integer(key)
                if rank >= topology.nodes * per_node:
                    raise flow.wrong(
                        key, f"{rank} is out of range: expected a rank from 0 to {topology.nodes * per_node - 1}"
                    )
                ends.append(rank // per_node)
            a, b = ends
            via = flow.values.get("via_group")
            if via is not None and hasattr(topology, "route_over"):
                group = flow.integer("via_group")
                if group >= topology.groups:
                    raise flow.wrong("via_group", f"out of range: expected a group from 0 to {topology.groups - 1}")
                route = topology.route_over(a, b, group)
            else:
                route = topology.route(a, b)
            way = []
            for link in route:
                name = topology.link_name(link)
                links[name] = figures[topology.layer(link)]
                way.append(name)
            ways.append(way)
        return links, ways


def _section(file: Path, at: str, section: object) -> JsonSection:
    if not isinstance(section, dict):
        raise ConfigError(f"{file}: {at.rstrip('.') or 'file'}: expected a section of keys and values")
    return JsonSection(file, at, section)


_Figures = list[tuple[float, float]]


def _figures(section: JsonSection, layers: Sequence[str]) -> _Figures:
    """Return the bandwidth and latency of each layer."""
    return list(zip(section.by_layer("bandwidth_Bps", layers), section.by_layer("latency_s", layers), strict=True))


def _with_ports(
    section: JsonSection, topology: Topology, figures: _Figures, port: str | None
) -> tuple[Topology, _Figures]:
    """Add ports and node memory to a topology; `section` has their parameters."""
    from xsim_py.machine.host_ports import HostPorts

    memory = "memory_Bps" in section.values
    if port:
        figures = [*figures, (section.bandwidth("bandwidth_Bps"), section.number("latency_s", 0.0))]
    if memory:
        figures = [*figures, (section.bandwidth("memory_Bps"), section.number("memory_latency_s", 0.0))]
    if not port and not memory:
        return topology, figures
    return HostPorts(topology, nics=int(bool(port)), duplex=port or "full", sockets=int(memory)), figures


def _fat_tree(section: JsonSection) -> tuple[Topology, _Figures]:
    from xsim_py.machine.fat_tree import FatTree

    children, parents = section.counts("m"), section.counts("w")
    parallel = section.counts("p", [1] * len(children))
    if not len(children) == len(parents) == len(parallel):
        raise section.wrong("m", "m, w and p have different numbers of levels")
    tree = FatTree(children, parents, parallel, cables=section.word("cables", "destination", "source"))
    return tree, _figures(section, tree.layers)


def _dragonfly(section: JsonSection) -> tuple[Topology, _Figures]:
    from xsim_py.machine.dragonfly import Dragonfly

    hosts, routers, links = (section.integer(key, least=1) for key in "pah")
    between = section.integer("links_between_groups", 1, least=1)
    groups = section.integer("groups", routers * links // between + 1, least=1)
    if (groups - 1) * between > routers * links:
        raise section.wrong("groups", f"{groups} is out of range: a group has {routers * links} links")
    dragonfly = Dragonfly(
        hosts,
        routers,
        links,
        groups=groups,
        between=between,
        wiring=section.word("wiring", "relative", "absolute"),
        routing=section.word("routing", "minimal", "valiant", "ecmp"),
    )
    return dragonfly, _figures(section, dragonfly.layers)


def _cascade(section: JsonSection) -> tuple[Topology, _Figures]:
    from xsim_py.machine.dragonfly import Cascade

    groups, chassis, blades = (section.integer(key, least=1) for key in ("groups", "chassis", "blades"))
    if groups > blades:
        raise section.wrong(
            "groups",
            f"{groups} is out of range: blade j links to group j, so {blades} blades allow at most {blades} groups",
        )
    blue, black, green = (
        section.integer(f"links_{key}", 1, least=1) for key in ("between_groups", "between_chassis", "in_chassis")
    )
    hosts = section.integer("nodes_per_blade", least=1)
    cascade = Cascade(groups, chassis, blades, hosts, blue=blue, black=black, green=green)
    figures = _figures(section, cascade.layers)
    widths = cascade.widths or ()
    return cascade, [(bandwidth * width, latency) for (bandwidth, latency), width in zip(figures, widths, strict=True)]


def _torus(section: JsonSection) -> tuple[Topology, _Figures]:
    from xsim_py.machine.torus import Torus

    torus = Torus(section.counts("dims"), ties=section.word("ties", "up", "simgrid"))
    figures = _figures(section, torus.layers)
    port = section.values.get("port")
    if port is None:
        return _with_ports(section, torus, figures, None)
    section = _section(section.file, f"{section.at}port.", port)
    return _with_ports(section, torus, figures, section.word("duplex", "full", "half"))


def _hyperx(section: JsonSection) -> tuple[Topology, _Figures]:
    from xsim_py.machine.hyperx import HyperX

    dims = section.counts("dims")
    parallel = section.counts("parallel", [1] * len(dims))
    if len(parallel) != len(dims):
        raise section.wrong("parallel", f"expected {len(dims)} numbers, one per dimension")
    routing = section.word("routing", "dimension_order", "ecmp", "valiant")
    hyperx = HyperX(dims, section.integer("hosts_per_router", 1, least=1), parallel, routing=routing)
    return hyperx, _figures(section, hyperx.layers)


def _switch(section: JsonSection) -> tuple[Topology, _Figures]:
    from xsim_py.machine import Switch

    backbone = "backbone_Bps" in section.values
    switch = Switch(
        section.integer("nodes", least=1), half=section.word("duplex", "full", "half") == "half", backbone=backbone
    )
    figures = [(section.bandwidth("bandwidth_Bps"), section.number("latency_s", 0.0))]
    if backbone:
        figures.append((section.bandwidth("backbone_Bps"), section.number("backbone_latency_s", 0.0)))
    return _with_ports(section, switch, figures, None)


_KINDS: Final[dict[str, Callable[[JsonSection], tuple[Any, _Figures]]]] = {
    "switch": _switch,
    "fat_tree": _fat_tree,
    "torus": _torus,
    "dragonfly": _dragonfly,
    "dragonfly_cascade": _cascade,
    "hyperx": _hyperx,
}
