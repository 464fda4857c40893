"""Collective operations, one family of algorithms per file, each written once over point-to-point.

`choose` selects the function for a call; ``inter`` and ``neighbor`` hold the operations with a single algorithm.
"""

from __future__ import annotations

from xsim_py.mpi.collectives.channel import Channel, Fold, Handle
from xsim_py.mpi.collectives.choose import REGISTRY, TUNED, choose, choose_name

__all__ = ["REGISTRY", "TUNED", "Channel", "Fold", "Handle", "choose", "choose_name"]
