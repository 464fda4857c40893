"""Tori of any dimension, plain or twisted: distances and dimension-order routes in closed form.

A torus is a finite commutative group of translations, so the route from a to b depends only on their difference. In a
plain torus each dimension is an independent ring: min(d, k-d) hops. In a twisted one (Camara et al., IEEE TPDS 21(12),
2010; also called skewed wrap-around), wrapping around one dimension shifts the position in another. A shortest path may
then wrap around more often, to use the shift: we try every number of times that could pay, once per difference, and
cache the result.

Breadth-first search (networkx) finds the same numbers from the whole graph; the tests compare the two.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from xsim_py.config import MachineSpec
from xsim_py.config.contradictions import MOST_TORUS_NODES
from xsim_py.config.value_kinds import DIMENSIONS
from xsim_py.machine.topology import Route, Topology, Wire

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Twist:
    """A twist: wrapping around dimension ``wrap`` upwards shifts by ``by`` nodes in dimension ``shift``."""

    wrap: int
    shift: int
    by: int

    def __str__(self) -> str:
        return f"{'xyzwvu'[self.wrap]} shifts {'xyzwvu'[self.shift]} by {self.by}"


def half_twists(dims: Sequence[int]) -> tuple[Twist, ...]:
    """Return the twists of the rectangular and the prismatic doubly twisted torus.

    Wrapping around each dimension other than x shifts x by half its length.
    """
    return tuple(Twist(wrap, 0, dims[0] // 2) for wrap in range(1, len(dims)))


def fitting_dims(nodes: int, *, half: bool = False) -> tuple[int, int, int]:
    """Return the smallest 3-D torus with at least that number of nodes, at most twice as long as wide.

    Among those with equal numbers of nodes, it has the smallest sum of lengths; longest first. With ``half`` it has the
    form 2a x a x a, for `half_twists`.
    """
    if half:
        a = next(a for a in itertools.count(1) if 2 * a**3 >= nodes)
        return 2 * a, a, a
    best = (nodes * 8, 0, (0, 0, 0))
    for c in itertools.count(1):
        if c**3 > best[0]:  # every torus of this width is larger
            return best[2]
        for b in range(c, 2 * c + 1):
            a = max(b, -(-nodes // (b * c)))
            if a <= 2 * c:
                best = min(best, (a * b * c, a + b + c, (a, b, c)))
    raise AssertionError("itertools.count ends")


class Torus(Topology):
    """An n-dimensional torus; consecutive nodes are neighbours in x.

    `dims` has the length of each dimension; one of length 2 has one link between its two nodes, not two. No dimension
    may be both wrapped by one of the `twists` and shifted by another. `ties` is the choice between two equally long
    routes around a ring without twists: ``up``, or by the rule of ``simgrid``: up if that leads to a higher number, or
    from the upper half of the ring.
    """

    codes: array[int]

    def __init__(self, dims: Sequence[int], *, twists: Iterable[Twist] = (), ties: str = "up") -> None:
        self.dims = tuple(dims)
        self.twists = tuple(twists)
        self._up = ties == "up"
        self.closed_form = not self.twists
        self.layers = tuple(DIMENSIONS[: len(self.dims)])
        self.nodes = math.prod(self.dims)
        self.least_hops = 1 if self.nodes > 1 else 0
        self._hops: dict[int, int] = {0: 0}
        self._runs: dict[int, list[tuple[int, int, int]]] = {}
        self._rings: dict[tuple[int, int, int], list[int]] = {}
        self._strides = [math.prod(self.dims[:dimension]) for dimension in range(len(self.dims))]
        self._wrapped = sorted({twist.wrap for twist in self.twists})
        self.codes = self._make_codes()
        # A twist may give one link two numbers, and SimGrid's ties depend on more than the difference of two nodes.
        self.many_links = 0 if self.twists or not self._up else 2 * len(self.dims) * self.nodes

    @classmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Return the torus that a description defines, or the smallest one that fits.

        See `Topology.of`.
        """
        dims, twist = spec.topology.dims, spec.topology.twist
        if dims is None and nodes > MOST_TORUS_NODES:
            message = f"a torus of {nodes:,} nodes is too large (at most {MOST_TORUS_NODES:,})"
            raise spec.error("machine.cores_per_node", message)
        dims = dims or fitting_dims(nodes, half=twist == "half")
        if isinstance(twist, str):
            return cls(dims, twists=half_twists(dims) if twist == "half" else (), ties=spec.topology.ties or "up")
        return cls(dims, twists=[Twist(entry.wrap, entry.shift, entry.by) for entry in twist])

    def _make_codes(self) -> array[int]:
        """Return a number per node.

        Differences are equal for pairs of nodes in the same relative position. The coordinates are digits of base 2k-1,
        so that their differences, -(k-1) to k-1, do not overlap.
        """
        codes, radix = array("q", [0]), 1
        for length in self.dims:
            # Not a list: that of a torus of millions of nodes would fill the memory.
            codes = array("q", (code + digit * radix for digit in range(length) for code in codes))
            radix *= 2 * length - 1
        return codes

    def coordinates(self, node: int) -> tuple[int, ...]:
        """Return the coordinates of a node, one per dimension."""
        place = []
        for length in self.dims:
            node, at = divmod(node, length)
            place.append(at)
        return tuple(place)

    def hops(self, a: int, b: int, /) -> int:
        """Return the hops of a shortest path from node ``a`` to node ``b``."""
        # Hot path: one subtraction and one look-up. The slow twin is the sum over `steps`.
        codes = self.codes
        key = codes[b] - codes[a]
        found = self._hops.get(key)
        if found is None:
            found = self._hops[key] = sum(map(abs, self.steps(a, b)))
        return found

    def steps(self, a: int, b: int) -> tuple[int, ...]:
        """Return the steps in each dimension, up or (negative) down, of a shortest path.

        Among equally short paths, it is the one with the most steps up in x, then in y, and so on.
        """
        offset = [to - at for at, to in zip(self.coordinates(a), self.coordinates(b), strict=True)]
        windings = [self._windings(offset[wrap], wrap) for wrap in self._wrapped]
        paths = (self._path(offset, times) for times in itertools.product(*windings))
        best = min(paths, key=lambda path: (sum(map(abs, path)), [-step for step in path]))
        if self._up:
            return best
        halves = zip(best, self.coordinates(a), self.coordinates(b), self.dims, strict=True)
        return tuple(
            -step if 2 * step == length and not (to > at or at > length // 2) else step
            for step, at, to, length in halves
        )

    def _windings(self, offset: int, wrap: int) -> range:
        """Return how many times it could pay to wrap around a twisted dimension.

        Without wrapping, the cost is at most this offset plus half of each shifted ring; a path with more steps in this
        dimension alone is longer.
        """
        length = self.dims[wrap]
        most = abs(offset) + sum(self.dims[twist.shift] // 2 for twist in self.twists if twist.wrap == wrap)
        return range(-((most + offset) // length), (most - offset) // length + 1)

    def _path(self, offset: Sequence[int], times: Sequence[int]) -> tuple[int, ...]:
        """Return the steps of the path that wraps around the twisted dimensions that many times."""
        path = list(offset)
        around = dict(zip(self._wrapped, times, strict=True))
        for twist in self.twists:
            path[twist.shift] -= twist.by * around[twist.wrap]
        for dimension, length in enumerate(self.dims):
            if dimension in around:
                path[dimension] += length * around[dimension]
            else:  # the shorter path around the ring, and up if both are equal
                up = path[dimension] % length
                path[dimension] = up if 2 * up <= length else up - length
        return tuple(path)

    def route(self, a: int, b: int, /) -> Route:
        """Return a shortest path in dimension order: all steps in x, then all in y, and so on."""
        route: Route = []
        at = a
        for dimension, count in enumerate(self.steps(a, b)):
            for _ in range(abs(count)):
                to = self.neighbour(at, dimension, 1 if count > 0 else -1)
                route.append((at, to))
                at = to
        return route

    def links_per_layer(self, a: int, b: int, /) -> tuple[int, ...]:
        """Return the number of links in each dimension."""
        return tuple(map(abs, self.steps(a, b)))

    def layer(self, link: Wire, /) -> int:
        """Return the dimension of a link."""
        a, b, *_ = link
        return next(d for d in range(len(self.dims)) if b in (self.neighbour(a, d, 1), self.neighbour(a, d, -1)))

    def wires(self) -> Iterator[Wire]:
        """Yield the upward link of each node in each dimension."""
        seen = set[Wire]()
        for node in range(self.nodes):
            for dimension in range(len(self.dims)):
                to = self.neighbour(node, dimension, 1)
                link = min(node, to), max(node, to)
                if to != node and link not in seen:
                    seen.add(link)
                    yield link

    def bisection(self, bandwidths: Sequence[float], /) -> float | None:
        """Return the bisection bandwidth of a plain torus, of the narrowest cut.

        Return None if it is twisted.
        """
        if self.twists:
            return None
        cuts = [
            (2 if length > 2 else 1) * self.nodes // length * bandwidth
            for length, bandwidth in zip(self.dims, bandwidths, strict=False)
            if length > 1
        ]
        return min(cuts, default=0.0)

    def links(self, a: int, b: int, /) -> list[int] | Route:
        """Return the links of `route`, the last one first; as numbers, if links have numbers.

        Hot path: a slice of a ring for each dimension. `route` is the slow twin.
        """
        if not self.many_links:
            return super().links(a, b)
        codes = self.codes
        key = codes[b] - codes[a]
        runs = self._runs.get(key)
        if runs is None:
            runs = self._runs[key] = [
                (dimension, 1 if count > 0 else -1, abs(count))
                for dimension, count in enumerate(self.steps(a, b))
                if count
            ]
        at = a
        found: list[int] = []
        for dimension, step, count in runs:
            length, stride = self.dims[dimension], self._strides[dimension]
            place = at // stride % length
            start = at - place * stride
            ring = self._rings.get((dimension, step, start)) or self._make_ring(dimension, step, start)
            place = place * step % length
            found += ring[place : place + count]
            at = ring[place + count] - ring[0] + start
        found.reverse()
        return found

    def _make_ring(self, dimension: int, step: int, start: int) -> list[int]:
        """Return the numbers of the links of a ring, twice around."""
        length, stride = self.dims[dimension], self._strides[dimension]
        first = (2 * dimension + (step < 0)) * self.nodes + start
        ring = [first + step * place % length * stride for place in range(length)] * 2
        self._rings[dimension, step, start] = ring
        return ring

    def neighbour(self, node: int, dimension: int, step: int) -> int:
        """Return the node one ``step`` (1 or -1) further in a dimension, twisted at the wrap-around."""
        place = list(self.coordinates(node))
        around, place[dimension] = divmod(place[dimension] + step, self.dims[dimension])
        for twist in self.twists:
            if twist.wrap == dimension:
                place[twist.shift] = (place[twist.shift] + around * twist.by) % self.dims[twist.shift]
        number = 0
        for at, length in zip(reversed(place), reversed(self.dims), strict=True):
            number = number * length + at
        return number

    def diameter(self) -> int:
        """Return the hops between the two farthest nodes; all nodes have the same distances."""
        if not self.twists:
            return sum(length // 2 for length in self.dims)
        return int(self._hops_from_first.max())

    def mean_distance(self) -> float:
        """Return the mean hops over all ordered pairs of different nodes."""
        if self.twists:
            total = int(self._hops_from_first.sum())
        else:  # around a ring of k nodes they add up to k**2 / 4, rounded down
            total = sum(length * length // 4 * self.nodes // length for length in self.dims)
        return total / max(self.nodes - 1, 1)

    @cached_property
    def _hops_from_first(self) -> NDArray[np.int64]:
        """The `hops` from node 0 to every node, computed like `_path` on arrays."""
        import numpy as np  # not at the top: it takes a while to import, and plain tori do not need it

        place = np.indices(self.dims[::-1])[::-1]  # x, which changes fastest, is the last of an array's dimensions
        best = np.full(place.shape[1:], np.iinfo(np.int64).max)
        # From node 0, only the windings up from 0 and down from the farthest offset can pay.
        windings = [
            range(self._windings(self.dims[wrap] - 1, wrap).start, self._windings(0, wrap).stop)
            for wrap in self._wrapped
        ]
        for times in itertools.product(*windings):
            around = dict(zip(self._wrapped, times, strict=True))
            hops = np.zeros_like(best)
            for dimension, length in enumerate(self.dims):
                shifts = (twist.by * around[twist.wrap] for twist in self.twists if twist.shift == dimension)
                steps = place[dimension] - sum(shifts)
                if dimension in around:
                    hops += abs(steps + length * around[dimension])
                else:
                    hops += np.minimum(steps % length, -steps % length)
            np.minimum(best, hops, out=best)
        return best

    def __str__(self) -> str:
        twist = f"twisted: {', '.join(map(str, self.twists))}" if self.twists else "not twisted"
        return f"{'x'.join(map(str, self.dims))} torus, {twist}"
