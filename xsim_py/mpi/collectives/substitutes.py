"""The algorithms that others run instead of themselves, so that tables can name them.

As in Open MPI, some algorithms do not support few elements or odd numbers of ranks and run a different one. The
decisions are made in the algorithms (`allreduce.ring` and so on), where readers look for them; they are repeated here
without running them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from xsim_py.mpi.collectives import allgather, allreduce, bcast, reduce
from xsim_py.mpi.collectives.rounds import floor_power

Algorithm: TypeAlias = "Callable[..., Any]"
Rule: TypeAlias = "Callable[[int, int, int], Algorithm]"


def _ring(size: int, size_bytes: int, unit_bytes: int) -> Algorithm:
    return allreduce.recursive_doubling if size_bytes // unit_bytes < size else allreduce.ring


def _segmented_ring(size: int, size_bytes: int, unit_bytes: int) -> Algorithm:
    if size_bytes // unit_bytes <= size * max(allreduce.RING_SEGMENT_BYTES // unit_bytes, 1):
        return _ring(size, size_bytes, unit_bytes)
    return allreduce.segmented_ring


def _rabenseifner(size: int, size_bytes: int, unit_bytes: int) -> Algorithm:
    return allreduce.linear if size_bytes // unit_bytes < floor_power(size) else allreduce.rabenseifner


def _rabenseifner_to_root(size: int, size_bytes: int, unit_bytes: int) -> Algorithm:
    power = floor_power(size)
    return reduce.linear if power < 2 or size_bytes // unit_bytes < power else reduce.rabenseifner


def _split_binary_tree(_: int, size_bytes: int, __: int) -> Algorithm:
    return bcast.chain if size_bytes < 2 else bcast.split_binary_tree


def _scatter_allgather(size: int, size_bytes: int, _: int) -> Algorithm:
    return bcast.linear if size_bytes < size or size == 1 else bcast.scatter_allgather


def _scatter_allgather_ring(size: int, size_bytes: int, _: int) -> Algorithm:
    return bcast.linear if size_bytes < size or size == 1 else bcast.scatter_allgather_ring


def _recursive_doubling(size: int, _: int, __: int) -> Algorithm:
    return allgather.bruck if size & (size - 1) else allgather.recursive_doubling


def _neighbor(size: int, _: int, __: int) -> Algorithm:
    return allgather.ring if size & 1 else allgather.neighbor


SUBSTITUTES: Mapping[Algorithm, Rule] = {
    allreduce.ring: _ring,
    allreduce.segmented_ring: _segmented_ring,
    allreduce.rabenseifner: _rabenseifner,
    reduce.rabenseifner: _rabenseifner_to_root,
    bcast.split_binary_tree: _split_binary_tree,
    bcast.scatter_allgather: _scatter_allgather,
    bcast.scatter_allgather_ring: _scatter_allgather_ring,
    allgather.recursive_doubling: _recursive_doubling,
    allgather.neighbor: _neighbor,
}
"""For each algorithm, the one that runs for a number of ranks, bytes, and bytes per element."""


def final(algorithm: Algorithm, size: int, size_bytes: int = 0, unit_bytes: int = 1) -> Algorithm:
    """Return the algorithm that finally runs if this one was chosen."""
    rule = SUBSTITUTES.get(algorithm)
    return algorithm if rule is None else rule(size, size_bytes, unit_bytes)
