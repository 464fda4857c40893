"""The topologies that a machine description may name.

Add a new one here and in `config.description`.
"""

from __future__ import annotations

from importlib import import_module

from xsim_py.machine.topology import Topology

TOPOLOGIES = {
    "single": "xsim_py.machine.topology:Single",
    "switch": "xsim_py.machine.topology:Switch",
    "torus": "xsim_py.machine.torus:Torus",
    "fattree": "xsim_py.machine.fat_tree:FatTree",
    "dragonfly": "xsim_py.machine.dragonfly:Dragonfly",
    "cascade": "xsim_py.machine.dragonfly:Cascade",
    "hyperx": "xsim_py.machine.hyperx:HyperX",
    "graph": "xsim_py.machine.graph:GraphTopology",
}
"""The class of each ``topology.type``."""


def topology_class(name: str) -> type[Topology]:
    """Import and return the class of that name.

    That of graphs may need networkx, which takes a while.
    """
    module, _, cls = TOPOLOGIES[name].partition(":")
    found: type[Topology] = getattr(import_module(module), cls)
    return found
