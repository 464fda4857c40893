"""A status line on a terminal; elsewhere nothing, or an occasional plain line."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TextIO, cast

from xsim_py.units import format_time

if TYPE_CHECKING:
    from collections.abc import Callable

_ERASE = "\r\x1b[K"
_BAR = 24
_TICK_S = 1.0
_PLAIN_EVERY_S = 30.0


class ProgressLine:
    """The progress of a run, or of many runs, updated in place on a terminal.

    Inside ``with``, the last `count` is shown once per second, even if no run ends. If the stream is not a terminal, a
    line that begins with `plain` is printed every 30 s, or none without it.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        wanted: bool = True,
        plain: str | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self.is_live = wanted and stream.isatty()
        self._plain = plain if wanted and not self.is_live else None
        self._shown = False
        self._events = 0
        self._began_s = self._since_s = self._said_s = clock()
        self._first: int | None = None
        self._counts = (0, 0, 0)
        self._until_s: float | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.clear()

    @property
    def callback(self) -> Callable[[int, int, int, int], None] | None:
        """The progress function for `simulate`; None if nothing would be shown."""
        return self.update if self.is_live or self._plain is not None else None

    def update(self, virtual_time_ps: int, events: int, finished: int, ranks: int) -> None:
        """Show the progress of the run."""
        now_s = self._clock()
        rate = (events - self._events) / max(now_s - self._since_s, 1e-9)
        self._events, self._since_s = events, now_s
        self.show(f"{format_time(virtual_time_ps)}  {rate:,.0f} events/s  {finished:,} of {ranks:,} ranks finished")

    def count(self, done: int, planned: int, failed: int = 0, left_s: float | None = None) -> None:
        """Show the number of completed runs, and how many of them failed.

        `left_s` is the estimated remaining time; by default all runs count equally.
        """
        self._first = done if self._first is None else self._first
        self._counts = (done, planned, failed)
        self._until_s = None if left_s is None else self._clock() + left_s
        self._show_counts()

    def _tick(self) -> None:
        while not self._over.wait(_TICK_S):
            if self._first is not None:
                self._show_counts()

    def _show_counts(self) -> None:
        with self._lock:
            done, planned, failed = self._counts
            filled = _BAR * done // max(planned, 1)
            bar = f"{'#' * filled}{'.' * (_BAR - filled)} " if self.is_live else ""
            now_s = self._clock()
            elapsed_s, begun = now_s - self._began_s, done - (self._first or 0)
            bad = [f"{failed:,} failed"] if failed else []
            parts = [f"{bar}{done:,} of {planned:,} runs", *bad, clock(elapsed_s)]
            if done < planned and begun:
                left_s = elapsed_s * (planned - done) / begun if self._until_s is None else self._until_s - now_s
                parts.append(f"about {clock(max(left_s, 0))} left")
            self.show("  ".join(parts))

    def show(self, text: str) -> None:
        """Show a text, cut to the width of the terminal."""
        if not self.is_live:
            self._say(text)
            return
        # A timer's signal calls this, perhaps during a write to this stream, which then refuses a nested one.
        with suppress(RuntimeError):
            self._stream.write(_ERASE + text[: shutil.get_terminal_size().columns - 1])
            self._stream.flush()
        self._shown = True

    def _say(self, text: str) -> None:
        """Print a plain line, unless the last one is recent."""
        now_s = self._clock()
        if self._plain is not None and now_s - self._said_s >= _PLAIN_EVERY_S:
            self._said_s = now_s
            with suppress(RuntimeError):
                self._stream.write(f"{self._plain}{text}\n")
                self._stream.flush()

    def clear(self) -> None:
        """Erase the line."""
        if self._shown:
            self._stream.write(_ERASE)
            self._stream.flush()
            self._shown = False

    def above(self, stream: TextIO) -> TextIO:
        """Return the stream such that the status line is erased before writes to it."""
        return cast("TextIO", _Above(stream, self)) if self.is_live and stream.isatty() else stream


class _Above:
    """A text file that erases the status line before it writes complete lines."""

    def __init__(self, stream: TextIO, line: ProgressLine) -> None:
        self._stream = stream
        self._line = line

    def write(self, text: str) -> int:
        self._line.clear()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def clock(time_s: float) -> str:
    """Return a time in clock format: ``1:05``, ``1:01:05``."""
    minutes, seconds = divmod(round(time_s), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"
