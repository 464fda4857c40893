"""Readers of CSV: tables of medians with a head, and raw lines of single measurements without one."""

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
    Measured,
    median_by_size,
    number_of,
    size_of,
    time_of,
)
from xsim_py.errors import ConfigError

_OPERATION = ("op", "operation", "benchmark", "test", "name")
_SIZE = ("bytes", "size", "msgsize", "sizebytes", "messagesize", "n", "sizeb")
_TIME = re.compile(
    r"(?:median|time|seconds?|latency|duration|mean|avg|average|oneway|value|t)_?\[?(s|ms|us|ns|seconds)?\]?"
)
_UNITS_S = {"s": 1.0, "seconds": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "usec": 1e-6, "ns": 1e-9}
_RATES = {"mb/s": 1e6, "mbps": 1e6, "gb/s": 1e9, "b/s": 1.0}  # bytes: benchmarks write MBps for those
_LAYERS = {"network": NETWORK, "remote": NETWORK, "same_node": SAME_NODE, "local": SAME_NODE}
_EXPECTED = "a head such as op,bytes,median_s is expected here (bytes, and a time: median_s, time_us, seconds)"


def is_raw(line: str) -> bool:
    """Return whether a line is one of ``operation,bytes,start_s,duration_s``."""
    cells = line.split(",")
    return len(cells) == 4 and number_of(cells[0]) is None and all(number_of(cell) is not None for cell in cells[1:])


def read_raw(lines: Sequence[str], file: str) -> Iterator[Measured]:
    """Yield series of single measurements: operation, bytes, when it began and how long it took, in seconds.

    An MPI_Send with the MPI_Recv of the same size that follows it is a round trip; other receives are those of messages
    that have arrived.
    """
    rows: dict[str, list[tuple[int, float]]] = defaultdict(list)
    sent: tuple[int, float] | None = None
    for number, line in enumerate(lines, 1):
        place, cells = f"{file}:{number}", [cell.strip().strip('"') for cell in line.split(",")]
        if not line.strip():
            continue
        if len(cells) != 4:
            raise ConfigError(f"{place}: {len(cells)} fields; operation,bytes,start_s,duration_s are expected")
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


def read_csv(lines: Sequence[str], file: str) -> Iterator[Measured]:
    """Yield series of a table with a head: operation (ping-pong where there is none), bytes, and a time or a rate."""
    kept = [(number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    first, head = kept[0]
    dialect = ";" if head.count(";") > head.count(",") else "\t" if "\t" in head and "," not in head else ","
    names = [name.strip().lower() for name in next(csv.reader([head], delimiter=dialect))]
    plain = [re.sub(r"[\s_()\[\]]", "", name) for name in names]
    size_at = next((at for at, name in enumerate(plain) if name in _SIZE), None)
    time_at, unit = _time_column(names)
    if size_at is None or time_at is None:
        raise ConfigError(f"{file}:{first}: {_EXPECTED}, and not {head.strip()!r}")
    name_at = next((at for at, name in enumerate(plain) if name in _OPERATION), None)
    unit_at = names.index("unit") if "unit" in names else None
    layer_at = names.index("layer") if "layer" in names else None
    ranks_at = names.index("ranks") if "ranks" in names else None
    rows: dict[tuple[str, str | None, int | None], list[tuple[int, float]]] = defaultdict(list)
    for number, line in kept[1:]:
        cells = [cell.strip() for cell in next(csv.reader([line], delimiter=dialect))]
        place = f"{file}:{number}"
        if len(cells) < len(names):
            raise ConfigError(f"{place}: {len(cells)} fields; {len(names)} are expected: {', '.join(names)}")
        operation = PINGPONG if name_at is None else operation_named(cells[name_at])
        layer = None if layer_at is None else _layer_named(cells[layer_at], place)
        ranks = None if ranks_at is None else size_of(cells[ranks_at], place)
        size = size_of(cells[size_at], place)
        said_unit = unit if unit_at is None else cells[unit_at]
        time_s = _time(size, cells[time_at], said_unit, place, operation)
        rows[operation, layer, ranks].append((size, time_s))
    for (operation, layer, ranks), of_it in rows.items():
        yield Measured(operation, median_by_size(of_it), file, layer=layer, ranks=ranks)


def _time_column(names: Sequence[str]) -> tuple[int | None, str]:
    """Return the first column of a time, and its unit."""
    for at, name in enumerate(names):
        match = _TIME.fullmatch(re.sub(r"[\s()]+", "_", name).strip("_"))
        if match is not None:
            return at, match[1] or "s"
    return None, "s"


def _layer_named(said: str, place: str) -> str | None:
    if said and said.lower() not in _LAYERS:
        raise ConfigError(f"{place}: {said!r} is no layer; network or same_node is expected here")
    return _LAYERS.get(said.lower())


def _time(size: int, said: str, unit: str, place: str, operation: str) -> float:
    unit = unit.lower()
    if unit in _RATES:
        return size / (time_of(said, place) * _RATES[unit])
    if unit not in _UNITS_S:
        raise ConfigError(f"{place}: {unit!r} is no unit; s, ms, us, ns, MB/s or GB/s is expected here")
    return time_of(said, place, unit_s=_UNITS_S[unit], operation=operation)
