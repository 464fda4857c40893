"""Two-level fat trees: nodes on leaf switches, and each leaf on every spine.

A message goes up and down again. Which spine it crosses depends on the node that it is for and nothing else, as where
each switch has one table (D-mod-k: Zahavi, Johnson, Kerbyson, Lang, "Optimized InfiniBand fat-tree routing for shift
all-to-all communication patterns", Concurrency and Computation 22(2), 2010).
"""

from __future__ import annotations

from xsim_py.config import MachineSpec
from xsim_py.machine.topology import Route, Topology


class FatTree(Topology):
    """A two-level fat tree; consecutive nodes are on one leaf. After the nodes come the leaves, and then the spines.

    Parameters
    ----------
    leaves
        How many leaf switches there are.
    nodes_per_leaf
        How many nodes are on each of them.
    spines
        How many switches each leaf has a link to.
    """

    def __init__(self, leaves: int, nodes_per_leaf: int, spines: int) -> None:
        self.leaves, self.nodes_per_leaf, self.spines = leaves, nodes_per_leaf, spines
        self.nodes = leaves * nodes_per_leaf
        self.least_hops = 2 if nodes_per_leaf > 1 else self.diameter()

    @classmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Make the tree that a description asks for; where that leaves the leaves open, as many as the ranks need."""
        wanted = spec.topology
        assert wanted.nodes_per_leaf is not None  # the rules of the description see to that
        leaves = wanted.leaves or -(-nodes // wanted.nodes_per_leaf)
        return cls(leaves, wanted.nodes_per_leaf, wanted.spines or wanted.nodes_per_leaf)

    def hops(self, a: int, b: int, /) -> int:
        """Return 2 on one leaf and 4 across leaves, or 0 to the node itself."""
        if a == b:
            return 0
        return 2 if a // self.nodes_per_leaf == b // self.nodes_per_leaf else 4

    def route(self, a: int, b: int, /) -> Route:
        """Go up only as far as needed; across leaves, over the spine that belongs to node ``b``."""
        if a == b:
            return []
        up, down = (self.nodes + node // self.nodes_per_leaf for node in (a, b))
        if up == down:
            return [(a, up), (up, b)]
        spine = self.nodes + self.leaves + b % self.spines
        return [(a, up), (up, spine), (spine, down), (down, b)]

    def diameter(self) -> int:
        """Return 4 when there are two leaves, else 2 when there are two nodes."""
        if self.leaves > 1:
            return 4
        return 2 if self.nodes > 1 else 0

    def mean_distance(self) -> float:
        """Return the mean over all pairs; each node sees the same distances."""
        near, far = self.nodes_per_leaf - 1, self.nodes - self.nodes_per_leaf
        return (2 * near + 4 * far) / max(self.nodes - 1, 1)

    def __str__(self) -> str:
        spines = f"{self.spines} spine{'s' if self.spines > 1 else ''}"
        return f"fat tree of {self.leaves} x {self.nodes_per_leaf} nodes, {spines}"
