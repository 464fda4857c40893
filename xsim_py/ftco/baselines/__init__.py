"""Other fault-tolerant algorithms in the formal model, for comparison with FTCO.

``hierarchical``
    FTCO between the leaders of groups that share memory.
``gossip``
    Corrected gossip (Hoefler, Barak, Shiloh, Drezner: "Corrected Gossip Algorithms for Fast Reliable Broadcast on
    Unreliable Systems", IPDPS 2017), a broadcast.
``rerouting``, ``lookup_avoiding``, ``rebalancing``
    The trees of Hursey and Graham ("Preserving collective performance across process failure for a fault tolerant
    MPI", HIPS 2011), which know all failed nodes at the start.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from xsim_py.ftco.model import Configuration, Outcome, Plan

from .engine import Process, StepEngine
from .gossip import corrected_gossip
from .hierarchy import run_hierarchical
from .trees import survivor_tree

_ALGORITHMS: Final[dict[str, Callable[[int, StepEngine], Process]]] = {
    "gossip": corrected_gossip,
    **{name: partial(survivor_tree, name) for name in ("rerouting", "lookup_avoiding", "rebalancing")},
}


def run_baseline(configuration: Configuration, plan: Plan) -> Outcome:
    """Run the configuration's algorithm once, with given random draws."""
    if configuration.algorithm == "hierarchical":
        return run_hierarchical(configuration, plan)
    return StepEngine(configuration, plan, _ALGORITHMS[configuration.algorithm]).run()


__all__ = ["StepEngine", "run_baseline"]
