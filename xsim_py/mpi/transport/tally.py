"""Counts of the messages and bytes that each rank sent, by destination.

A counter in an attribute of each rank costs a few cache misses per message if there are many ranks, because every count
is an object somewhere in memory. So a send appends three numbers to a log, which NumPy adds up when it is long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

_CLASS_BITS = 6
_MOST_PIECES = 32
_MOST_OFTEN = 64
_EXACT = 1 << 53
"""All integers up to here are exact as floats."""

Numbers: TypeAlias = NDArray[np.int64]


class Sends(Protocol):
    """Many sends: three arrays of equal length, and their sums."""

    @property
    def origin(self) -> Numbers:
        """The sender of each, as a world rank."""

    @property
    def dest(self) -> Numbers:
        """The destination of each, as a world rank."""

    @property
    def size_bytes(self) -> Numbers:
        """The size of each."""

    def sums(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return the distinct senders, and the number of messages and bytes of each."""


class Tally:
    """The counts of the sends of a block of ranks."""

    def __init__(self, block: range, *, pairs: bool) -> None:
        # For each send its origin, its destination and its size in bytes; call `add_up` when it gets long.
        self.log: list[int] = []
        # The time that each rank has waited for messages. Not an array, which creates an integer for each access.
        self.waited_ps = [0] * len(block)
        self._block = block  # the sending world ranks
        self._later: list[int] = []
        self._messages: NDArray[np.int64] = np.zeros(len(block), np.int64)
        self._bytes: NDArray[np.int64] = np.zeros(len(block), np.int64)
        # Per pair of ranks and size class; None: not counted.
        self._pairs: list[tuple[Numbers, Numbers, Numbers]] | None = [] if pairs else None
        self._often: dict[Any, int] = {}

    def grow(self, numbers: Sequence[int]) -> None:
        """Count for additional ranks, with larger numbers."""
        self.add_up()
        self._later += numbers
        self.waited_ps += [0] * len(numbers)
        self._messages = np.append(self._messages, np.zeros(len(numbers), np.int64))
        self._bytes = np.append(self._bytes, np.zeros(len(numbers), np.int64))

    def add_up(self) -> None:
        """Add the log to the totals and clear it."""
        del self.log[len(self.log) // 3 * 3 :]  # a signal may have ended the run in the middle of an entry
        if not self.log:
            return
        entries = np.array(self.log, np.int64).reshape(-1, 3)
        self.log.clear()
        senders, dests, sizes = entries.T
        places = self._places(senders)
        self._messages += np.bincount(places, minlength=len(self._messages))
        self._bytes += summed(places, sizes, len(self._bytes))
        self._add_pairs(senders, dests, sizes, 1)

    def add(self, sends: Sends) -> None:
        """Count many sends at once.

        Pass the same object for equal sends, which are summed only once.
        """
        if len(self._often) >= _MOST_OFTEN:  # they may belong to communicators that no longer exist
            self._count_often()
        # The sends of a vectorised collective are the same object in each call, so they are summed once and multiplied.
        self._often[sends] = self._often.get(sends, 0) + 1

    def add_once(self, sends: Sends) -> None:
        """Count sends that do not repeat, without keeping them."""
        self._count(sends, 1)

    def _places(self, senders: Numbers) -> Numbers:
        """Return the indices of ranks in the counts."""
        origins = senders - self._block.start
        if self._later:
            places = len(self._block) + np.searchsorted(self._later, senders)
            origins = np.where(senders < self._block.stop, origins, places)
        return origins

    def _add_pairs(self, senders: Numbers, dests: Numbers, sizes: Numbers, times: int) -> None:
        if self._pairs is not None:
            # The exponent of a float is the number of bits of the integer, exactly up to 2**53.
            ends = senders << 32 | dests
            classes = np.frexp(sizes.astype(float))[1].astype(np.int64)
            slots, which, counts = np.unique(ends << _CLASS_BITS | classes, return_inverse=True, return_counts=True)
            self._pairs.append((slots, counts * times, summed(which, sizes, len(slots)) * times))
            if len(self._pairs) > _MOST_PIECES:
                self._pairs = [self._joined()]

    def _joined(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return each slot once, in order, with its messages and bytes."""
        if not self._pairs:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
        if len(self._pairs) == 1:
            return self._pairs[0]
        every, counts, sizes = (np.concatenate(column) for column in zip(*self._pairs, strict=True))
        slots, which = np.unique(every, return_inverse=True)
        return slots, summed(which, counts, len(slots)), summed(which, sizes, len(slots))

    def _total(self) -> None:
        self.add_up()
        self._count_often()

    def _count_often(self) -> None:
        for sends, times in self._often.items():
            self._count(sends, times)
        self._often.clear()

    def _count(self, sends: Sends, times: int) -> None:
        senders, messages, sent_bytes = sends.sums()
        places = self._places(senders)
        self._messages[places] += times * messages
        self._bytes[places] += times * sent_bytes
        if self._pairs is not None:
            self._add_pairs(sends.origin, sends.dest, sends.size_bytes, times)

    def messages(self) -> list[int]:
        """Return the number of messages that each rank of the block sent."""
        self._total()
        return _listed(self._messages)

    def sent_bytes(self) -> list[int]:
        """Return the number of bytes that each rank of the block sent."""
        self._total()
        return _listed(self._bytes)

    def pairs(self) -> Numbers:
        """Return rows of source, destination, size class, messages and bytes.

        Class k has the sizes of k bits, from 2**(k-1). Rows are unique in the first three, and sorted by them.
        """
        self._total()
        slots, *sums = self._joined()
        ends = slots >> 32 + _CLASS_BITS, slots >> _CLASS_BITS & 0xFFFFFFFF
        return np.stack((*ends, slots & (1 << _CLASS_BITS) - 1, *sums), axis=1)


def summed(places: Numbers, numbers: Numbers, size: int) -> Numbers:
    """Return the sum of the numbers at each of `size` indices."""
    if len(numbers) and int(numbers.max()) * len(numbers) < _EXACT:  # a tenth of the time
        return np.bincount(places, numbers, size).astype(np.int64)
    total = np.zeros(size, np.int64)
    np.add.at(total, places, numbers)
    return total


def _listed(numbers: NDArray[Any]) -> list[int]:
    listed: list[int] = numbers.tolist()
    return listed
