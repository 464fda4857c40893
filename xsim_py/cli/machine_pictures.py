"""Layout of a topology for the figure of a machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from xsim_py.errors import ConfigError

if TYPE_CHECKING:
    from xsim_py.machine import Topology
    from xsim_py.report.machine_picture import MachinePicture

_MOST_VERTICES: Final = 3000


def machine_picture(topology: Topology, *, title: str, loads: Mapping[str, float] | None = None) -> MachinePicture:
    """Return the content of a topology's figure, of at most 3,000 nodes and switches.

    `loads` are bytes by the names of links; a link between two vertices shows the larger of its two directions. Links
    within a node or switch are not drawn. Raise ConfigError if no link has one of these names.
    """
    vertices = topology.nodes + topology.switches
    if vertices > _MOST_VERTICES:
        raise ConfigError(f"{vertices:,} nodes and switches are too many for a figure; draw at most {_MOST_VERTICES:,}")
    from xsim_py.machine.layout import places
    from xsim_py.report.machine_picture import MachinePicture

    found = places(topology)
    nodes = {topology.vertex_of(node) for node in range(topology.nodes)}
    return MachinePicture(
        title,
        [topology.vertex(vertex) for vertex in range(vertices)],
        [found[vertex] for vertex in range(vertices)],
        [vertex in nodes for vertex in range(vertices)],
        [(link[0], link[1]) for link in topology.wires()],
        None if loads is None else _loads_of(topology, loads),
    )


def _loads_of(topology: Topology, loads: Mapping[str, float]) -> list[float]:
    """Return the load of each drawn link: the larger of its two directions."""
    rest = dict(loads)
    found = []
    for a, b, *cable in topology.wires():
        names = [topology.link_name((*ends, *cable)) for ends in ((a, b), (b, a))]
        found.append(max(rest.pop(name, 0.0) for name in names))
    unknown = [name for name in rest if ">" in name]
    if unknown:
        raise ConfigError(f"the loads belong to a different machine: {topology} has no link {unknown[0]}")
    return found
