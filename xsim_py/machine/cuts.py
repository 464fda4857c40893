"""The maximum flow between two halves of a machine that has no closed form for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import networkx

from xsim_py.machine.topology import Topology


def flow_between_halves(topology: Topology, bandwidths: Sequence[float]) -> float:
    """Return the maximum flow from the first half of the nodes to the second, by node number.

    All links of the topology count, even those that no route uses. `bandwidths` are those of its layers of links.
    """
    widths = topology.widths or (1,) * len(bandwidths)
    graph: networkx.DiGraph[Any] = networkx.DiGraph()
    for link in topology.wires():
        layer = topology.layer(link)
        for a, b in ((link[0], link[1]), (link[1], link[0])):
            before = graph.get_edge_data(a, b, {"capacity": 0.0})["capacity"]
            graph.add_edge(a, b, capacity=before + bandwidths[layer] * widths[layer])
    half = topology.nodes // 2
    graph.add_edges_from(("source", node) for node in range(half))
    graph.add_edges_from((node, "sink") for node in range(half, topology.nodes))
    if half == 0 or any(math.isinf(bandwidth) for bandwidth in bandwidths):
        return 0.0 if half == 0 else math.inf
    return float(networkx.maximum_flow_value(graph, "source", "sink"))
