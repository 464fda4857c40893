"""Machines that differ in what a packet of a window costs."""

from typing import Any

LAYER = {"bandwidth": "8Gbps", "eager_threshold": "64B"}
OVERHEADS = {"send_overhead": "300ns", "recv_overhead": "700ns", "gap": "400ns"}
TORUS = {"type": "torus", "dims": [2, 2]}

MACHINES: dict[str, dict[str, Any]] = {
    "latency only": {"network": {"latency": "1us"}},
    "overheads": {"network": {**LAYER, **OVERHEADS, "latency": "1us"}},
    "near and far": {
        "machine": {"cores_per_node": 2, "placement": "round_robin", "nodes": 2},
        "network": {**LAYER, "latency": "5us"},
        "same_node": {**LAYER, "latency": "1us", "send_overhead": "100ns"},
    },
    "shared links": {
        "topology": TORUS,
        "network": {**LAYER, **OVERHEADS, "latency": "500ns", "per_hop": "500ns", "contention": "links"},
    },
    "fair shares": {
        "topology": TORUS,
        "network": {**LAYER, **OVERHEADS, "latency": "500ns", "per_hop": "500ns", "contention": "flows"},
    },
}
