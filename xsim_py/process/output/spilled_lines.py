"""Held-back lines in a temporary file: a rank may print indefinitely before the next rank's turn.

A sorted run of lines is stored in blocks, of which one at a time is read. The file has no name and is deleted with this
process. The running rank's file calls may differ from the simulator's (`process.files.file_calls`).
"""

from __future__ import annotations

import errno
import os
import pickle
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final

from xsim_py.process.ranks import current

from .simulator_descriptors import high_number

LIMIT_BYTES: Final = 1 << 30
"""The maximum amount kept at a time."""

LIMIT_ELSEWHERE_BYTES: Final = 1 << 28
"""The limit for a process of a real MPI, which has to send all its lines to a different process at once."""

Line = tuple[int, int, int, int, "str | SpilledText"]
"""``(clock_ps, rank, count, stream, text)``; the first three are unique and define the order."""

LINE_COST: Final = 100
"""The memory of a line in addition to its text, in characters."""

Key = tuple[int, int, int]

_BLOCK: Final = 1 << 18  # characters

_pwrite, _pread = os.pwrite, os.pread  # the real ones: those of `os` are replaced during a run


class Spill:
    """A temporary file from which each stored piece of data is read once."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._file: BinaryIO | None = None
        self._end = 0
        self._live = 0

    def keep(self, lines: Sequence[Line]) -> SpilledRun:
        """Store sorted lines in the file; return them as a run.

        Raises an `OSError` if there is no more room, by the limit or on the disk.
        """
        return SpilledRun(self, [(block[0][:3], self.put(pickle.dumps(block, -1))) for block in _blocks(lines)])

    def put(self, data: bytes) -> tuple[int, int]:
        """Store bytes; return their offset and length."""
        if self._live + len(data) > self.limit_bytes:
            raise OSError(
                errno.EFBIG, f"more than {self.limit_bytes >> 20:,} MiB are held back in the temporary directory"
            )
        if self._file is None:
            self._file = _unnamed_file()
        place = self._end
        self._end += len(data)
        self._live += len(data)
        rest = memoryview(data)
        while rest:
            done = _pwrite(self._file.fileno(), rest, self._end - len(rest))
            rest = rest[done:]
        return place, len(data)

    def get(self, place: tuple[int, int]) -> bytes:
        """Return stored bytes, once; the file is truncated when all have been read."""
        assert self._file is not None
        data = _pread(self._file.fileno(), place[1], place[0])
        self._live -= place[1]
        if self._live == 0:
            self._end = 0
            self._file.truncate(0)
        return data


def _unnamed_file() -> BinaryIO:
    with current.outside(), tempfile.TemporaryFile(buffering=0) as file:
        return open(high_number(file.fileno()), "r+b", buffering=0)


def _blocks(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Yield the lines in blocks small enough that one block of each of many runs fits into memory."""
    block: list[Line] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line[4]) + LINE_COST
        if size > _BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


class SpilledRun:
    """Lines in the file, in order, which are removed from the front."""

    def __init__(self, spill: Spill, blocks: Iterable[tuple[Key, tuple[int, int]]]) -> None:
        self._spill = spill
        self._blocks = deque(blocks)
        self._lines: deque[Line] = deque()

    def first(self) -> Key | None:
        """Return the key of the first remaining line, or None, without reading the file."""
        if self._lines:
            return self._lines[0][:3]
        return self._blocks[0][0] if self._blocks else None

    def pop(self) -> Line:
        """Remove and return the first line."""
        if not self._lines:
            self._lines.extend(pickle.loads(self._spill.get(self._blocks.popleft()[1])))
        return self._lines.popleft()

    def __iter__(self) -> Iterator[Line]:
        while self.first() is not None:
            yield self.pop()

    def __reduce__(self) -> tuple[object, ...]:
        """Pass the object itself on, which is valid in other shards of this process."""
        return _arrived, (_leaves(self),)


class SpilledText:
    """A long text whose beginning is in the file."""

    def __init__(self, spill: Spill, places: Sequence[tuple[int, int]], end: str) -> None:
        self._spill = spill
        self._places = places
        self._end = end

    def __len__(self) -> int:
        return len(self._end)

    def __iter__(self) -> Iterator[str]:
        for place in self._places:
            yield self._spill.get(place).decode("utf-8", "surrogateescape")
        yield self._end

    def __reduce__(self) -> tuple[object, ...]:
        return _arrived, (_leaves(self),)


_on_the_way: dict[int, Any] = {}
"""Pickled objects waiting to be unpickled: each once, in this same process."""


def _leaves(thing: object) -> int:
    _on_the_way[id(thing)] = thing
    return id(thing)


def _arrived(number: int) -> object:
    return _on_the_way.pop(number)


def drop_unclaimed() -> None:
    """Forget objects that a run has sent but no shard received; they would keep the file open."""
    _on_the_way.clear()


def text_of(text: str | SpilledText) -> str:
    """Return the complete text, in memory."""
    return text if isinstance(text, str) else "".join(text)
