"""The buffers that the requests of one rank use, and which of them may be near other memory."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

FEW = 16
"""It takes less to look at this number of buffers than to sort them by address."""


class Guarded(Protocol):
    """A buffer in use: the addresses between which its pieces lie, in ascending order, and whether it is only read."""

    reads: bool

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """The addresses, from and to."""


_Entry = tuple[int, int, int, Any]
"""The first address of a buffer, the end, the buffer's number, and the buffer."""


class BuffersInUse(dict[Any, int]):
    """All buffers in use, each with its number in the order in which their use began.

    Where they are many, those that are read and those that are written are sorted by size (a power of two) and address:
    a buffer that overlaps another one begins less than its own size before that.
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
        """Remove a buffer, if it is among these."""
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
        """Return the buffers that may overlap memory which a call uses; two may read the same."""
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
        """Return where a buffer is sorted; None of one whose pieces are too many to tell."""
        if not used.pieces:
            return None
        low, high = _bounds(used.pieces)
        return used.reads, (high - low).bit_length()


def _bounds(pieces: list[tuple[int, int]]) -> tuple[int, int]:
    return pieces[0][0], pieces[-1][1]
