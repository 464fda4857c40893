"""Virtual topologies (MPI 4.1, chapter 8): functions of numbers, and three kinds of values.

Ranks here are those of the communicator that has the topology. Ranks are never reordered, as in MPICH. Errors have the
classes that MPICH reports; if it reports none (a negative dimension), the class is ERR_DIMS.
"""

from __future__ import annotations

import operator
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, prod
from typing import ClassVar

from xsim_py.mpi import constants as c
from xsim_py.mpi.errors import fail

Weights = tuple[int, ...] | None
"""The weights of some edges; None for an unweighted graph."""


# ---------------------------------------------------------------------------------------------- balanced dimensions


def dims_create(nnodes: int, dims: Sequence[int]) -> list[int]:
    """Fill the zeros of `dims` so that the product is `nnodes` (MPI_Dims_create).

    The free dimensions are in non-increasing order and as equal as possible. The standard does not define that; here,
    as in MPICH, it is the smallest difference of the largest and the smallest, and of equal differences the one whose
    smallest dimensions are largest. Raises an `Exception` with ERR_DIMS if a dimension is negative, or the given ones
    do not divide `nnodes`.
    """
    free = sum(dim == 0 for dim in dims)
    given = prod(dim for dim in dims if dim)
    if nnodes < 1 or any(dim < 0 for dim in dims) or nnodes % given:
        fail(c.ERR_DIMS, f"{nnodes} processes in dimensions {list(dims)}")
    if not free:
        return list(dims)
    filled = iter(_balanced(nnodes // given, free))
    return [dim or next(filled) for dim in dims]


def _balanced(number: int, count: int) -> list[int]:
    """Return `count` factors of a number in non-increasing order, as equal as possible."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    divisors = [*small, *(number // d for d in reversed(small) if d * d < number)]
    best: tuple[int, list[int]] = number, []  # difference, negative factors from the smallest on

    def extend(factors: tuple[int, ...], rest: int, left: int) -> None:
        nonlocal best
        if not left:
            if rest == 1:
                best = min(best, (factors[0] - factors[-1], [-each for each in reversed(factors)]))
            return
        for divisor in divisors[bisect(divisors, min(factors[-1], rest)) - 1 :: -1]:
            least = max(factors[0] - best[0], 1)
            if divisor < least or divisor**left < rest:
                return  # no later factor is larger
            if rest % divisor == 0 and divisor * least ** (left - 1) <= rest:
                extend((*factors, divisor), rest // divisor, left - 1)

    for largest in divisors:
        rest = number // largest
        if max(largest - best[0], 1) ** (count - 1) > rest:
            break  # the smallest factor is too small, also with a larger first one
        if largest**count >= number:
            extend((largest,), rest, count - 1)
    return [-each for each in reversed(best[1])]


# --------------------------------------------------------------------------------------------------- Cartesian grids


@dataclass(frozen=True, slots=True)
class Cartesian:
    """A grid of processes, numbered with the last coordinate fastest."""

    kind: ClassVar[int] = c.CART

    dims: tuple[int, ...]
    """Processes along each dimension; an empty tuple is one process."""
    periods: tuple[bool, ...]
    """Whether a dimension is a ring."""

    @property
    def size(self) -> int:
        """The number of processes."""
        return prod(self.dims)

    def check(self, comm_size: int) -> None:
        """Raise an error if a dimension is negative, or the grid is larger than its communicator.

        An empty grid has no members.
        """
        if any(dim < 0 for dim in self.dims):
            fail(c.ERR_DIMS, f"dimensions {list(self.dims)}")
        if self.size > comm_size:
            fail(c.ERR_ARG, f"a grid of {self.size} processes from a communicator of {comm_size}")

    def rank(self, coords: Sequence[int]) -> int:
        """Return the process at some coordinates.

        Those along a ring may be any integers (MPI_Cart_rank).
        """
        rank = 0
        for dim, period, coord in zip(self.dims, self.periods, coords, strict=True):
            if not 0 <= coord < dim:
                if not period:
                    fail(c.ERR_ARG, f"coordinates {list(coords)} are outside of the grid {list(self.dims)}")
                coord %= dim
            rank = rank * dim + coord
        return rank

    def coords(self, rank: int) -> list[int]:
        """Return the coordinates of a process (MPI_Cart_coords)."""
        if not 0 <= rank < self.size:
            fail(c.ERR_RANK, f"rank {rank} of a grid of {self.size}")
        coords = []
        for dim in reversed(self.dims):
            rank, coord = divmod(rank, dim)
            coords.append(coord)
        return coords[::-1]

    def shift(self, rank: int, direction: int, disp: int) -> tuple[int, int]:
        """Return source and destination for a shift by `disp` along a dimension (MPI_Cart_shift)."""
        if not 0 <= direction < len(self.dims):
            fail(c.ERR_ARG, f"direction {direction} of a grid of {len(self.dims)} dimensions")
        return self._step(rank, direction, -disp), self._step(rank, direction, disp)

    def _step(self, rank: int, direction: int, disp: int) -> int:
        coords = self.coords(rank)
        coords[direction] += disp
        if not self.periods[direction] and not 0 <= coords[direction] < self.dims[direction]:
            return c.PROC_NULL
        return self.rank(coords)

    def sub(self, rank: int, remain: Sequence[bool]) -> tuple[int, int, Cartesian]:
        """Return the grid of lower dimension with a process (MPI_Cart_sub).

        Returns the index of the part (to split by), the process's rank in it, and its topology.
        """
        kept = [place for place, stays in enumerate(remain) if stays]
        dropped = [place for place, stays in enumerate(remain) if not stays]
        coords = self.coords(rank)
        part, others = self._only(kept), self._only(dropped)
        return others.rank([coords[i] for i in dropped]), part.rank([coords[i] for i in kept]), part

    def _only(self, places: Sequence[int]) -> Cartesian:
        return Cartesian(tuple(self.dims[i] for i in places), tuple(self.periods[i] for i in places))

    def neighbors(self, rank: int) -> tuple[list[int], list[int]]:
        """Return sources and destinations of neighbourhood collectives: per dimension one step down, then one up.

        Both lists are equal. Data from the neighbour below were sent by it to its neighbour above, and in a ring of two
        or one both are the same process; then only the order distinguishes the messages.
        """
        found = [neighbor for direction in range(len(self.dims)) for neighbor in self.shift(rank, direction, 1)]
        return found, list(found)


# ------------------------------------------------------------------------------------------------------------ graphs


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph that every process knows completely."""

    kind: ClassVar[int] = c.GRAPH

    index: tuple[int, ...]
    """The end of the edges of each node in `edges`."""
    edges: tuple[int, ...]
    """The neighbours of node 0, then those of node 1, and so on."""

    @property
    def size(self) -> int:
        """The number of processes."""
        return len(self.index)

    def check(self, comm_size: int) -> None:
        """Raise an error if this is not a graph, or larger than its communicator."""
        if self.size > comm_size:
            fail(c.ERR_ARG, f"a graph of {self.size} nodes from a communicator of {comm_size} processes")
        ends = (0, *self.index)
        if any(end < start for start, end in zip(ends, self.index, strict=False)):
            fail(c.ERR_ARG, f"the index {list(self.index)} decreases")
        if ends[-1] > len(self.edges):
            fail(c.ERR_ARG, f"the index needs {ends[-1]} edges, there are {len(self.edges)}")
        for edge in self.edges[: ends[-1]]:
            if not 0 <= edge < self.size:
                fail(c.ERR_ARG, f"an edge to node {edge} of {self.size}")

    def of(self, rank: int) -> list[int]:
        """Return the neighbours of any process (MPI_Graph_neighbors)."""
        if not 0 <= rank < self.size:
            fail(c.ERR_RANK, f"rank {rank} of a graph of {self.size} nodes")
        return list(self.edges[self.index[rank - 1] if rank else 0 : self.index[rank]])

    def neighbors(self, rank: int) -> tuple[list[int], list[int]]:
        """Return sources and destinations of neighbourhood collectives."""
        found = self.of(rank)
        return found, list(found)


@dataclass(frozen=True, slots=True)
class DistGraph:
    """A distributed graph as one process knows it: its own edges."""

    kind: ClassVar[int] = c.DIST_GRAPH

    sources: tuple[int, ...]
    """The other ends of incoming edges."""
    destinations: tuple[int, ...]
    """The other ends of outgoing edges."""
    source_weights: Weights = None
    """None for an unweighted graph, like `destination_weights`."""
    destination_weights: Weights = None

    def check(self, comm_size: int) -> None:
        """Raise an error for edges to processes that do not exist, and negative weights."""
        check_edges((*self.sources, *self.destinations), comm_size)
        _check_weights((*(self.source_weights or ()), *(self.destination_weights or ())))

    def neighbors(self, rank: int) -> tuple[list[int], list[int]]:
        """Return sources and destinations of neighbourhood collectives."""
        return list(self.sources), list(self.destinations)


def check_edges(ranks: Sequence[int], comm_size: int, weights: Weights = None) -> None:
    """Raise an error for ends of edges that are not processes, and negative weights.

    As in Open MPI; MPICH fails later.
    """
    for rank in ranks:
        if not 0 <= rank < comm_size:
            fail(c.ERR_ARG, f"an edge at process {rank} of {comm_size}")
    _check_weights(weights or ())


def _check_weights(weights: Sequence[int]) -> None:
    for weight in weights:
        if weight < 0:
            fail(c.ERR_ARG, f"a weight of {weight}")


def weights_of(weights: Sequence[int] | int | None, count: int) -> Weights:
    """Return a program's weights of `count` edges: a list, or UNWEIGHTED, WEIGHTS_EMPTY or None."""
    if weights is None:
        return None
    if isinstance(weights, int):
        if weights == c.UNWEIGHTED:
            return None
        if count:
            raise ValueError("empty weights but nonzero degree")
        return ()
    if len(weights) != count:
        raise ValueError(f"expecting {count} items, got {len(weights)}")
    return tuple(map(operator.index, weights))


def gather_edges(rank: int, contributions: Sequence[Sequence[tuple[int, int, int]]], *, weighted: bool) -> DistGraph:
    """Assemble one process's part of a distributed graph (MPI_Dist_graph_create).

    `contributions` has the edges (source, destination, weight) passed by each process of the communicator, in the order
    of their ranks. Edges keep that order, which MPI leaves open: it must not depend on the order of messages.
    `weighted` tells whether the weights are meaningful.
    """
    edges = [edge for given in contributions for edge in given]
    arriving = [(source, weight) for source, destination, weight in edges if destination == rank]
    leaving = [(destination, weight) for source, destination, weight in edges if source == rank]
    return DistGraph(
        tuple(source for source, _ in arriving),
        tuple(destination for destination, _ in leaving),
        tuple(weight for _, weight in arriving) if weighted else None,
        tuple(weight for _, weight in leaving) if weighted else None,
    )
