"""Bandwidth and latency of the links of a machine, by layer, if its description gives any."""

from __future__ import annotations

from fractions import Fraction

from xsim_py.config import LinkSpec, MachineSpec
from xsim_py.errors import advice
from xsim_py.machine.topology import Topology

LayerParameters = tuple[tuple[Fraction, int], ...]
"""Picoseconds per byte (0: unlimited), and picoseconds that a link adds to the latency, by layer."""


def find_link_parameters(spec: MachineSpec, topology: Topology) -> LayerParameters | None:
    """Return the parameters of a topology's layers.

    Return None if all links are as in section ``network``. Raises a `ConfigError` if parameters are given for a layer
    that this topology does not have, or a message could take no time.
    """
    network, explicit = spec.network, spec.topology.links or {}
    for name in explicit:
        if name not in ("every", *topology.layers):
            message = f"unknown layer of links: {advice(name, ('every', *topology.layers))}"
            raise spec.error(f"topology.links.{name}", message)
    widths, edges = topology.widths, topology.edge_parameters
    own = explicit or (widths and set(widths) != {1}) or set(edges) - {(None, None)}
    if not topology.host_ports and (network is None or not own):
        return None
    return (*_between_nodes(spec, topology), *_of_host_ports(spec, topology))


def _between_nodes(spec: MachineSpec, topology: Topology) -> LayerParameters:
    network, explicit = spec.network, spec.topology.links or {}
    widths, edges = topology.widths, topology.edge_parameters
    if network is None:
        return ((Fraction(0), 0),) * (len(topology.layers) - topology.host_ports)
    found = []
    for layer, name in enumerate(topology.layers[: len(topology.layers) - topology.host_ports]):
        # The layers of a graph are the parameters of its edges; missing values are those of all links.
        link = explicit.get("link" if edges and name.startswith("link ") else name)
        if link is None:
            link = LinkSpec() if name == "backbone" else explicit.get("every", LinkSpec())
        if edges:
            ps_per_byte, latency_ps = edges[layer]
            link = LinkSpec(
                ps_per_byte=link.ps_per_byte if ps_per_byte is None else ps_per_byte,
                latency_ps=link.latency_ps if latency_ps is None else latency_ps,
            )
        ps_per_byte = network.ps_per_byte if link.ps_per_byte is None else link.ps_per_byte
        latency_ps = link.latency_ps
        if latency_ps is None:
            latency_ps = 0 if name == "backbone" else network.per_hop_ps
        found.append((ps_per_byte / (widths[layer] if widths else 1), latency_ps))
    hops = [latency_ps for name, (_, latency_ps) in zip(topology.layers, found, strict=False) if name != "backbone"]
    if network.latency_ps == 0 and not network.segments and network.times is None and min(hops, default=0) == 0:
        raise spec.error(
            "network.latency",
            "0 is out of range: some links have no latency either, and a message time must be positive",
        )
    return tuple(found)


def _of_host_ports(spec: MachineSpec, topology: Topology) -> LayerParameters:
    """Return the parameters of the links of the nodes themselves, see `xsim_py.machine.host_ports`."""
    found = []
    nic, memory = spec.nic, spec.memory
    for name in topology.layers[len(topology.layers) - topology.host_ports :]:
        if name == "memory":
            assert memory is not None
            found.append((memory.ps_per_byte, memory.latency_ps))
            continue
        assert nic is not None
        assert spec.network is not None
        ps_per_byte = spec.network.ps_per_byte if nic.ps_per_byte is None else nic.ps_per_byte
        if name == "nic":
            found.append((ps_per_byte, nic.latency_ps))
        else:  # the combined bandwidth of both directions
            found.append((ps_per_byte / (2 * Fraction(nic.both_ways).limit_denominator(10**6)), 0))
    return tuple(found)
