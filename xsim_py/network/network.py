"""Network models: their interface, and their registration by name."""

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
"""The class of each ``network.model``. Add a new one here and in `config.description`."""


class Distances(Protocol):
    """The distances between nodes, as a network model needs them (see `xsim_py.machine.Topology`)."""

    @property
    def equally_far(self) -> bool:
        """True if any two different nodes are equally far apart."""
        ...

    @property
    def codes(self) -> array[int] | None:
        """A number per node: the difference of two of them determines the distance of their nodes."""
        ...

    @property
    def least_hops(self) -> int:
        """The hops between the two nearest nodes."""
        ...

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        ...

    @property
    def host_ports(self) -> int:
        """The number of layers of links of the nodes themselves, which are the last ones."""
        ...

    @property
    def shared_first_link(self) -> bool:
        """True if all messages of a rank to other nodes share their first link."""
        ...

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers of links."""
        ...

    @property
    def link_parameters(self) -> tuple[tuple[Fraction, int], ...] | None:
        """Picoseconds per byte and picoseconds of latency of each layer.

        Return None if all links are equal.
        """
        ...

    def layer(self, link: tuple[int, ...], /) -> int:
        """Return the index of a link's layer."""
        ...

    def partner(self, link: tuple[int, ...], /) -> tuple[int, ...]:
        """Return the link in the opposite direction of a node's NIC."""
        ...

    def links_per_layer(self, a: int, b: int, /) -> tuple[int, ...]:
        """Return the number of links per layer from node ``a`` to node ``b``."""
        ...

    def hops(self, a: int, b: int, /) -> int:
        """Return the hops from node ``a`` to node ``b``."""
        ...

    def diameter(self) -> int:
        """Return the hops between the two farthest nodes."""
        ...


class Places(Protocol):
    """The placement of ranks on a machine, as a network model needs it (see `xsim_py.machine.Machine`)."""

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
        """The number of ranks per node."""
        ...

    @property
    def topology(self) -> Distances:
        """The distances between nodes."""
        ...


class Network(Protocol):
    """A network model: message costs, the lookahead of shards, and shared links.

    Attributes
    ----------
    equally_far : bool
        Whether a message costs the same between any two different ranks.
    uniform : dict
        The costs computed so far, as `Link.cache`, if ranks are `equally_far`; else empty.
    """

    equally_far: bool
    uniform: dict[int, Cost]

    def link(self, source: int, dest: int, /) -> Link:
        """Return the costs from one rank to another; pairs with equal costs share one object."""
        ...

    def longest(self) -> Link:
        """Return the costs with the longest latency, between two nodes or within a node."""
        ...

    def min_latency_ps(self, blocks: Sequence[range] | None = None) -> int:
        """Return the smallest latency, above zero, between ranks of different blocks: the lookahead.

        Parameters
        ----------
        blocks
            The ranks of each shard; None: one rank per block.
        """
        ...

    def latencies_ps(self, blocks: Sequence[range]) -> list[list[int]]:
        """Return the smallest latency between any two of these blocks.

        Their minimum is `min_latency_ps`.
        """
        ...

    @property
    def in_order(self) -> bool:
        """True if messages between two ranks arrive in order by themselves."""
        ...

    @property
    def nearest_ps(self) -> int:
        """The smallest latency between two nodes, also without ranks.

        If there is only one node, it is the smallest latency within it.
        """
        ...

    def contention(self) -> LinkContention | FairContention | None:
        """Return a new contention model of the links, or None if messages share no links."""
        ...

    def unshared(self, source: int, dest: int, /) -> Link:
        """Return the costs from one rank to another without the links that messages share, if any."""
        ...

    def update_nodes(self, node_of: Sequence[int]) -> None:
        """Take account of more ranks, and possibly more nodes; existing costs stay the same."""
        ...


def make_network(spec: MachineSpec, *, places: Places) -> Network:
    """Return the network that a description defines, for this placement of ranks."""
    module, _, cls = MODELS["loggp" if spec.network is None else spec.network.model].partition(":")
    made: Network = getattr(import_module(module), cls)(spec, places=places)
    return made


def make_noise(spec: MachineSpec, *, seed: int, node_of: Sequence[int]) -> NoiseModel | None:
    """Return the jitter that ``network.noise`` of a description defines, or None."""
    if spec.network is None or spec.network.noise is None:
        return None
    from xsim_py.network.noise import NoiseModel  # most machines have none

    return NoiseModel(spec.network.noise, seed=seed, node_of=node_of)
