"""The collector of ranks' output: it writes lines in virtual-time order, and provides input.

Lines are collected as ``(clock_ps, rank, count, stream, text)`` and written once no rank can print anything earlier.
A line's time is that of its newline, as with a launcher that forwards whole lines.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, count
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from xsim_py import vitals
from xsim_py.code_origin import outside_frame
from xsim_py.process.ranks import current
from xsim_py.units import format_time, spans

from .equal_tracebacks import TRACEBACK, EqualTracebacks, WholeTraceback
from .simulator_descriptors import SeparateStream
from .spilled_lines import LINE_COST, Line, Spill, SpilledRun, SpilledText, text_of
from .standard_descriptors import is_redirected

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank
    from xsim_py.process.ranks.shard import Control

    from .last_lines import Journal

NO_OUTPUT = "no output"
"""The reason for stopping the run."""

_ORDER = "held back because other ranks may still print earlier output"
_NO_END = "a line is written when it has come to its end"

_MOST_IN_MEMORY = 16 << 20  # characters of held-back lines in memory
_RELIEF_STEP = 2 << 20
_MOST_OF_A_LINE = 1 << 20  # characters of an unfinished line
_DEBUGGER_DEPTH = 12
_line_numbers = partial(count, 1)


class Output:
    """The unwritten lines of one shard; shard 0's gathers those of all and writes them."""

    def __init__(
        self,
        sinks: tuple[TextIO, ...] | None,  # (stdout, stderr), to which shard 0 writes; None elsewhere
        *,
        label: bool,  # put ``[rank]`` in front of each line
        # Stops the run when no more can be written or kept, such as when the reader of a pipe has exited.
        control: Control,
        spill: Spill,  # holds lines that do not fit into memory
        equal_tracebacks: EqualTracebacks,  # the tracebacks that wait for equal ones
    ) -> None:
        self.error: OSError | None = None  # the reason for which `control` has stopped the run
        self._lines: list[Line] = []
        self._runs: list[SpilledRun] = []
        self._sinks = sinks
        self._label = label
        self._control = control
        self.spill = spill
        self._tracebacks = equal_tracebacks
        self._hash = hashlib.blake2b(digest_size=16)
        self._busy = False
        self._held = 0
        self._relief_at = _RELIEF_STEP
        self.journal: Journal | None = None  # in a process that may be killed

    def put(self, rank: Rank, stream: int, text: str | SpilledText, clock_ps: int) -> None:
        """Add complete lines that a rank has printed."""
        number = next(rank.private("lines", _line_numbers))
        line = (clock_ps, rank.number, number, stream, text)
        self._lines.append(line)
        if self.journal is not None:
            self.journal.add(line)
        self._held += len(text) + LINE_COST
        if self._held > self._relief_at and self.error is None:  # else the run is about to end
            if self._sinks is not None and rank.shard.alone:
                self._flush(_known_until(rank, clock_ps))
            self._spill_if_many(f"rank {rank.number} prints at {format_time(clock_ps, digits=None)}")

    def add(self, lines: Iterable[Line | SpilledRun]) -> None:
        """Add lines that another shard sent."""
        for line in lines:
            if isinstance(line, SpilledRun):
                self._runs.append(line)
            else:
                self._lines.append(line)
                self._held += len(line[4]) + LINE_COST
        if self._held > self._relief_at and not self._control.stop_reason:
            self._spill_if_many("shards print")

    def take(self, *, far: bool) -> list[Line | SpilledRun]:
        """Remove and return all lines, to be sent to shard 0, which may be `far`: in another process."""
        if not (self._lines or self._runs):
            return []
        runs = [run for run in self._runs if run.first() is not None]
        self._runs.clear()
        lines = self._lines[:]
        del self._lines[: len(lines)]
        self._held = 0
        if self.journal is not None:
            self.journal.forget()
        if far:
            return [(*line[:4], text_of(line[4])) for line in chain(*runs, lines)]
        return [*runs, *lines]

    def store(self, pieces: list[str], what: str) -> tuple[int, int] | None:
        """Spill the beginning of an unfinished line to the file; return its location if there was room."""
        try:
            return self.spill.put("".join(pieces).encode("utf-8", "surrogateescape"))
        except OSError as error:
            self._give_up(error, what, _NO_END)
            return None

    def end_of(self, places: list[tuple[int, int]], end: str) -> SpilledText:
        """Return the text of a line whose beginning was spilled."""
        return SpilledText(self.spill, places, end)

    def _spill_if_many(self, what: str) -> None:
        """Spill held-back lines to the file, if there are many."""
        if self._held > _MOST_IN_MEMORY and not self._busy:
            with self._uninterrupted():
                self._lines.sort()
                try:
                    self._runs.append(self.spill.keep(self._lines))
                    self._lines.clear()
                    self._held = 0
                except OSError as error:
                    self._give_up(error, what, _ORDER)
        self._relief_at = self._held + _RELIEF_STEP

    @contextmanager
    def _uninterrupted(self) -> Iterator[None]:
        """Return a context that no signal handler or stopped rank may interrupt."""
        self._busy = True
        try:
            with self._control.held():
                yield
        finally:
            self._busy = False
        if self._control.wanted:
            self._control.stop(self._control.wanted)

    def _give_up(self, error: OSError, what: str, why: str) -> None:
        """End the run because there is no more room; the kept lines will be written."""
        if self.error is None:
            where = None if current.fiber is None else vitals.innermost()
            with current.outside():  # which reads the source
                place = "" if where is None else f" ({vitals.shown(where)})"
            self.error = OSError(error.errno, f"{error.strerror}: {what}{place}, and {why}")
            self._control.stop(NO_OUTPUT)

    def flush(self, before_ps: int, *, last: bool = False) -> None:
        """Write every line printed before `before_ps`. Safe in a signal handler: works in place.

        After the `last` call no lines follow, so no traceback waits for equal ones.
        """
        self._flush((before_ps,), last=last)

    def _flush(self, bound: tuple[int, ...], *, last: bool = False) -> None:
        """Write every line before `bound`, in order."""
        if self._busy or self._sinks is None:
            return
        with self._uninterrupted():
            try:
                written = last
                for clock_ps, rank, _, stream, text in self._lines_before(bound):
                    written = True
                    self._write_or_hold(clock_ps, rank, stream, text)
                    if self._control.wanted:
                        break
                else:
                    self._write_due(None if last else bound[0])
                for sink in self._sinks if written else ():
                    sink.flush()
            except OSError as error:
                # Not raised here: a running rank would take it for its own error.
                self.error, self._sinks = _explained(error), None
                self._control.stop(NO_OUTPUT)
            self._relief_at = self._held + _RELIEF_STEP

    def _lines_before(self, bound: tuple[int, ...]) -> Iterator[Line]:
        """Yield and remove the lines before `bound`, in order."""
        self._lines.sort()
        runs = [run for run in self._runs if run.first() is not None]
        done = 0
        try:
            for line in self._lines:
                if line >= bound:
                    break
                if runs:
                    yield from _before(line, runs)
                done += 1
                self._held -= len(line[4]) + LINE_COST
                yield line
            if runs:
                yield from _before(bound, runs)
        finally:
            del self._lines[:done]
            self._runs[:] = [run for run in runs if run.first() is not None]

    def _write_or_hold(self, clock_ps: int, rank: int, stream: int, text: str | SpilledText) -> None:
        """Write a line whose turn has come, or hold it with the waiting tracebacks."""
        if self._tracebacks:
            self._write_due(clock_ps)
        if stream == TRACEBACK:
            self._tracebacks.add(clock_ps, rank, text_of(text))
        elif stream != 1 or not self._tracebacks or not self._tracebacks.hold(rank, text := text_of(text)):
            self._write(rank, stream, text)

    def _write_due(self, before_ps: int | None) -> None:
        """Write the tracebacks that have waited long enough."""
        for ranks, text in self._tracebacks.due(before_ps):
            if len(ranks) > 1 and not self._label:
                text = f"ranks {spans(ranks)}: {text}"
            self._write(spans(ranks), 1, text)

    def _write(self, rank: int | str, stream: int, text: str | SpilledText) -> None:
        assert self._sinks is not None
        pieces: Iterable[str] = (text,) if isinstance(text, str) else text
        if stream == 0:
            self._hash.update(f"{rank}:".encode())
        for piece in self._labelled(pieces, rank, stream) if self._label else pieces:
            if stream == 0 and not self._label:
                self._hash.update(piece.encode("utf-8", "surrogatepass"))
            _write_to(self._sinks[stream], piece)

    def _labelled(self, pieces: Iterable[str], rank: int | str, stream: int) -> Iterator[str]:
        """Yield the text with the rank in front of each line, and a final newline; the hash covers the text."""
        label = start = f"[{rank}] "
        for piece in pieces:
            if stream == 0:
                self._hash.update(piece.encode("utf-8", "surrogatepass"))
            if piece:
                body = piece.removesuffix("\n")
                yield start + body.replace("\n", f"\n{label}")
                start = "" if body is piece else f"\n{label}"
        yield "\n"

    def digest(self) -> str:
        """Return a hash of all standard output with the ranks, in order."""
        return self._hash.hexdigest()


def _known_until(rank: Rank, clock_ps: int) -> tuple[int, ...]:
    """Return the bound before which all output is known, for a printing rank whose shard has all ranks.

    No other rank prints before the time of the current event, and at that time only ranks after the first unfinished
    one.
    """
    now_ps = rank.shard.kernel.now_ps
    first = next((each for each in rank.shard.ranks if each.exit_status is None), None)
    return (now_ps, rank.number + 1) if first is rank and clock_ps == now_ps else (now_ps,)


def _before(bound: Any, runs: list[SpilledRun]) -> Iterator[Line]:
    """Yield the lines of all runs before `bound`, in order."""
    while True:
        heads = [(head, place) for place, run in enumerate(runs) if (head := run.first()) is not None and head < bound]
        if not heads:
            return
        run = runs[min(heads)[1]]
        second = min((head for head, place in heads if runs[place] is not run), default=bound)
        while (head := run.first()) is not None and head < second:
            yield run.pop()


def _explained(error: OSError) -> OSError:
    if error.errno != errno.EBADF:
        return error
    return OSError(error.errno, f"{error.strerror}: the program has closed a descriptor that is the simulator's")


def _write_to(sink: TextIO, text: str) -> None:
    try:
        sink.write(text)
    except UnicodeEncodeError:  # bytes that are not text, or text that this terminal's encoding lacks
        if hasattr(sink, "buffer"):
            sink.flush()
            sink.buffer.write(text.encode("utf-8", "surrogateescape"))
        else:
            sink.write(text.encode("ascii", "backslashreplace").decode())


class _Partial:
    """The unfinished lines of one rank, in pieces: standard output and standard error; the oldest may be spilled."""

    __slots__ = ("pieces", "sizes", "stored")

    def __init__(self) -> None:
        self.pieces: tuple[list[str], list[str]] = ([], [])
        self.sizes = [0, 0]
        self.stored: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])

    def take(self, rank: Rank, stream: int, end: str, clock_ps: int) -> None:
        """Pass the line on, with its end."""
        pieces = self.pieces[stream]
        text: str | SpilledText = end
        if pieces or self.stored[stream]:
            text = "".join((*pieces, end))
            if self.stored[stream]:
                text = rank.shard.output.end_of(self.stored[stream][:], text)
                self.stored[stream].clear()
            self.sizes[stream] = 0
            pieces.clear()
        rank.shard.output.put(rank, stream, text, clock_ps)

    def add(self, rank: Rank, stream: int, piece: str) -> None:
        """Append a piece."""
        pieces = self.pieces[stream]
        pieces.append(piece)
        self.sizes[stream] += len(piece)
        if self.sizes[stream] > _MOST_OF_A_LINE:
            kept = pieces[:]
            self.sizes[stream] = 0
            pieces.clear()
            place = rank.shard.output.store(kept, f"rank {rank.number} prints in one line")
            if place is not None:
                self.stored[stream].append(place)


class RankStream(io.TextIOBase):
    """``sys.stdout`` (0) or ``sys.stderr`` (1) of the running rank; the real one outside of ranks."""

    encoding = "utf-8"
    errors = "surrogateescape"
    mode = "w"

    def __init__(self, stream: int, real: TextIO) -> None:
        self._stream = stream
        self._real = real
        self.name = ("<stdout>", "<stderr>")[stream]

    @property
    def buffer(self) -> _Binary:
        """A binary stream that writes to the same lines."""
        return _Binary(self)

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return its descriptor; output of child processes to it is unordered."""
        if current.here() is not None:
            return self._stream + 1
        return self._real.stands_for if isinstance(self._real, SeparateStream) else self._real.fileno()

    def reconfigure(self, **_: object) -> None:
        """Do nothing: output is forwarded as lines, in UTF-8."""

    def close(self) -> None:
        """Do nothing: the other ranks still need it."""

    def write(self, text: str) -> int:
        """Buffer the text until its line is complete."""
        fiber = current.here()
        if fiber is None:
            return self._real.write(text)
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        # Most text is ASCII, and checking takes no time; only other text may contain unencodable characters.
        if not text.isascii():
            text = self._writable(text)
        rank = fiber.rank
        if is_redirected(rank, self._stream + 1):
            self._write_elsewhere(rank, text)
        else:
            self._keep(fiber, text)
        return len(text)

    def take(self, fiber: Fiber, data: bytes) -> int:
        """Buffer data that a rank writes to a descriptor that refers to this stream."""
        self._keep(fiber, data.decode("utf-8", "surrogateescape"))
        return len(data)

    def follow(self, number: int) -> None:
        """Outside of ranks, write to a descriptor from now on."""
        self._real = open(number, "w", closefd=False)  # noqa: SIM115 - this process ends with it

    def _write_elsewhere(self, rank: Rank, text: str) -> None:
        """Write to the target of a rank's redirection; the text is lost if the rank has closed it."""
        data = memoryview(text.encode(self.encoding, self.errors))
        with suppress_closed():
            while data:
                data = data[os.write(self._stream + 1, data) :]

    def _keep(self, fiber: Fiber, text: str) -> None:
        rank = fiber.rank
        partial = rank.private("partial", _Partial)
        if type(text) is WholeTraceback and not (partial.pieces[self._stream] or partial.stored[self._stream]):
            rank.shard.output.put(rank, TRACEBACK, str(text), fiber.clock_ps)
            return
        head, newline, tail = text.rpartition("\n")
        if newline:
            partial.take(rank, self._stream, f"{head}\n", fiber.clock_ps)
        if tail:
            partial.add(rank, self._stream, tail)

    def _writable(self, text: str) -> str:
        """Return the text if it is encodable; else raise on standard output, or escape it on standard error."""
        try:
            text.encode(self.encoding, self.errors)
        except UnicodeEncodeError:
            if self._stream == 0:
                raise
            kind = (
                WholeTraceback if type(text) is WholeTraceback else str
            )  # constructors of the program's subclasses may differ
            return kind(text.encode(self.encoding, "backslashreplace").decode(self.encoding))
        return text

    def flush(self) -> None:
        """Record an unfinished line in case this process is killed; lines are forwarded when complete."""
        fiber = current.here()
        if fiber is None:
            self._real.flush()
        elif (journal := fiber.rank.shard.output.journal) is not None:
            pieces = fiber.rank.private("partial", _Partial).pieces[self._stream]
            journal.begin(fiber.clock_ps, fiber.rank.number, self._stream, "".join(pieces))


@contextmanager
def suppress_closed() -> Iterator[None]:
    """Suppress errors about a closed descriptor."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EBADF:
            raise


class _Binary(io.RawIOBase):
    def __init__(self, text: RankStream) -> None:
        self._text = text

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._text.fileno()

    def close(self) -> None:
        pass

    def write(self, data: ReadableBuffer) -> int:
        whole = bytes(data)
        self._text.write(whole.decode("utf-8", "surrogateescape"))
        return len(whole)


def finish_lines(rank: Rank, clock_ps: int) -> None:
    """Forward output without a newline, at the end of a rank or because it waits for input."""
    if rank.extra is not None and "partial" in rank.extra:
        partial = rank.extra["partial"]
        for stream in (0, 1):
            if partial.pieces[stream] or partial.stored[stream]:
                partial.take(rank, stream, "", clock_ps)


class RankInput(io.TextIOBase):
    """``sys.stdin``: the real one for rank 0, empty for the others, as with launchers."""

    encoding = "utf-8"
    name = "<stdin>"
    mode = "r"

    def __init__(self, real: TextIO | None) -> None:
        self._real = real

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Do nothing: ``exit()`` closes it, which must not affect other ranks."""

    def fileno(self) -> int:
        """Return 0 in a rank, else the real stream's descriptor."""
        if current.here() is not None:
            return 0
        if self._real is None:
            raise io.UnsupportedOperation("fileno")
        return self._real.fileno()

    @property
    def buffer(self) -> BinaryIO:
        """The underlying binary stream."""
        source = self._source()
        return io.BytesIO() if source is None else source.buffer

    def _source(self) -> TextIO | None:
        fiber = current.here()
        if fiber is None:
            return self._real
        rank = fiber.rank
        finish_lines(rank, fiber.clock_ps)
        # A prompt has to be visible before its answer is read.
        rank.shard.output.flush(fiber.clock_ps + 1)
        if is_redirected(rank, 0):
            source: TextIO = rank.private("redirected input", partial(open, 0, closefd=False))
            return source
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
    """Return True if a debugger reads, which may run in any rank; a program reads input in rank 0 only."""
    frame: FrameType | None = outside_frame()
    for _ in range(_DEBUGGER_DEPTH):
        if frame is None:
            return False
        if frame.f_globals.get("__name__") in ("pdb", "cmd"):
            return True
        frame = frame.f_back
    return False
