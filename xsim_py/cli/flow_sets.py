"""Sets of flows in JSON files: a topology or its links, and flows with or without routes; their max-min fair end times.

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
class Told:
    """A section of the file, and its location."""

    file: Path
    at: str
    values: Mapping[str, Any]

    def wrong(self, key: str, message: str) -> ConfigError:
        """Return an error about one of its keys."""
        return ConfigError(f"{self.file}: {self.at}{key}: {message}")

    def number(self, key: str, default: Any = _MISSING, *, least: float = 0.0) -> float:
        """Return a finite number of at least `least`."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < math.inf:
            raise self.wrong(key, f"expected a number of at least {least:g}, got {value!r}")
        return float(value)

    def whole(self, key: str, default: Any = _MISSING, *, least: int = 0) -> int:
        """Return an integer of at least `least`."""
        number = self.number(key, default, least=least)
        if not number.is_integer():
            raise self.wrong(key, f"expected an integer, got {number!r}")
        return int(number)

    def bandwidth(self, key: str, default: Any = _MISSING) -> float:
        """Return a positive number."""
        value = self.number(key, default)
        if not value:
            raise self.wrong(key, "0 is out of range: expected a positive bandwidth")
        return value

    def counts(self, key: str, default: Any = _MISSING) -> list[int]:
        """Return a list of positive integers."""
        values = self._value(key, default)
        if not isinstance(values, list) or not values:
            raise self.wrong(key, f"expected a list of integers, got {values!r}")
        each = Told(self.file, f"{self.at}{key}", {f"[{index}]": value for index, value in enumerate(values)})
        return [each.whole(index, least=1) for index in each.values]

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
        each = Told(self.file, f"{self.at}{key}.", value)
        return [each.bandwidth(layer) if key.startswith("bandwidth") else each.number(layer) for layer in layers]

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(key, default)
        if value is _MISSING:
            raise self.wrong(key, "missing")
        return value


class FlowSet:
    """The flows of a file, with their links or topology.

    Parameters
    ----------
    file
        Its name.

    Raises
    ------
    ConfigError
        When it cannot be read or is invalid; with the location.
    """

    def __init__(self, file: Path) -> None:
        try:
            told = json.loads(read_input(file, most_bytes=_MOST_BYTES))
        except OSError as error:
            raise ConfigError(f"cannot read {file}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{file}: not valid JSON: {error}") from None
        self._told = _section(file, "", told)
        flows = self._told.values.get("flows")
        if not isinstance(flows, list):
            raise self._told.wrong("flows", "missing key; add a list of flows")
        self._flows = [_section(file, f"flows[{index}].", flow) for index, flow in enumerate(flows)]

    def solve(self, routes: str | None) -> dict[str, Any]:
        """Return the end time and the route of each flow.

        Parameters
        ----------
        routes
            ``given``, ``own``, or None: the given routes, if every flow has one.

        Raises
        ------
        ConfigError
            When the file lacks data for these routes, or they are invalid.
        """
        if routes == "own":
            self._topology()
        given = all("route" in flow.values for flow in self._flows)
        of_graph = self._told.values.get("topology") is None or self._topology().values["type"] == "given"
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
        told = self._told.values.get("links")
        if not isinstance(told, dict):
            raise self._told.wrong("links", "missing key; add name: [bytes per second, seconds of latency]")
        links: Links = {}
        for name, figures in told.items():
            if not isinstance(figures, list) or len(figures) != 2:
                raise self._told.wrong(f"links.{name}", "expected [bytes per second, seconds of latency]")
            each = Told(self._told.file, f"links.{name}", {"[0]": figures[0], "[1]": figures[1]})
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

    def _topology(self) -> Told:
        told = self._told.values.get("topology")
        if told is None:
            raise self._told.wrong("topology", "missing key; --routes own needs a topology")
        section = _section(self._told.file, "topology.", told)
        kind = section.values.get("type")
        if kind not in (*_KINDS, "given"):
            raise section.wrong("type", f"unknown value {kind!r}; {advice(str(kind), (*_KINDS, 'given'))}")
        return section

    def _own(self) -> tuple[Links, list[list[str]]]:
        """Return the links and the routes of the flows over the topology of the file."""
        told = self._topology()
        if told.values["type"] == "given":
            raise told.wrong("type", "a topology of links needs a route in each flow; add the missing routes")
        topology, figures = _KINDS[told.values["type"]](told)
        if told.values["type"] != "switch" and told.word("duplex", "full", "half") == "half":
            raise told.wrong("duplex", "'half' is only for links of a switch and for ports")
        per_node = told.whole("ranks_per_node", 1, least=1)
        links: Links = {}
        ways = []
        for flow in self._flows:
            ends = []
            for key in ("src", "dst"):
                rank = flow.whole(key)
                if rank >= topology.nodes * per_node:
                    raise flow.wrong(
                        key, f"{rank} is out of range: expected a rank from 0 to {topology.nodes * per_node - 1}"
                    )
                ends.append(rank // per_node)
            a, b = ends
            via = flow.values.get("via_group")
            if via is not None and hasattr(topology, "route_over"):
                group = flow.whole("via_group")
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


def _section(file: Path, at: str, told: Any) -> Told:
    if not isinstance(told, dict):
        raise ConfigError(f"{file}: {at.rstrip('.') or 'file'}: expected a section of keys and values")
    return Told(file, at, told)


_Figures = list[tuple[float, float]]


def _figures(told: Told, layers: Sequence[str]) -> _Figures:
    """Return the bandwidth and latency of each layer."""
    return list(zip(told.by_layer("bandwidth_Bps", layers), told.by_layer("latency_s", layers), strict=True))


def _with_doors(told: Told, topology: Topology, figures: _Figures, port: str | None) -> tuple[Topology, _Figures]:
    """Add ports and node memory to a topology; `told` has their parameters."""
    from xsim_py.machine.host_ports import HostPorts

    memory = "memory_Bps" in told.values
    if port:
        figures = [*figures, (told.bandwidth("bandwidth_Bps"), told.number("latency_s", 0.0))]
    if memory:
        figures = [*figures, (told.bandwidth("memory_Bps"), told.number("memory_latency_s", 0.0))]
    if not port and not memory:
        return topology, figures
    return HostPorts(topology, nics=int(bool(port)), duplex=port or "full", sockets=int(memory)), figures


def _fat_tree(told: Told) -> tuple[Topology, _Figures]:
    from xsim_py.machine.fat_tree import FatTree

    children, parents = told.counts("m"), told.counts("w")
    parallel = told.counts("p", [1] * len(children))
    if not len(children) == len(parents) == len(parallel):
        raise told.wrong("m", "m, w and p have different numbers of levels")
    tree = FatTree(children, parents, parallel, cables=told.word("cables", "destination", "source"))
    return tree, _figures(told, tree.layers)


def _dragonfly(told: Told) -> tuple[Topology, _Figures]:
    from xsim_py.machine.dragonfly import Dragonfly

    hosts, routers, links = (told.whole(key, least=1) for key in "pah")
    between = told.whole("links_between_groups", 1, least=1)
    groups = told.whole("groups", routers * links // between + 1, least=1)
    if (groups - 1) * between > routers * links:
        raise told.wrong("groups", f"{groups} is out of range: a group has {routers * links} links")
    dragonfly = Dragonfly(
        hosts,
        routers,
        links,
        groups=groups,
        between=between,
        wiring=told.word("wiring", "relative", "absolute"),
        routing=told.word("routing", "minimal", "valiant", "ecmp"),
    )
    return dragonfly, _figures(told, dragonfly.layers)


def _cascade(told: Told) -> tuple[Topology, _Figures]:
    from xsim_py.machine.dragonfly import Cascade

    groups, chassis, blades = (told.whole(key, least=1) for key in ("groups", "chassis", "blades"))
    if groups > blades:
        raise told.wrong(
            "groups",
            f"{groups} is out of range: blade j links to group j, so {blades} blades allow at most {blades} groups",
        )
    blue, black, green = (
        told.whole(f"links_{key}", 1, least=1) for key in ("between_groups", "between_chassis", "in_chassis")
    )
    hosts = told.whole("nodes_per_blade", least=1)
    cascade = Cascade(groups, chassis, blades, hosts, blue=blue, black=black, green=green)
    figures = _figures(told, cascade.layers)
    widths = cascade.widths or ()
    return cascade, [(bandwidth * width, latency) for (bandwidth, latency), width in zip(figures, widths, strict=True)]


def _torus(told: Told) -> tuple[Topology, _Figures]:
    from xsim_py.machine.torus import Torus

    torus = Torus(told.counts("dims"), ties=told.word("ties", "up", "simgrid"))
    figures = _figures(told, torus.layers)
    port = told.values.get("port")
    if port is None:
        return _with_doors(told, torus, figures, None)
    section = _section(told.file, f"{told.at}port.", port)
    return _with_doors(section, torus, figures, section.word("duplex", "full", "half"))


def _hyperx(told: Told) -> tuple[Topology, _Figures]:
    from xsim_py.machine.hyperx import HyperX

    dims = told.counts("dims")
    parallel = told.counts("parallel", [1] * len(dims))
    if len(parallel) != len(dims):
        raise told.wrong("parallel", f"expected {len(dims)} numbers, one per dimension")
    routing = told.word("routing", "dimension_order", "ecmp", "valiant")
    hyperx = HyperX(dims, told.whole("hosts_per_router", 1, least=1), parallel, routing=routing)
    return hyperx, _figures(told, hyperx.layers)


def _switch(told: Told) -> tuple[Topology, _Figures]:
    from xsim_py.machine import Switch

    backbone = "backbone_Bps" in told.values
    switch = Switch(told.whole("nodes", least=1), half=told.word("duplex", "full", "half") == "half", backbone=backbone)
    figures = [(told.bandwidth("bandwidth_Bps"), told.number("latency_s", 0.0))]
    if backbone:
        figures.append((told.bandwidth("backbone_Bps"), told.number("backbone_latency_s", 0.0)))
    return _with_doors(told, switch, figures, None)


_KINDS: Final[dict[str, Callable[[Told], tuple[Any, _Figures]]]] = {
    "switch": _switch,
    "fat_tree": _fat_tree,
    "torus": _torus,
    "dragonfly": _dragonfly,
    "dragonfly_cascade": _cascade,
    "hyperx": _hyperx,
}
