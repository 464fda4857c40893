"""Network jitter: random additions to the latency and the time on the wire of messages.

Jitter only adds: each addition is a fraction of the undisturbed time, drawn from a lognormal distribution. So the
minimum latency of a network is unchanged, and shards look ahead as far as without jitter. A draw depends on the key of
its message, which the sender assigns, not on a position in a sequence: it is the same for any number of shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from statistics import NormalDist
from typing import Final

from xsim_py import rng
from xsim_py.config import NoiseSpec

_BITS: Final = 53
_MASK: Final = (1 << _BITS) - 1
_NORMAL: Final = NormalDist()


class NoiseModel:
    """The random draws of one run."""

    def __init__(self, spec: NoiseSpec, *, seed: int, node_of: Sequence[int]) -> None:
        self._spec = spec  # the medians and the width of the distributions
        self._seed = seed
        self._node_of = node_of  # the node of each rank; see `update_nodes`
        self._nodes: dict[int, float] = {}

    def update_nodes(self, node_of: Sequence[int]) -> None:
        """Take account of more ranks."""
        self._node_of = node_of

    def parts(self, origin: int, to: int, key: int) -> tuple[float, float]:
        """Return the additions to latency and time on the wire of a message, as fractions of them."""
        node = self._node_of[origin]
        if node == self._node_of[to]:
            return 0.0, 0.0
        if node not in self._nodes:
            (self._nodes[node], _) = self._draw("node", node)
        latency, wire = self._draw("message", origin, key)
        spec, of_node = self._spec, (self._spec.nodes or 0.0) * self._nodes[node]
        return (spec.latency or 0.0) * latency + of_node, (spec.bandwidth or 0.0) * wire + of_node

    def _draw(self, *names: str | int) -> tuple[float, float]:
        """Return two independent numbers from the lognormal distribution with median 1."""
        drawn = rng.derive_seed(self._seed, "network noise", *names)
        first, second = (lognormal(self._spec.sigma, part) for part in (drawn, drawn >> 64))
        return first, second


def uniform(bits: int) -> float:
    """Return a number strictly between 0 and 1, from the last 53 of some uniformly distributed bits."""
    return min(((bits & _MASK) + 0.5) / (1 << _BITS), 1 - 2.0**-_BITS)


def lognormal(sigma: float, bits: int) -> float:
    """Return a number from the lognormal distribution with median 1, from uniformly distributed bits."""
    return exp(sigma * _NORMAL.inv_cdf(uniform(bits)))
