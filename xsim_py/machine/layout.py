"""Positions of the nodes and switches of a topology in a figure."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin
from typing import Any

import networkx

from xsim_py.machine.dragonfly import Cascade, Dragonfly
from xsim_py.machine.fat_tree import FatTree
from xsim_py.machine.host_ports import HostPorts
from xsim_py.machine.hyperx import HyperX
from xsim_py.machine.topology import Topology
from xsim_py.machine.torus import Torus

Places = dict[int, tuple[float, float]]
"""The positions of vertices, in arbitrary units."""

_BEND = 0.14
_LEANING = (0.23, 0.31)  # the offset of each plane of the third dimension from the previous one


def places(topology: Topology) -> Places:
    """Return the position of each vertex: tree levels in rows, groups on a circle, grids as grids.

    Other graphs use a force-directed layout.
    """
    if isinstance(topology, HostPorts):
        topology = topology.inner
    if isinstance(topology, FatTree):
        return _rows(topology)
    if isinstance(topology, (Dragonfly, Cascade)):
        return _circles(topology)
    if isinstance(topology, Torus):
        return {node: _on_grid(topology.coordinates(node), topology.dims) for node in range(topology.nodes)}
    if isinstance(topology, HyperX):
        return _grid_of_routers(topology)
    graph: networkx.Graph[Any] = networkx.Graph()
    graph.add_nodes_from(range(topology.nodes))
    graph.add_edges_from((link[0], link[1]) for link in topology.wires())
    found = networkx.spring_layout(graph, seed=1, iterations=200)
    return {vertex: (float(x), float(y)) for vertex, (x, y) in found.items()}


def _rows(tree: FatTree) -> Places:
    found: Places = {}
    for level, size in enumerate(tree.sizes):
        for place in range(size):
            found[len(found)] = ((place + 0.5) / size, level / len(tree.children))
    return found


def _circles(dragonfly: Dragonfly | Cascade) -> Places:
    """Place groups on a circle, the routers of each on a smaller one, and nodes around their router."""
    found: Places = {}
    per_group = dragonfly.switches // dragonfly.groups
    for router in range(dragonfly.switches):
        group, at = divmod(router, per_group)
        way = 2 * pi * group / dragonfly.groups
        turn = way + 2 * pi * (at + 0.5) / per_group
        small = pi / max(dragonfly.groups, 3)
        x, y = cos(way) + 0.55 * small * cos(turn), sin(way) + 0.55 * small * sin(turn)
        found[dragonfly.nodes + router] = x, y
        for host in range(dragonfly.hosts):
            fan = turn + 0.9 * ((host + 0.5) / dragonfly.hosts - 0.5)
            found[router * dragonfly.hosts + host] = x + 0.3 * small * cos(fan), y + 0.3 * small * sin(fan)
    return found


def _on_grid(digits: Sequence[int], dims: Sequence[int]) -> tuple[float, float]:
    """Return the position of a point: x to the right, y upwards, further dimensions offset.

    Rows are slightly bent, so that a link between two of their points does not hide others.
    """
    x, y = float(digits[0]), float(digits[1]) if len(digits) > 1 else 0.0
    bends = [_BEND * sin(pi * digit / max(length - 1, 1)) for digit, length in zip(digits, dims, strict=True)]
    y -= bends[0]
    x -= sum(bends[1:2])
    for dimension, digit in enumerate(digits[2:]):
        lean = digit + bends[dimension + 2]
        across, up = (_LEANING[0], 1.2 * dims[1]) if dimension == 1 else _LEANING
        scale = 1 if dimension < 2 else (dims[0] + 1) / across
        x += lean * across * scale
        y += digit * (up if dimension < 2 else 0)
    return x, y


def _grid_of_routers(hyperx: HyperX) -> Places:
    found: Places = {}
    for router in range(hyperx.switches):
        x, y = found[hyperx.nodes + router] = _on_grid(hyperx.digits(router), hyperx.dims)
        for host in range(hyperx.hosts):
            fan = -pi / 2 + 1.2 * ((host + 0.5) / hyperx.hosts - 0.5)
            found[router * hyperx.hosts + host] = x + 0.3 * cos(fan), y + 0.3 * sin(fan)
    return found
