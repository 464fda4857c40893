"""Bandwidth and latency of the links of a machine, layer by layer, where its description gives them any."""

from __future__ import annotations

from fractions import Fraction

from xsim_py.config import LinkSpec, MachineSpec
from xsim_py.errors import advice
from xsim_py.machine.topology import Topology

Figures = tuple[tuple[Fraction, int], ...]
"""Picoseconds of a byte (0: unlimited), and picoseconds that a link adds to the latency, of each layer."""

_WITHIN = ("port", "memory", "backbone")  # no hops of the network: they add no latency that nobody asks for


def link_figures(spec: MachineSpec, topology: Topology) -> Figures | None:
    """Return the figures of the layers of a topology; None where all links are as section ``network`` says.

    Raises
    ------
    ConfigError
        When figures are given to a layer that this topology does not have, or a message could take no time.
    """
    network, given = spec.network, spec.topology.links or {}
    for name in given:
        if name not in ("every", *topology.layers):
            said = f"this topology has no such layer of links: {advice(name, ('every', *topology.layers))}"
            raise spec.error(f"topology.links.{name}", said)
    widths, edges = topology.widths, topology.edge_figures
    if network is None or not (given or (widths and set(widths) != {1}) or set(edges) - {(None, None)}):
        return None
    found = []
    for layer, name in enumerate(topology.layers):
        # The layers of a graph are the figures of its edges; what these leave out is that of all links.
        told = given.get("link" if edges and name.startswith("link ") else name)
        if told is None:
            told = LinkSpec() if name in _WITHIN else given.get("every", LinkSpec())
        if edges:
            ps_per_byte, latency_ps = edges[layer]
            told = LinkSpec(
                ps_per_byte=told.ps_per_byte if ps_per_byte is None else ps_per_byte,
                latency_ps=told.latency_ps if latency_ps is None else latency_ps,
            )
        ps_per_byte = network.ps_per_byte if told.ps_per_byte is None else told.ps_per_byte
        latency_ps = told.latency_ps
        if latency_ps is None:
            latency_ps = 0 if name in _WITHIN else network.per_hop_ps
        found.append((ps_per_byte / (widths[layer] if widths else 1), latency_ps))
    hops = [latency_ps for name, (_, latency_ps) in zip(topology.layers, found, strict=True) if name not in _WITHIN]
    if network.latency_ps == 0 and not network.segments and network.times is None and min(hops, default=0) == 0:
        raise spec.error("network.latency", "it is zero, and so is that of some links; a message needs some time")
    return tuple(found)
