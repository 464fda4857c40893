"""Lines that have to wait, in a temporary file: a rank may print for ever before another one's turn comes.

A sorted run of lines is kept in blocks, and one block of each is read at a time. The file has no name, and goes with
this process. A rank may be running that has other file calls than the simulator (`process.files.file_calls`).
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

from .simulator_descriptors import far_up

LIMIT_BYTES: Final = 1 << 30
"""At most so much is kept at a time."""

LIMIT_ELSEWHERE_BYTES: Final = 1 << 28
"""A process of a real MPI that has to send its lines to another one, at once, keeps at most so much."""

Line = tuple[int, int, int, int, "str | SpilledText"]
"""``(clock_ps, rank, count, stream, text)``; the first three order them, and tell any two of them apart."""

LINE_COST: Final = 100
"""A line needs so many characters besides its text."""

Key = tuple[int, int, int]

_BLOCK: Final = 1 << 18  # characters

_pwrite, _pread = os.pwrite, os.pread  # the real ones: those of `os` are replaced while a run lasts


class Spill:
    """A temporary file that takes pieces of data, and gives each back once."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._file: BinaryIO | None = None
        self._end = 0
        self._live = 0

    def keep(self, lines: Sequence[Line]) -> SpilledRun:
        """Put sorted lines into the file; return them as a run.

        Raises
        ------
        OSError
            There is no more room, by the limit or on the disk.
        """
        return SpilledRun(self, [(block[0][:3], self.put(pickle.dumps(block, -1))) for block in _blocks(lines)])

    def put(self, data: bytes) -> tuple[int, int]:
        """Take bytes; return where they are and how many."""
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
        """Give bytes back, once: there is room for others when all have gone."""
        assert self._file is not None
        data = _pread(self._file.fileno(), place[1], place[0])
        self._live -= place[1]
        if self._live == 0:
            self._end = 0
            self._file.truncate(0)
        return data


def _unnamed_file() -> BinaryIO:
    with current.outside(), tempfile.TemporaryFile(buffering=0) as file:
        return open(far_up(file.fileno()), "r+b", buffering=0)


def _blocks(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Yield the lines in pieces, so small that one of each of many runs can be in memory."""
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
    """Lines in the file, in order, which are taken from the first on."""

    def __init__(self, spill: Spill, blocks: Iterable[tuple[Key, tuple[int, int]]]) -> None:
        self._spill = spill
        self._blocks = deque(blocks)
        self._lines: deque[Line] = deque()

    def first(self) -> Key | None:
        """Return the key of the first line, if any is left, without reading the file."""
        if self._lines:
            return self._lines[0][:3]
        return self._blocks[0][0] if self._blocks else None

    def pop(self) -> Line:
        """Take the first line away."""
        if not self._lines:
            self._lines.extend(pickle.loads(self._spill.get(self._blocks.popleft()[1])))
        return self._lines.popleft()

    def __iter__(self) -> Iterator[Line]:
        while self.first() is not None:
            yield self.pop()

    def __reduce__(self) -> Any:
        """Pass it on as it is: it is as good in another shard of this process."""
        return _arrived, (_leaves(self),)


class SpilledText:
    """A long text, the beginning of which is in the file."""

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

    def __reduce__(self) -> Any:
        return _arrived, (_leaves(self),)


_on_the_way: dict[int, Any] = {}
"""Things that have been pickled wait here to be unpickled: each once, in this same process."""


def _leaves(thing: Any) -> int:
    _on_the_way[id(thing)] = thing
    return id(thing)


def _arrived(number: int) -> Any:
    return _on_the_way.pop(number)


def drop_unclaimed() -> None:
    """Forget, at the end of a run, what it has sent and nobody took: it would keep the file."""
    _on_the_way.clear()


def text_of(text: str | SpilledText) -> str:
    """Return the whole text, in memory."""
    return text if isinstance(text, str) else "".join(text)
