"""One live line on a terminal, and nothing anywhere else."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from xsim_py.units import format_time

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ProgressLine", "clock"]

_ERASE = "\r\x1b[K"


class ProgressLine:
    """Virtual time, events per second and ranks finished, rewritten in place.

    Parameters
    ----------
    stream : text file
        Where the line appears, if it is a terminal.
    wanted : bool, optional
        False for no line, terminal or not.
    clock : callable, optional
        The wall clock, in seconds.
    """

    def __init__(self, stream: TextIO, *, wanted: bool = True, clock: Callable[[], float] = time.perf_counter) -> None:
        self._stream = stream
        self._clock = clock
        self._enabled = wanted and stream.isatty()
        self._shown = False
        self._events = 0
        self._since_s = clock()

    @property
    def callback(self) -> Callable[[int, int, int, int], None] | None:
        """What `simulate` is to call now and then; None when nobody would see it."""
        return self.update if self._enabled else None

    def update(self, virtual_time_ps: int, events: int, finished: int, ranks: int) -> None:
        """Show where the run is."""
        now_s = self._clock()
        rate = (events - self._events) / max(now_s - self._since_s, 1e-9)
        self._events, self._since_s = events, now_s
        self.show(f"{format_time(virtual_time_ps)}  {rate:,.0f} events/s  {finished:,} of {ranks:,} ranks finished")

    def show(self, text: str) -> None:
        """Show any text, as far as it fits."""
        if not self._enabled:
            return
        # A timer's signal brings us here, perhaps in the middle of a write to this stream, which then refuses another.
        with suppress(RuntimeError):
            self._stream.write(_ERASE + text[: shutil.get_terminal_size().columns - 1])
            self._stream.flush()
        self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._stream.write(_ERASE)
            self._stream.flush()
            self._shown = False

    def above(self, stream: TextIO) -> TextIO:
        """Return the stream such that the line makes room for what is written to it."""
        return cast("TextIO", _Above(stream, self)) if self._enabled and stream.isatty() else stream


class _Above:
    """A text file that takes the live line away before it writes; whole lines are written to it."""

    def __init__(self, stream: TextIO, line: ProgressLine) -> None:
        self._stream = stream
        self._line = line

    def write(self, text: str) -> int:
        self._line.clear()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def clock(time_s: float) -> str:
    """Return a time as on a clock: ``1:05``, ``1:01:05``."""
    minutes, seconds = divmod(round(time_s), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"
