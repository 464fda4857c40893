"""Gathers of blocks of any sizes whose result every rank gets, as exchanges in rounds; and exchanges of neighbours.

What a message has is a run of blocks, also where it goes from the last to the first. So how long it is follows from how
many bytes come before each block, and its check sum from those of what comes before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi.checksum import crc32
from xsim_py.mpi.collectives import allgather
from xsim_py.mpi.collectives.channel import EqualBlocks, VariedBlocks

from .formulas import BruckGather, DoublingGather, Gather, RingGather
from .hashing import with_zeros
from .timing import Numbers

__all__ = ["UnequalGather", "unequal_gather"]

_MOST_MESSAGES = 1 << 23
_Memory = tuple[tuple[bytes, ...], list[NDArray[np.uint32]]]


class UnequalGather(Gather):
    """What is the same for all of them.

    Parameters
    ----------
    sizes : sequence of int
        How many bytes each rank has.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__(len(sizes), 0)
        self._lengths = sizes
        self._before = np.array([*accumulate([*sizes, *sizes], initial=0)], np.int64)

    def size_bytes(self, turn: int) -> Any:
        """See `Rounds`."""
        first = self._first(turn)
        return self._before[first + self._blocks(turn)] - self._before[first]

    def sizes(self, turns: range) -> Numbers:
        """See `Rounds`."""
        return np.concatenate([self.size_bytes(turn) for turn in turns])

    def memory(self, contributions: Sequence[bytes], fold: Any) -> _Memory:
        """What ranks have, and the check sums of the first 0, 1, 2 ... blocks when somebody needs them."""
        return tuple(contributions), []

    def checks(self, memory: _Memory, turn: int) -> Any:
        """See `Rounds`, and `hashing.run_checks`."""
        blocks, known = memory
        if not known:
            running = accumulate(blocks * 2, lambda check, block: crc32(block, check), initial=0)
            known.append(np.fromiter(running, np.uint32, 2 * len(blocks) + 1))
        first = self._first(turn)
        return known[0][first + self._blocks(turn)] ^ with_zeros(known[0][first], self.size_bytes(turn))

    def payload(self, memory: _Memory, turn: int, rank: int) -> bytes:
        """See `Rounds`."""
        first = int(self._first(turn)[rank])
        return b"".join((memory[0] * 2)[first : first + self._blocks(turn)])

    def results(self, memory: _Memory) -> list[Any]:
        """See `Rounds`."""
        whole, sizes = b"".join(memory[0]), list(self._lengths)
        if len(set(sizes)) == 1:
            return [EqualBlocks(whole, sizes[0], self.size)] * self.size
        return [VariedBlocks(whole, sizes)] * self.size


class _Ring(UnequalGather, RingGather):
    """Round the ring."""


class _Bruck(UnequalGather, BruckGather):
    """By dissemination."""


class _Doubling(UnequalGather, DoublingGather):
    """By recursive doubling."""


class _Neighbors(UnequalGather):
    """Pairs of blocks go to and fro between neighbours, of which there is an even number."""

    def _rounds(self) -> int:
        return self.size // 2

    def dest(self, turn: int) -> Numbers:
        """See `Rounds`."""
        odd = self.ranks & 1
        return (self.ranks + np.where(odd == turn % 2, 1, -1)) % self.size

    source = dest

    def _blocks(self, turn: int) -> int:
        return 2 if turn else 1

    def _first(self, turn: int) -> Numbers:
        if not turn:
            return self.ranks
        odd = self.ranks & 1  # the pair that came in the round before; each time it is one further away
        found: Numbers = (self.ranks - odd + np.where(odd == turn % 2, -2, 2) * (turn // 2)) % self.size
        return found


_KINDS: dict[Any, Callable[[Sequence[int]], UnequalGather]] = {
    allgather.ring: _Ring,
    allgather.bruck: _Bruck,
    allgather.recursive_doubling: _Doubling,
    allgather.neighbor: _Neighbors,
}


def unequal_gather(algorithm: Callable[..., Any], sizes: Sequence[int]) -> UnequalGather | None:
    """The exchange that an algorithm is, if it is one of those that are known here, and of not too many messages."""
    size = len(sizes)
    kind = _KINDS.get(algorithm)
    if kind is _Doubling and size & (size - 1):
        kind = _Bruck
    if kind is _Neighbors and size & 1:
        kind = _Ring
    if kind is None or size < 2:
        return None
    rounds = kind(sizes)
    return rounds if rounds.rounds * size <= _MOST_MESSAGES else None
