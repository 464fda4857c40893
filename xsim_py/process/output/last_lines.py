"""The last lines of a process, in shared memory, from which another process reads them if it is killed.

A process sends its ranks' output after each window. Until then the lines are here as well.
"""

from __future__ import annotations

import mmap
from io import BytesIO
from marshal import dumps, load  # imported before a program can replace them; faster than pickle for these values
from typing import Final

from .spilled_lines import Line

SIZE_BYTES: Final = 1 << 20
"""The memory of each process; output beyond that in one window is lost with the process."""

_END: Final = b"\0"  # not the first byte of any object
_AFTER_ALL: Final = 1 << 62  # the count of an unfinished line


def memory_for(processes: int, descriptor: int = -1) -> mmap.mmap:
    """Allocate memory for that number of processes, which are forked later, or map a file for it.

    Pages that are never written cost nothing.
    """
    free = getattr(mmap, "MAP_NORESERVE", 0) | (mmap.MAP_ANONYMOUS if descriptor < 0 else 0)
    return mmap.mmap(descriptor, processes * SIZE_BYTES, flags=mmap.MAP_SHARED | free)


class Journal:
    """A record of the output of a process's ranks during one window.

    `memory` is allocated by `memory_for`, and `number` is that of the process.
    """

    def __init__(self, memory: mmap.mmap, number: int) -> None:
        self._view = memoryview(memory)[number * SIZE_BYTES : (number + 1) * SIZE_BYTES]
        self._unfinished: dict[tuple[int, int], Line] = {}
        self._at = 0
        self.forget()

    def add(self, line: Line) -> None:
        """Record a line; it includes what its rank had printed without a newline."""
        if self._unfinished:
            self._unfinished.pop((line[1], line[3]), None)
        if self._at >= 0:
            self._put(line)

    def begin(self, clock_ps: int, rank: int, stream: int, text: str) -> None:
        """Record an unfinished line."""
        if text:
            line = self._unfinished[rank, stream] = (clock_ps, rank, _AFTER_ALL, stream, text)
            self._put(line)

    def forget(self) -> None:
        """Forget the complete lines, which are about to be sent."""
        self._at = self._view[0] = 0
        for line in self._unfinished.values():
            self._put(line)

    def _put(self, line: Line) -> None:
        clock_ps, rank, count, stream, text = line
        if self._at < 0 or not isinstance(text, str):  # the latter is longer than the memory
            return
        data = dumps((clock_ps, rank, count, stream, text)) + _END
        end = self._at + len(data)
        if end > SIZE_BYTES:
            self._at = -1  # no more room, until all is forgotten
            return
        self._view[self._at : end] = data
        self._at = end - 1


def last_lines(memory: mmap.mmap, number: int) -> list[Line]:
    """Return the lines that a process had printed but not sent when it was killed."""
    kept = memory[number * SIZE_BYTES : (number + 1) * SIZE_BYTES]
    file = BytesIO(kept)
    lines: list[Line] = []
    unfinished: dict[tuple[int, int], Line] = {}
    while kept[file.tell()]:
        line: Line = load(file)
        of = line[1], line[3]
        if line[2] == _AFTER_ALL:
            unfinished[of] = line
        else:
            unfinished.pop(of, None)
            lines.append(line)
    return [*lines, *unfinished.values()]
