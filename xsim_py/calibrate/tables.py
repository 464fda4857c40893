"""Readers of CSV: tables of medians with a header, and raw single measurements without one."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from xsim_py.calibrate.benchmarks import operation_named
from xsim_py.calibrate.measured import (
    ISEND,
    NETWORK,
    PINGPONG,
    RECV,
    SAME_NODE,
    STREAM,
    Measured,
    median_by_size,
    number_of,
    size_of,
    time_of,
)
from xsim_py.errors import ConfigError

_OPERATION = ("op", "operation", "benchmark", "test", "name")
_SIZES = frozenset(("bytes", "size", "msgsize", "messagesize", "message", "msg", "length", "n"))
_TIMES = frozenset(
    ("t", "time", "latency", "duration", "value", "oneway", "one", "way", "median", "mean", "avg", "average", "p50")
)
_TYPICAL = ({"median", "p50"}, {"mean", "avg", "average"})  # the preferred one of several times
_UNITS_S = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "usec", "usecs", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanosecond", "nanoseconds"), 1e-9),
}
_RATES = {"mb/s": 1e6, "mbps": 1e6, "mbytes/sec": 1e6, "gb/s": 1e9, "gbps": 1e9, "b/s": 1.0}  # benchmarks write MBps
_LAYERS = {"network": NETWORK, "remote": NETWORK, "same_node": SAME_NODE, "local": SAME_NODE}
_EXPECTED = "expected a header such as op,bytes,median_s (bytes and a time: median_s, time_us, seconds)"


def is_raw(line: str) -> bool:
    """Return True for a line ``operation,bytes,start_s,duration_s``."""
    cells = line.split(",")
    return len(cells) == 4 and number_of(cells[0]) is None and all(number_of(cell) is not None for cell in cells[1:])


def read_raw(lines: Sequence[str], file: str) -> Iterator[Measured]:
    """Yield series of single measurements: operation, bytes, begin and duration in seconds.

    An MPI_Send followed by an MPI_Recv of the same size is a round trip; other receives are of messages that have
    arrived.
    """
    rows: dict[str, list[tuple[int, float]]] = defaultdict(list)
    sent: tuple[int, float] | None = None
    for number, line in enumerate(lines, 1):
        place, cells = f"{file}:{number}", [cell.strip().strip('"') for cell in line.split(",")]
        if not line.strip():
            continue
        if len(cells) != 4:
            raise ConfigError(f"{place}: expected operation,bytes,start_s,duration_s, got {len(cells)} fields")
        name, size = cells[0].lower(), size_of(cells[1], place)
        operation = {"mpi_isend": ISEND, "mpi_recv": RECV}.get(name) or operation_named(name)
        time_s = time_of(cells[3], place, operation=operation)
        if name == "mpi_recv" and sent is not None and sent[0] == size:
            rows[PINGPONG].append((size, (sent[1] + time_s) / 2))
        elif name != "mpi_send":
            rows[operation].append((size, time_s))
        sent = (size, time_s) if name == "mpi_send" else None
    for operation, of_it in rows.items():
        yield Measured(operation, median_by_size(of_it), file)


def is_table(lines: Sequence[str]) -> bool:
    """Return True if lines are a table with a header and columns separated by blanks."""
    names = _cells(_kept(lines)[0][1]) if _kept(lines) else []
    return _size_column(names) is not None and _time_column(names)[0] is not None


def read_csv(lines: Sequence[str], file: str) -> Iterator[Measured]:
    """Yield series of a table with a header: operation (or ping-pong), bytes, time or rate."""
    kept = _kept(lines)
    first, head = kept[0]
    names = [name.lower() for name in _cells(head)]
    size_at = _size_column(names)
    time_at, unit = _time_column(names)
    if size_at is None or time_at is None:
        raise ConfigError(f"{file}:{first}: {_EXPECTED}, got {head.strip()!r}")
    plain = [_plain(name) for name in names]
    name_at = next((at for at, name in enumerate(plain) if name in _OPERATION), None)
    unit_at = names.index("unit") if "unit" in names else None
    layer_at = names.index("layer") if "layer" in names else None
    ranks_at = names.index("ranks") if "ranks" in names else None
    if not unit and unit_at is None:
        say = f"write for example {names[time_at]}_us, or add a column unit"
        raise ConfigError(f"{file}:{first}: missing unit of {names[time_at]!r}; {say}")
    rows: dict[tuple[str, str | None, int | None], list[tuple[int, float]]] = defaultdict(list)
    named = STREAM if unit in _RATES else PINGPONG
    for number, line in kept[1:]:
        cells = _cells(line, like=head)
        place = f"{file}:{number}"
        if len(cells) < len(names):
            raise ConfigError(f"{place}: expected {len(names)} fields ({', '.join(names)}), got {len(cells)}")
        operation = named if name_at is None else operation_named(cells[name_at])
        layer = None if layer_at is None else _layer_named(cells[layer_at], place)
        ranks = None if ranks_at is None else size_of(cells[ranks_at], place)
        size = size_of(cells[size_at], place)
        said_unit = unit if unit_at is None else cells[unit_at]
        time_s = _time(size, cells[time_at], said_unit, place, operation)
        rows[operation, layer, ranks].append((size, time_s))
    for (operation, layer, ranks), of_it in rows.items():
        yield Measured(operation, median_by_size(of_it), file, layer=layer, ranks=ranks)


def _kept(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return the non-empty lines and their numbers; a header may be a comment."""
    found = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    kept = [(number, re.sub(r"\s#.*", "", line)) for number, line in found if not line.lstrip().startswith("#")]
    if kept and number_of(_cells(kept[0][1])[0]) is not None:
        before = [(number, line.lstrip("# \t")) for number, line in found if number < kept[0][0]]
        kept = before[-1:] + kept
    return kept


def _cells(line: str, *, like: str | None = None) -> list[str]:
    """Return the fields of a line, separated as in the line `like`."""
    signs = line if like is None else like
    if not any(sign in signs for sign in ",;\t"):
        return line.split()
    sign = ";" if signs.count(";") > signs.count(",") else "\t" if "\t" in signs and "," not in signs else ","
    return [cell.strip() for cell in next(csv.reader([line], delimiter=sign))]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _size_column(names: Sequence[str]) -> int | None:
    plain = [re.sub(r"(?<=.)(in)?(bytes|byte|b)$", "", _plain(name)) or _plain(name) for name in names]
    return next((at for at, name in enumerate(plain) if name in _SIZES), None)


def _time_column(names: Sequence[str]) -> tuple[int | None, str]:
    """Return the column of a time, and its unit; "" if the header does not contain it.

    Medians take precedence over means, these over other times, and times over rates.
    """
    found: list[tuple[int, int, str]] = []
    for at, name in enumerate(names):
        words = re.findall(r"[a-z0-9]+", re.sub("[\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}]", "u", name.lower()))
        unit = words.pop() if words and words[-1] in _UNITS_S else ""
        if (words or unit) and _TIMES.issuperset(words):
            kind = next((rank for rank, typical in enumerate(_TYPICAL) if typical.intersection(words)), len(_TYPICAL))
            found.append((kind, at, unit))
    if found:
        return min(found)[1:]
    rates = ((at, unit) for at, name in enumerate(names) for unit in _RATES if unit in name.lower())
    return next(rates, (None, ""))


def _layer_named(text: str, place: str) -> str | None:
    if text and text.lower() not in _LAYERS:
        raise ConfigError(f"{place}: expected network or same_node, got {text!r}")
    return _LAYERS.get(text.lower())


def _time(size: int, text: str, unit: str, place: str, operation: str) -> float:
    unit = unit.lower()
    if unit in _RATES:
        return size / (time_of(text, place) * _RATES[unit])
    if unit not in _UNITS_S:
        raise ConfigError(f"{place}: unknown unit {unit!r}; expected s, ms, us, ns, MB/s or GB/s")
    return time_of(text, place, unit_s=_UNITS_S[unit], operation=operation)
