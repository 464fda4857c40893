"""The cost of a message: overheads, injection, latency, contention.

Functions of numbers, without a run.
"""

from __future__ import annotations

from xsim_py.network.link import Cost, Link
from xsim_py.network.network import Distances, Network, Places, make_network, make_noise

__all__ = ["Cost", "Distances", "Link", "Network", "Places", "make_network", "make_noise"]
