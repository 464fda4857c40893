"""Measured one-way times of messages, by size, read from a file."""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Final

from xsim_py.errors import ConfigError
from xsim_py.input_files import MIB, read_input
from xsim_py.units import round_half_up

_MOST_BYTES: Final = 64 * MIB
_PS: Final = 10**12
_SECONDS: Final = ("seconds", "median_s")


class MeasuredTimes:
    """One-way times of messages.

    Times between two measured sizes are interpolated linearly. A smaller message takes as long as the smallest one, and
    larger ones have the average time per byte of the largest.
    """

    def __init__(self, times_ps: dict[int, int]) -> None:
        self.sizes = sorted(times_ps)  # in bytes, ascending
        self._times_ps = [times_ps[size_bytes] for size_bytes in self.sizes]

    def of(self, size_bytes: int) -> int:
        """Return the time of a message of that size, in picoseconds."""
        sizes, times_ps = self.sizes, self._times_ps
        place = bisect_left(sizes, size_bytes)
        if place == len(sizes):
            return round_half_up(times_ps[-1] * size_bytes, max(sizes[-1], 1))
        if place == 0 or sizes[place] == size_bytes:
            return times_ps[place]
        low, high = sizes[place - 1], sizes[place]
        total = times_ps[place - 1] * (high - size_bytes) + times_ps[place] * (size_bytes - low)
        return round_half_up(total, high - low)


@lru_cache(maxsize=16)
def measured_times(path: Path) -> MeasuredTimes:
    """Read a CSV file with the columns ``bytes`` and ``seconds`` (or ``median_s``).

    If there is a column ``op``, only rows of ``pingpong`` count. Lines that begin with # are comments. Raises a
    `ConfigError` with the location of the error: a missing column, not a number, a duplicate size, or no rows.
    """
    try:
        text = read_input(path, most_bytes=_MOST_BYTES).decode("utf-8-sig")
        times_ps: dict[int, int] = {}
        for line, size_bytes, time_ps in _rows(path, text):
            if size_bytes in times_ps:
                raise ConfigError(f"{path}:{line}: duplicate line for {size_bytes} bytes")
            times_ps[size_bytes] = time_ps
    except OSError as error:
        raise ConfigError(f"cannot read the times {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: not valid CSV: {error}") from None
    if not times_ps:
        missing = "no times; expected a header `bytes,seconds` and one line per size"
        raise ConfigError(f"{path}: {missing}")
    return MeasuredTimes(times_ps)


def _rows(path: Path, text: str) -> Iterator[tuple[int, int, int]]:
    """Yield line, bytes and picoseconds of each row."""
    rows = csv.reader(StringIO(text, newline=""), skipinitialspace=True)
    columns: dict[str, int] = {}
    seconds = 0
    for row in rows:
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        place = f"{path}:{rows.line_num}"
        if not columns:
            columns = {name: index for index, name in enumerate(cells)}
            seconds = next((columns[name] for name in _SECONDS if name in columns), -1)
            if "bytes" not in columns or seconds < 0:
                raise ConfigError(f"{place}: missing column; the header needs bytes and seconds (or median_s)")
            continue
        try:
            if "op" in columns and cells[columns["op"]] != "pingpong":
                continue
            size_bytes, time_ps = int(cells[columns["bytes"]]), round(float(cells[seconds]) * _PS)
        except (ValueError, OverflowError, IndexError):
            raise ConfigError(
                f"{place}: expected a size in bytes and a time in seconds, got {','.join(row)!r}"
            ) from None
        if size_bytes < 0 or time_ps <= 0:
            raise ConfigError(f"{place}: out of range: sizes cannot be negative, and times must be positive")
        yield rows.line_num, size_bytes, time_ps
