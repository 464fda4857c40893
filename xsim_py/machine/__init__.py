"""Nodes, their topology, and the placement of ranks. Functions of numbers, without a run."""

from __future__ import annotations

from xsim_py.machine.machine import Machine
from xsim_py.machine.shards import shard_blocks
from xsim_py.machine.topology import Route, Single, Switch, Topology
from xsim_py.machine.universe import Universe

__all__ = ["Machine", "Route", "Single", "Switch", "Topology", "Universe", "shard_blocks"]
