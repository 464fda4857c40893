"""Measured times by size, independent of the benchmark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from xsim_py.errors import ConfigError

Floats = NDArray[np.float64]

PINGPONG = "pingpong"
"""The one-way time of a message: half of a round trip."""
ISEND = "isend"
"""The time in MPI_Isend: the sender's overhead."""
RECV = "recv"
"""The time in MPI_Recv for a message that has arrived: the receiver's overhead."""
STREAM = "stream"
"""The time between successive messages with many in flight."""

_LONGEST_S = 86_400

SAME_NODE = "same_node"
NETWORK = "network"


@dataclass(frozen=True)
class Measured:
    """The measured times of one operation in one file.

    The operation is one of the names above, or a collective in lower case: ``allreduce``, ``barrier``. `seconds` is the
    time by size, in bytes and ascending; the barrier's size is 0. The layer is ``network`` or ``same_node``, if the
    file contains it.
    """

    operation: str
    seconds: Mapping[int, float]
    file: str
    layer: str | None = None
    ranks: int | None = None


def median_by_size(rows: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Return the median of the times of each size, by ascending size."""
    times: dict[int, list[float]] = defaultdict(list)
    for size_bytes, time_s in rows:
        times[size_bytes].append(time_s)
    return {size_bytes: float(np.median(times[size_bytes])) for size_bytes in sorted(times)}


def medians_of(series: Sequence[Measured], operation: str) -> tuple[Floats, Floats]:
    """Return sizes and median times of an operation from all series that have it."""
    found = [row for each in series if each.operation == operation for row in each.seconds.items()]
    by_size = median_by_size(found)
    return np.array(list(by_size), dtype=np.float64), np.array(list(by_size.values()), dtype=np.float64)


def size_of(text: str, place: str) -> int:
    """Parse a number of bytes, an integer from 0 to 2**60, at a location in a file."""
    try:
        size = float(text)
    except ValueError:
        size = -1.0
    if not (0 <= size <= 2**60 and size == int(size)):
        raise ConfigError(f"{place}: expected a whole number of bytes, got {text!r}")
    return int(size)


def time_of(text: str, place: str, *, unit_s: float = 1.0, operation: str = "") -> float:
    """Parse a positive time at a location in a file to seconds; an overhead may be zero."""
    value = number_of(text)
    if value is None or not (isfinite(value) and (value > 0 or (value == 0 and operation in (ISEND, RECV)))):
        raise ConfigError(f"{place}: expected a time above zero, got {text!r}")
    if value * unit_s > _LONGEST_S:
        raise ConfigError(f"{place}: {text!r} is out of range (at most a day)")
    return value * unit_s


def number_of(text: str) -> float | None:
    """Return a text as a number, which may be infinite or NaN, or None."""
    try:
        return float(text)
    except ValueError:
        return None
