"""Some algorithms choose another one by themselves; this says which one runs then, so that a table can name it.

Some have no use for few elements or for odd numbers of ranks, and go by another one, as in Open MPI. They decide where
they stand (`allreduce.ring` and so on), where a reader looks for it; here it is said once more without running them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from xsim_py.mpi.collectives import allgather, allreduce, bcast, reduce
from xsim_py.mpi.collectives.channel import floor_power

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
"""For each of them what runs on so many ranks, with so many bytes, in elements of so many."""


def final(algorithm: Algorithm, size: int, size_bytes: int = 0, unit_bytes: int = 1) -> Algorithm:
    """Return what runs in the end where this algorithm was chosen."""
    rule = SUBSTITUTES.get(algorithm)
    return algorithm if rule is None else rule(size, size_bytes, unit_bytes)
