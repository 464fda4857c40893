"""What virtual ranks print, in the order of virtual time.

Lines are collected as ``(clock_ps, rank, count, stream, text)`` and written once no rank can print anything earlier.
A line's time is that of its newline, as a launcher that forwards whole lines would have it.
"""

from __future__ import annotations

import hashlib
import io
import sys
from typing import TYPE_CHECKING, Any, TextIO

from . import current

if TYPE_CHECKING:
    from .rank import Rank

__all__ = ["Output", "RankInput", "RankStream"]

Line = tuple[int, int, int, int, str]
_MANY_LINES = 20_000


class Output:
    """The lines of one shard that are not written yet; shard 0's gathers those of all and writes them.

    Parameters
    ----------
    sinks : (stdout, stderr)
        Where shard 0 writes; None elsewhere.
    label : bool
        Put ``[rank]`` in front of each line.
    """

    def __init__(self, sinks: tuple[TextIO, TextIO] | None, *, label: bool) -> None:
        self.lines: list[Line] = []
        self._sinks = sinks
        self._label = label
        self._hash = hashlib.blake2b(digest_size=16)
        self._flushing = False

    def put(self, rank: Rank, stream: int, text: str, clock_ps: int) -> None:
        """Take whole lines that a rank has printed."""
        count = rank.private("lines", _Counter).next()
        self.lines.append((clock_ps, rank.number, count, stream, text))
        if len(self.lines) > _MANY_LINES and self._sinks is not None and rank.shard.alone:
            self.flush(rank.shard.kernel.now_ps)

    def add(self, lines: list[Line]) -> None:
        """Take lines that another shard sent."""
        self.lines.extend(lines)

    def take(self) -> list[Line]:
        """Give all lines away, to be sent to shard 0."""
        lines = self.lines[:]
        del self.lines[: len(lines)]
        return lines

    def flush(self, before_ps: int) -> None:
        """Write every line printed before `before_ps`. May be called from a signal handler: works in place."""
        if self._flushing or self._sinks is None:
            return
        self._flushing = True
        try:
            self.lines.sort()
            done = 0
            for clock_ps, rank, _, stream, text in self.lines:
                if clock_ps >= before_ps:
                    break
                done += 1
                self._write(rank, stream, text)
            del self.lines[:done]
            for sink in self._sinks if done else ():
                sink.flush()
        finally:
            self._flushing = False

    def _write(self, rank: int, stream: int, text: str) -> None:
        assert self._sinks is not None
        if stream == 0:
            self._hash.update(f"{rank}:{text}".encode("utf-8", "surrogatepass"))
        if self._label:
            text = "".join(f"[{rank}] {line}" for line in text.splitlines(keepends=True))
        self._sinks[stream].write(text)

    def digest(self) -> str:
        """A hash of all that was written to standard output, with the ranks, in order."""
        return self._hash.hexdigest()


class _Counter:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def next(self) -> int:
        self.value += 1
        return self.value


class _Partial:
    """The unfinished lines of one rank: standard output and standard error."""

    __slots__ = ("texts",)

    def __init__(self) -> None:
        self.texts = ["", ""]


class RankStream(io.TextIOBase):
    """``sys.stdout`` (0) or ``sys.stderr`` (1) of whichever rank is running; the real one outside of ranks."""

    encoding = "utf-8"
    errors = "surrogateescape"

    def __init__(self, stream: int, real: TextIO) -> None:
        self._stream = stream
        self._real = real

    @property
    def buffer(self) -> Any:
        """A binary stream that ends in the same lines."""
        return _Binary(self)

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Keep the text until its line is complete."""
        fiber = current.fiber
        if fiber is None:
            return self._real.write(text)
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        rank = fiber.rank
        texts = rank.private("partial", _Partial).texts
        head, newline, tail = (texts[self._stream] + text).rpartition("\n")
        texts[self._stream] = tail
        if newline:
            rank.shard.output.put(rank, self._stream, head + newline, fiber.clock_ps)
        return len(text)

    def flush(self) -> None:
        """Nothing: a line is passed on when it is complete."""
        if current.fiber is None:
            self._real.flush()


class _Binary(io.RawIOBase):
    def __init__(self, text: RankStream) -> None:
        self._text = text

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._text.write(bytes(data).decode("utf-8", "surrogateescape"))
        return len(bytes(data))


def finish_lines(rank: Rank, clock_ps: int) -> None:
    """Pass on what a rank has printed without a newline; at its end, or because it waits for input."""
    if rank.extra is not None and "partial" in rank.extra:
        texts = rank.extra["partial"].texts
        for stream in (0, 1):
            if texts[stream]:
                rank.shard.output.put(rank, stream, texts[stream], clock_ps)
                texts[stream] = ""


class RankInput(io.TextIOBase):
    """``sys.stdin``: the real one for rank 0, empty for the others, as launchers do it."""

    encoding = "utf-8"

    def __init__(self, real: TextIO | None) -> None:
        self._real = real

    def readable(self) -> bool:
        """Always."""
        return True

    def _source(self) -> TextIO | None:
        fiber = current.fiber
        if fiber is None:
            return self._real
        rank = fiber.rank
        finish_lines(rank, fiber.clock_ps)
        rank.shard.output.flush(fiber.clock_ps + 1)
        # A debugger may be started in any rank; a program reads input in rank 0 only.
        return self._real if rank.number == 0 or "pdb" in sys.modules else None

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        """Read one line."""
        source = self._source()
        return "" if source is None else source.readline(-1 if size is None else size)

    def read(self, size: int | None = -1, /) -> str:
        """Read all."""
        source = self._source()
        return "" if source is None else source.read(-1 if size is None else size)
