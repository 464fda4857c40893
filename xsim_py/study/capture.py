"""Regular expressions that capture values from a program's output, each with a time limit.

A search can take exponential time: ``((?:a+)+)$`` doubles it with every ``a``. A timer of this process's CPU time
interrupts the search, which Python allows; the other results of the run are kept.
"""

from __future__ import annotations

import math
import re
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Self

MOST_SEARCHED_S: Final = 5.0
"""CPU time limit for the searches of one value in one run."""
_SHOWN_CHARACTERS: Final = 60

# The real functions, as a simulation replaces them with those of its ranks.
_set_timer: Final = signal.setitimer
_set_handler: Final = signal.signal
_cpu_time_s: Final = time.process_time


class _TooLong(Exception):
    """A search has exceeded the time limit of its capture in a run."""


class Captures:
    """The captures of one run; within ``with``, in a main thread, searches have a time limit.

    They map a name to a regular expression and the value to take. `given_up` contains, by name, the start of the line
    at which a search exceeded its limit of time or memory.
    """

    def __init__(self, captures: Mapping[str, tuple[str, str]]) -> None:
        self._taken = {name: _Taken(take) for name, (_, take) in captures.items()}
        self._patterns = {name: re.compile(pattern) for name, (pattern, _) in captures.items()}
        self._left_s = dict.fromkeys(captures, MOST_SEARCHED_S)
        self._timed = self._searching = False
        self._before: Any = None
        self.given_up: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._timed = threading.current_thread() is threading.main_thread()
        if self._timed:
            self._before = _set_handler(signal.SIGVTALRM, self._ring)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timed:
            _set_handler(signal.SIGVTALRM, self._before)
        self._timed = False

    def hear(self, line: str) -> None:
        """Search a line for every value."""
        for name in list(self._patterns):
            try:
                found = self._search(name, line)
            except (_TooLong, MemoryError, RecursionError):
                self.given_up[name] = line[:_SHOWN_CHARACTERS]
                del self._patterns[name]
            else:
                if found:
                    self._taken[name].add(found[1])

    def _search(self, name: str, line: str) -> re.Match[str] | None:
        began_s = _cpu_time_s()
        self._searching = True
        if self._timed:
            _set_timer(signal.ITIMER_VIRTUAL, max(self._left_s[name], 1e-3))
        try:
            return self._patterns[name].search(line)
        finally:
            self._searching = False
            if self._timed:
                _set_timer(signal.ITIMER_VIRTUAL, 0)
            self._left_s[name] -= _cpu_time_s() - began_s

    def _ring(self, *_: object) -> None:
        if self._searching:  # otherwise the search has ended
            raise _TooLong

    def values(self) -> dict[str, Any]:
        """Return the captured values by name; None without a match, or after an aborted search."""
        return {name: None if name in self.given_up else taken.value() for name, taken in self._taken.items()}


class _Taken:
    """The value selected or computed from all matches of a capture."""

    def __init__(self, take: str) -> None:
        self._take = take
        self._count = 0
        self._value: Any = None

    def add(self, text: str | None) -> None:
        """Add a match; the group may be one that did not participate in it."""
        if text is None:
            return
        self._count += 1
        value = _number(text)
        if self._value is None or self._take == "last":
            self._value = value
        elif self._take in ("min", "max", "mean", "sum"):
            both = (self._value, value)
            if any(isinstance(each, str) for each in both):
                self._value = value  # not a number: the tables show it, without a mean
            else:
                self._value = {"min": min, "max": max}.get(self._take, sum)(both)

    def value(self) -> Any:
        """Return the number, or text if it is not a number; None without a match."""
        if self._take == "count":
            return self._count
        mean = self._take == "mean" and isinstance(self._value, int | float)
        value = self._value / self._count if mean else self._value
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value  # a sum of large numbers


def _number(text: str) -> int | float | str:
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):  # also an integer, which would have no mean
        return text
    with suppress(ValueError):
        return int(text)
    return number
