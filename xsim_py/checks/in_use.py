"""The buffers in use by the requests of one rank, sorted for overlap queries."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

FEW = 16
"""Up to this number, checking all buffers is cheaper than sorting them by address."""


class Guarded(Protocol):
    """A buffer in use: the ascending addresses of its pieces, and whether it is only read."""

    reads: bool

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """The start and end address of each piece."""


_Entry = tuple[int, int, int, Any]
"""The first address of a buffer, its end, its number, and the buffer."""


class BuffersInUse(dict[Any, int]):
    """All buffers in use, each with a number that gives the order in which their use began.

    If there are many, those read and those written are sorted by size (a power of two) and address: a buffer that
    overlaps another begins less than its own size before it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._begun = 0
        self._sorted: dict[tuple[bool, int], list[_Entry]] | None = None

    def begin(self, used: Guarded) -> None:
        """Add a buffer."""
        self._begun += 1
        self[used] = self._begun
        if self._sorted is not None:
            self._sort(used)

    def end(self, used: Guarded) -> None:
        """Remove a buffer, if present."""
        number = self.pop(used, None)
        if number is None or self._sorted is None:
            return
        if not self:
            self._sorted = None
            return
        key = self._key(used)
        if key is not None:
            entries = self._sorted[key]
            low, high = _bounds(used.pieces)
            del entries[bisect_left(entries, (low, high, number))]

    def near(self, memory: Any, *, reads: bool) -> Iterable[Any]:
        """Return the buffers that may overlap memory which a call uses; both may be read."""
        if self._sorted is None:
            self._sorted = {}
            for used in self:
                self._sort(used)
        pieces = memory.pieces
        if not pieces:
            return ()
        low, high = _bounds(pieces)
        found: list[_Entry] = []
        for (other_reads, power), entries in self._sorted.items():
            if not (reads and other_reads):
                first = bisect_left(entries, (low - (1 << power),))
                found += (each for each in entries[first : bisect_left(entries, (high,))] if low < each[1])
        return [each[3] for each in sorted(found, key=lambda each: each[2])]

    def _sort(self, used: Guarded) -> None:
        key = self._key(used)
        if key is not None:
            assert self._sorted is not None
            insort(self._sorted.setdefault(key, []), (*_bounds(used.pieces), self[used], used))

    def _key(self, used: Guarded) -> tuple[bool, int] | None:
        """Return the sorting key of a buffer; None if it has too many pieces."""
        if not used.pieces:
            return None
        low, high = _bounds(used.pieces)
        return used.reads, (high - low).bit_length()


def _bounds(pieces: list[tuple[int, int]]) -> tuple[int, int]:
    return pieces[0][0], pieces[-1][1]
