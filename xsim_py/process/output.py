"""What virtual ranks print, in the order of virtual time, and what they read.

Lines are collected as ``(clock_ps, rank, count, stream, text)`` and written once no rank can print anything earlier.
A line's time is that of its newline, as a launcher that forwards whole lines would have it.
"""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from . import current
from .alike import COMPLAINT, Alike, Complaint, spans

if TYPE_CHECKING:
    from .rank import Rank

__all__ = ["Output", "RankInput", "RankStream", "finish_lines"]

Line = tuple[int, int, int, int, str]
_MANY_LINES = 20_000
_DEBUGGER_DEPTH = 12


class Output:
    """The lines of one shard that are not written yet; shard 0's gathers those of all and writes them.

    Parameters
    ----------
    sinks : (stdout, stderr)
        Where shard 0 writes; None elsewhere.
    label : bool
        Put ``[rank]`` in front of each line.
    refused : callable
        Called when a sink takes no more, such as a pipe whose reader has gone; `error` says why.
    alike : Alike
        The tracebacks that wait for others.
    """

    def __init__(
        self, sinks: tuple[TextIO, TextIO] | None, *, label: bool, refused: Callable[[], None], alike: Alike
    ) -> None:
        self.lines: list[Line] = []
        self.error: OSError | None = None
        self._sinks = sinks
        self._label = label
        self._refused = refused
        self._alike = alike
        self._hash = hashlib.blake2b(digest_size=16)
        self._flushing = False
        self._flushed_ps = -1

    def put(self, rank: Rank, stream: int, text: str, clock_ps: int) -> None:
        """Take whole lines that a rank has printed."""
        count = rank.private("lines", _Counter).next()
        self.lines.append((clock_ps, rank.number, count, stream, text))
        if len(self.lines) > _MANY_LINES and self._sinks is not None and rank.shard.alone:
            now_ps = rank.shard.kernel.now_ps
            if now_ps != self._flushed_ps:  # looking again at the same time would find nothing to write, every time
                self._flushed_ps = now_ps
                self.flush(now_ps)

    def add(self, lines: list[Line]) -> None:
        """Take lines that another shard sent."""
        self.lines.extend(lines)

    def take(self) -> list[Line]:
        """Give all lines away, to be sent to shard 0."""
        lines = self.lines[:]
        del self.lines[: len(lines)]
        return lines

    def flush(self, before_ps: int, *, last: bool = False) -> None:
        """Write every line printed before `before_ps`. May be called from a signal handler: works in place.

        Nothing comes after the `last` time, and so nothing waits for more of its like.
        """
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
                if self._alike:
                    self._write_due(clock_ps)
                if stream == COMPLAINT:
                    self._alike.add(clock_ps, rank, text)
                elif stream != 1 or not self._alike.hold(rank, text):
                    self._write(rank, stream, text)
            del self.lines[:done]
            self._write_due(None if last else before_ps)
            for sink in self._sinks if done or last else ():
                sink.flush()
        except OSError as error:
            # Not to be raised here, where a rank may be running, which would take it for its own.
            self.error, self._sinks = error, None
            self._refused()
        finally:
            self._flushing = False

    def _write_due(self, before_ps: int | None) -> None:
        """Write the tracebacks that have waited long enough."""
        for ranks, text in self._alike.due(before_ps):
            if len(ranks) > 1 and not self._label:
                text = f"ranks {spans(ranks)}: {text}"
            self._write(spans(ranks), 1, text)

    def _write(self, rank: int | str, stream: int, text: str) -> None:
        assert self._sinks is not None
        if stream == 0:
            self._hash.update(f"{rank}:{text}".encode("utf-8", "surrogatepass"))
        if self._label:
            text = "".join(f"[{rank}] {line}\n" for line in text.removesuffix("\n").split("\n"))
        sink = self._sinks[stream]
        try:
            sink.write(text)
        except UnicodeEncodeError:  # bytes that are no text, or no text in this terminal's encoding
            if hasattr(sink, "buffer"):
                sink.flush()
                sink.buffer.write(text.encode("utf-8", "surrogateescape"))
            else:
                sink.write(text.encode("ascii", "backslashreplace").decode())

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
    """The unfinished lines of one rank, in pieces: standard output and standard error."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: tuple[list[str], list[str]] = ([], [])


class RankStream(io.TextIOBase):
    """``sys.stdout`` (0) or ``sys.stderr`` (1) of whichever rank is running; the real one outside of ranks."""

    encoding = "utf-8"
    errors = "surrogateescape"
    mode = "w"

    def __init__(self, stream: int, real: TextIO) -> None:
        self._stream = stream
        self._real = real
        self.name = ("<stdout>", "<stderr>")[stream]

    @property
    def buffer(self) -> Any:
        """A binary stream that ends in the same lines."""
        return _Binary(self)

    def writable(self) -> bool:
        """Always."""
        return True

    def fileno(self) -> int:
        """The real stream's, for child processes: what they write is in no particular order."""
        return self._real.fileno()

    def reconfigure(self, **_: Any) -> None:
        """Nothing: lines are passed on as lines, in UTF-8."""

    def close(self) -> None:
        """Nothing: the other ranks still need it."""

    def write(self, text: str) -> int:
        """Keep the text until its line is complete."""
        fiber = current.here()
        if fiber is None:
            return self._real.write(text)
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        rank = fiber.rank
        pieces = rank.private("partial", _Partial).pieces[self._stream]
        if type(text) is Complaint and not pieces:
            rank.shard.output.put(rank, COMPLAINT, str(text), fiber.clock_ps)
            return len(text)
        head, newline, tail = text.rpartition("\n")
        if newline:
            whole = "".join((*pieces, head, newline))
            pieces.clear()
            rank.shard.output.put(rank, self._stream, whole, fiber.clock_ps)
        if tail:
            pieces.append(tail)
        return len(text)

    def flush(self) -> None:
        """Nothing: a line is passed on when it is complete."""
        if current.here() is None:
            self._real.flush()


class _Binary(io.RawIOBase):
    def __init__(self, text: RankStream) -> None:
        self._text = text

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._text.fileno()

    def close(self) -> None:
        pass

    def write(self, data: Any) -> int:
        self._text.write(bytes(data).decode("utf-8", "surrogateescape"))
        return len(bytes(data))


def finish_lines(rank: Rank, clock_ps: int) -> None:
    """Pass on what a rank has printed without a newline; at its end, or because it waits for input."""
    if rank.extra is not None and "partial" in rank.extra:
        for stream, pieces in enumerate(rank.extra["partial"].pieces):
            if pieces:
                text = "".join(pieces)
                pieces.clear()
                rank.shard.output.put(rank, stream, text, clock_ps)


class RankInput(io.TextIOBase):
    """``sys.stdin``: the real one for rank 0, empty for the others, as launchers do it."""

    encoding = "utf-8"
    name = "<stdin>"
    mode = "r"

    def __init__(self, real: TextIO | None) -> None:
        self._real = real

    def readable(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Nothing: ``exit()`` closes it, and that is no business of other ranks."""

    def fileno(self) -> int:
        """The real one's."""
        if self._real is None:
            raise io.UnsupportedOperation("fileno")
        return self._real.fileno()

    @property
    def buffer(self) -> Any:
        """The same, in bytes."""
        source = self._source()
        return io.BytesIO() if source is None else source.buffer

    def _source(self) -> TextIO | None:
        fiber = current.here()
        if fiber is None:
            return self._real
        rank = fiber.rank
        finish_lines(rank, fiber.clock_ps)
        rank.shard.output.flush(fiber.clock_ps + 1)
        return self._real if rank.number == 0 or _called_by_debugger() else None

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        """Read one line."""
        source = self._source()
        return "" if source is None else source.readline(-1 if size is None else size)

    def read(self, size: int | None = -1, /) -> str:
        """Read all."""
        source = self._source()
        return "" if source is None else source.read(-1 if size is None else size)


def _called_by_debugger() -> bool:
    """A debugger may be started in any rank; a program reads input in rank 0 only."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_DEBUGGER_DEPTH):
        if frame is None:
            return False
        if frame.f_globals.get("__name__") in ("pdb", "cmd"):
            return True
        frame = frame.f_back
    return False
