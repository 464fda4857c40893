"""The network models: what each of them has to answer, and by which name a description asks for one."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from xsim_py.config import MachineSpec
from xsim_py.network.link import Cost, Link

if TYPE_CHECKING:
    from xsim_py.network.contention import LinkContention
    from xsim_py.network.fair_contention import FairContention
    from xsim_py.network.noise import NoiseModel

MODELS = {"loggp": "xsim_py.network.layered:LayeredNetwork"}
"""Where the class of each ``network.model`` is. A new one is entered here and in `config.description`."""


class Distances(Protocol):
    """How far the nodes of a machine are apart, as a network model needs it (`xsim_py.machine.Topology` is one)."""

    @property
    def equally_far(self) -> bool:
        """True if any two different nodes are equally far apart."""
        ...

    @property
    def codes(self) -> array[int] | None:
        """A number for each node, such that the difference of two of them says how far these nodes are apart."""
        ...

    @property
    def least_hops(self) -> int:
        """The hops between the two nearest of its nodes."""
        ...

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        ...

    @property
    def doors(self) -> int:
        """How many of the layers of links, the last ones, are of the nodes themselves."""
        ...

    @property
    def one_way_out(self) -> bool:
        """True if all that a rank sends to other nodes goes over one link first."""
        ...

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers of links."""
        ...

    @property
    def figures(self) -> tuple[tuple[Fraction, int], ...] | None:
        """Picoseconds of a byte and of latency for each layer; None where all links are alike."""
        ...

    def layer(self, link: tuple[int, ...], /) -> int:
        """Return the place of a link's layer."""
        ...

    def partner(self, link: tuple[int, ...], /) -> tuple[int, ...]:
        """Return the link of the other direction of a node's network interface."""
        ...

    def ways(self, a: int, b: int, /) -> tuple[int, ...]:
        """Return how many links of each layer there are from node ``a`` to node ``b``."""
        ...

    def hops(self, a: int, b: int, /) -> int:
        """Return the hops from node ``a`` to node ``b``."""
        ...

    def diameter(self) -> int:
        """Return the hops between the two nodes that are farthest apart."""
        ...


class Places(Protocol):
    """Where the ranks of a machine are, as a network model needs it (`xsim_py.machine.Machine` is one)."""

    @property
    def node_of(self) -> Sequence[int]:
        """The node of each rank."""
        ...

    @property
    def core_of(self) -> Sequence[int]:
        """The core of each rank in its node."""
        ...

    @property
    def cores_per_node(self) -> int:
        """How many ranks fit on a node."""
        ...

    @property
    def topology(self) -> Distances:
        """How far the nodes are apart."""
        ...


class Network(Protocol):
    """A network model: it tells the cost of a message, how far shards may look ahead, and what is shared.

    Attributes
    ----------
    equally_far : bool
        Whether a message costs the same between any two different ranks.
    uniform : dict
        The costs of sizes asked before, where ranks are `equally_far`, as `Link.cache`; else empty.
    """

    equally_far: bool
    uniform: dict[int, Cost]

    def link(self, source: int, dest: int, /) -> Link:
        """Return the costs from one rank to another; the same object for all pairs that cost the same."""
        ...

    def longest(self) -> Link:
        """Return the costs between the two nodes with the longest latency, or within one if that takes longer."""
        ...

    def min_latency_ps(self, blocks: Sequence[range] | None = None) -> int:
        """Return the smallest latency between ranks of different blocks, above zero: how far a shard may look ahead.

        Parameters
        ----------
        blocks
            The ranks of each shard; None puts every rank in a block of its own.
        """
        ...

    def latencies_ps(self, blocks: Sequence[range]) -> list[list[int]]:
        """Return the smallest latency between any two of these blocks; their least is `min_latency_ps`."""
        ...

    @property
    def in_order(self) -> bool:
        """True if no message can come before an earlier one of the same rank to the same one by itself."""
        ...

    @property
    def nearest_ps(self) -> int:
        """The smallest latency between two nodes, also those without ranks; within a node where there is but one."""
        ...

    def contention(self) -> LinkContention | FairContention | None:
        """Return a fresh account of who uses which link when, or None if messages share no links."""
        ...

    def unshared(self, source: int, dest: int, /) -> Link:
        """Return the costs from one rank to another without the links that messages share, if they share any."""
        ...

    def follow(self, node_of: Sequence[int]) -> None:
        """Learn that there are more ranks, and perhaps more nodes; what there was costs what it did."""
        ...


def make_network(spec: MachineSpec, *, places: Places) -> Network:
    """Make the network that a description asks for, between ranks at these places."""
    module, _, cls = MODELS["loggp" if spec.network is None else spec.network.model].partition(":")
    made: Network = getattr(import_module(module), cls)(spec, places=places)
    return made


def make_noise(spec: MachineSpec, *, seed: int, node_of: Sequence[int]) -> NoiseModel | None:
    """Return what the description's ``network.noise`` asks for; None: there is none."""
    if spec.network is None or spec.network.noise is None:
        return None
    from xsim_py.network.noise import NoiseModel  # most machines have none

    return NoiseModel(spec.network.noise, seed=seed, node_of=node_of)
